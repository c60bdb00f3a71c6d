"""What MkDocs calls: it adds the pages and files outside of docs/, and makes links between them relative to the book.

GitHub shows the same Markdown files where they are. In the book README.md is the first page, other Markdown files
outside of docs/ lie in repository/, and each other file that a page links lies in source/, as a page with its text.
"""

import json
import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent))
from repository import ROOT, document, is_external, markdown_files, slug, split  # noqa: E402

# Languages of code by the ends of names.
LANGUAGES = {".rs": "rust", ".py": "python", ".toml": "toml", ".json": "json", ".yml": "yaml", ".csv": "text"}
# Between the numbers of a size such as 3 x 3, which stays on one line.
SIZE = re.compile(r"(?<=\d) x (?=\d)")
# The longest code of a cell that stays on one line.
SHORT = 16
# Files that are shown as they are.
BINARY = {".png", ".jpg", ".svg", ".npy", ".tif"}

# What the search needs from file://, and the address where the theme looks for the like of it.
SEARCH = "search-frame.js"
COLOURS = "system-colours.js"
SEARCH_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"

_page_source = None
_uris = {}


def source_page(path):
    """The text of a page that shows a file, or the names in a folder."""
    whole = ROOT / path
    if whole.is_dir():
        names = sorted(name.name for name in whole.iterdir() if not name.name.startswith("."))
        text, language = "\n".join(names), "text"
    else:
        text, language = whole.read_text(encoding="utf-8"), LANGUAGES.get(whole.suffix, "text")
    fence = "~" * 12  # longer than any in the file
    # Lines have up to 120 characters: the space of the table of contents is theirs.
    # The search is for pages with text.
    return f"---\nhide: [toc]\nsearch: {{exclude: true}}\n---\n\n# `{path}`\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


class BookLinks(Treeprocessor):
    """Makes the relative links of a page lead to the same files in the book."""

    def run(self, root):
        for element in root.iter():
            attribute = {"a": "href", "img": "src"}.get(element.tag)
            link = element.get(attribute) if attribute else None
            if not link or is_external(link) or not urlsplit(link).path:
                continue
            path, anchor = split(link, _page_source)
            uri = _uris.get(path)
            if uri is None:
                continue  # MkDocs warns, and a warning is an error
            link = posixpath.relpath(uri, posixpath.dirname(_uris[_page_source]) or ".")
            # A line of a file has no anchor in the book.
            is_line = uri.startswith("source/")
            element.set(attribute, link if not anchor or is_line else f"{link}#{anchor}")
        # Not in headings: there, wide tables need the narrow columns.
        for cell in root.iter("td"):
            for element in cell.iter():
                element.text = element.text and SIZE.sub("\u00a0x\u00a0", element.text)
                if element is not cell:
                    element.tail = element.tail and SIZE.sub("\u00a0x\u00a0", element.tail)
            for code in cell.iter("code"):
                code.text = code.text.replace("\\|", "|") if code.text else code.text
                # An option such as --exact would break behind its hyphens.
                if code.text and len(code.text) <= SHORT:
                    code.set("class", "short")


class BookExtension(Extension):
    def extendMarkdown(self, md):  # noqa: N802: the name is that of Markdown
        # Behind the inline patterns (20), before MkDocs resolves links (0).
        md.treeprocessors.register(BookLinks(md), "book-links", 5)


def on_config(config):
    config.markdown_extensions.append(BookExtension())
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": True, "toc_depth": 3}
    return config


def on_files(files, config):
    for file in files:
        _uris[f"docs/{file.src_uri}"] = file.src_uri
    pages = markdown_files()
    for path in pages:
        if not path.startswith("docs/"):
            _uris[path] = "index.md" if path == "README.md" else f"repository/{path}"
            files.append(File.generated(config, _uris[path], abs_src_path=str(ROOT / path)))
    for page in pages:
        for link in document((ROOT / page).read_text(encoding="utf-8")).links:
            if is_external(link):
                continue
            path, _ = split(link, page)
            if path in _uris or not (ROOT / path).exists():
                continue
            if Path(path).suffix in BINARY:
                _uris[path] = f"source/{path}"
                files.append(File.generated(config, _uris[path], abs_src_path=str(ROOT / path)))
            else:
                _uris[path] = f"source/{path}.md"
                files.append(File.generated(config, _uris[path], content=source_page(path)))
    for name in ("book.css", SEARCH, COLOURS):
        files.append(File.generated(config, name, abs_src_path=str(Path(__file__).with_name(name))))
    return files


def on_page_markdown(markdown, page, config, files):
    global _page_source
    uri = page.file.src_uri
    _page_source = next((path for path, of_book in _uris.items() if of_book == uri), uri)
    library = Path(config.site_dir).parent / "doc/faltung/index.html"
    if uri == "reference/library.md" and library.is_file():
        # HTML: MkDocs knows no file outside of the book.
        markdown += '\n<p><a href="../../doc/faltung/index.html">Open the documentation of the library</a></p>\n'
    if uri == "measurements/README.md":
        # `cargo xtask book` puts them there when the book is built.
        pages = json.loads((ROOT / "docs/measurements/pages.json").read_text(encoding="utf-8"))
        links = [f'<li><a href="../report/{name}.html">{page["title"]}</a></li>' for name, page in pages.items()]
        markdown += "\n## Drawings\n\n<ul>\n" + "\n".join(links) + "\n</ul>\n"
    return markdown


def with_scripts(html, root):
    """A page with our scripts in its head. `root` leads from the page to the book."""
    html = html.replace(SEARCH_ELSEWHERE, root + SEARCH)
    return html.replace("</title>", f'</title><script src="{root}{COLOURS}"></script>', 1)


def on_post_page(output, page, config):
    root = posixpath.relpath(".", posixpath.dirname(page.url) or ".")
    return with_scripts(output, "" if root == "." else f"{root}/")


def on_post_template(output_content, template_name, config):
    return with_scripts(output_content, "") if template_name.endswith(".html") else output_content
