"""The Markdown files of the repository, their links and their anchors, as GitHub shows them."""

import posixpath
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown

ROOT = Path(__file__).resolve().parent.parent


def slug(text, separator="-"):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def markdown_files(root=ROOT):
    """The Markdown files of the working tree that git does not ignore, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted({name for name in names.split("\0") if name and (root / name).is_file()})


class Document(HTMLParser):
    """The links and the anchors of HTML."""

    LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "srcset"}

    def __init__(self, html):
        super().__init__()
        self.links = []
        self.loaded = []  # links to what a browser loads with the page
        self.anchors = set()
        self._heading = None
        self._slugs = {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        link = attributes.get(self.LINKS.get(tag))
        if link is not None:
            self.links.append(link)
            if tag != "a":
                self.loaded.append(link)
        self.anchors.update(value for name in ("id", "name") if (value := attributes.get(name)))
        if re.fullmatch("h[1-6]", tag):
            self._heading = ""

    def handle_data(self, data):
        if self._heading is not None:
            self._heading += data

    def handle_endtag(self, tag):
        if re.fullmatch("h[1-6]", tag) and self._heading is not None:
            anchor = slug(self._heading)
            count = self._slugs.get(anchor, 0)
            self._slugs[anchor] = count + 1
            self.anchors.add(f"{anchor}-{count}" if count else anchor)
            self._heading = None


def document(text):
    """Markdown's links and anchors."""
    return Document(markdown.markdown(text, extensions=["tables", "fenced_code", "sane_lists"]))


def is_external(link):
    """Whether a link has a scheme, such as https."""
    return bool(urlsplit(link).scheme)


def split(link, page):
    """The path that a relative link of a page leads to, and its anchor. Both paths are relative to the root."""
    parts = urlsplit(link)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path))) if parts.path else page
    return path, unquote(parts.fragment)
