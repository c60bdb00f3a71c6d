"""Makes the pages docs/reference/python*.md from the docstrings of the module.

    python reference.py        writes the pages; `test_reference.py` compares them
"""

import importlib
import inspect
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/reference"
PAGES = {"python.md": "faltung", "python-ndimage.md": "faltung.ndimage", "python-dask.md": "faltung.dask"}
HEAD = """# Functions of `{}`

`python/tests/reference.py` makes this page from the docstrings. A test compares it with the module.
[The Python module](../python.md) has the types, the devices and the accuracy.
"""


def signature(value, name):
    """The line that calls a function or a class."""
    if inspect.isclass(value) and not value.__text_signature__:
        return name  # nobody but the module makes such objects
    return f"{name}{inspect.signature(value)}"


def prose(lines):
    """Lines of a docstring as Markdown: code in single backticks, examples and literal blocks as code."""
    out, code = [], None
    for line in lines:
        example = re.match(r"\s*>>> ", line) is not None
        if code is None and (example or (out and out[-1].endswith("::") and line.strip())):
            code = ("python" if example else "text", len(line) - len(line.lstrip()))
            if not example:
                out[-1] = out[-1][:-1]
            out += ["", f"```{code[0]}"]
        elif code is not None and not line.strip():
            out += ["```", ""]
            code = None
        if code is not None:
            out.append(line[code[1] :])
        elif line.strip():
            out.append(re.sub(r"``([^`]+)``", r"`\1`", line))
        else:
            out.append("" if not (out and out[-1].endswith("::")) else out.pop())
    return out + ["```"] if code is not None else out


def items(lines):
    """A section of arguments: a list with an item for each."""
    out = []
    for line in lines:
        if line.startswith("    "):
            out += prose([line.replace("    ", "  ", 1)])
        elif line.strip():
            name, _, kind = line.partition(" : ")
            out.append(f"- `{name}`: {kind.replace('`', '')}." if kind else f"- `{name}`:")
    return out


def sections(text):
    """A docstring as Markdown."""
    lines, out, part, title = inspect.cleandoc(text).split("\n"), [], [], None

    def close():
        body = prose(part) if title in (None, "Examples", "Notes", "See Also", "References") else items(part)
        out.extend(([f"**{title}**", ""] if title else []) + body + [""])

    i = 0
    while i < len(lines):
        if i + 1 < len(lines) and re.fullmatch("-{3,}", lines[i + 1].strip()):
            close()
            title, part = lines[i].strip(), []
            i += 2
            continue
        part.append(lines[i])
        i += 1
    close()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def page(module_name):
    """The text of the page of a module."""
    module = importlib.import_module(module_name)
    parts = [HEAD.format(module_name), f"{sections(module.__doc__)}\n"]
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if inspect.ismodule(value) or isinstance(value, str):
            continue
        call = f"```python\n{signature(value, name)}\n```"
        parts.append(f"## `{name}`\n\n{call}\n\n{sections(value.__doc__)}\n")
    return "\n".join(line.rstrip() for line in "\n".join(parts).split("\n"))


if __name__ == "__main__":
    for name, module in PAGES.items():
        (FOLDER / name).write_text(page(module), encoding="utf-8")
