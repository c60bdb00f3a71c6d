"""Checks the links of the Markdown files of the repository, and those of a built book.

    python links.py [FOLDER OF THE BOOK]

A relative link must lead to a file, and its anchor to a heading. Of a link to another server only the syntax is
checked: nothing is fetched.
"""

import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from repository import ROOT, Document, document, is_external, markdown_files, split


def external_problem(link):
    """What is wrong with a link to another server, if anything."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return None if "@" in parts.path else "no address"
    if parts.scheme not in ("https", "http"):
        return f"the scheme {parts.scheme!r}"
    if not parts.hostname or "." not in parts.hostname or re.search(r"\s", link):
        return "no valid address of a server"
    return None


def check(root, pages, read):
    """What is wrong with the links of pages. `read` gives a page's `Document`, or None for what has no anchors."""
    documents = {page: read(page) for page in pages}
    problems = []
    for page, contents in documents.items():
        for link in contents.links:
            if is_external(link):
                if problem := external_problem(link):
                    problems.append(f"{page}: {link}: {problem}")
                continue
            if link.startswith("/"):
                problems.append(f"{page}: {link}: an absolute path")
                continue
            path, anchor = split(link, page)
            if not (root / path).exists():
                problems.append(f"{page}: {link}: there is no file {path}")
            elif anchor and path in documents and anchor not in documents[path].anchors:
                problems.append(f"{page}: {link}: {path} has no anchor {anchor}")
            elif anchor and path not in documents and not re.fullmatch(r"L\d+(-L\d+)?", anchor):
                problems.append(f"{page}: {link}: {path} has no anchors")
    return problems


def check_repository(root=ROOT):
    """What is wrong with the links of the Markdown files."""
    return check(root, markdown_files(root), lambda page: document((root / page).read_text(encoding="utf-8")))


def check_book(folder):
    """What is wrong with the links of the HTML files of a book, which needs no server."""
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    pages = [page for page in pages if page != "404.html"]  # a server shows it for any path
    documents = {page: Document((folder / page).read_text(encoding="utf-8")) for page in pages}
    problems = [
        f"{page}: {link}: a browser would load this from another server"
        for page, contents in documents.items()
        for link in contents.loaded
        if is_external(link)
    ]
    return problems + check(folder, pages, documents.get)


def main(folders):
    problems = check_repository()
    for folder in folders:
        if not (Path(folder) / "index.html").is_file():
            problems.append(f"{folder}: there is no book")
        problems += check_book(Path(folder))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
