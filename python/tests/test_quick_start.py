"""The code of docs/start/python.md runs."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/start/python.md"


def run(text):
    """Runs the Python blocks of a page, one after the other, and returns their number."""
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    return len(blocks)


def test_page_runs():
    assert run(PAGE.read_text(encoding="utf-8")) >= 4


def test_a_block_that_fails_is_found():
    with pytest.raises(NameError):
        run("```python\nx = 1\n```\n\n```python\nx + y\n```\n")
