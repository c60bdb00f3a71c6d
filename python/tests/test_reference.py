"""The pages docs/reference/python*.md are what the docstrings say."""

from itertools import zip_longest

import pytest
import reference


def difference(found, expected):
    """The first line in which two texts differ, or None."""
    for number, (a, b) in enumerate(zip_longest(found.split("\n"), expected.split("\n")), 1):
        if a != b:
            return f"line {number} is {a!r}, the module says {b!r}"
    return None


@pytest.mark.parametrize("name, module", reference.PAGES.items())
def test_pages_are_current(name, module):
    stale = difference((reference.FOLDER / name).read_text(encoding="utf-8"), reference.page(module))
    assert stale is None, f"{name}: {stale}; run python/tests/reference.py"


@pytest.mark.parametrize("text", ["a\nc", "a\nb\nc", "a"])
def test_each_difference_is_found(text):
    assert difference("a\nb", text) is not None and difference(text, text) is None
