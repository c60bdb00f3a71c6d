"""Tests of the checks: each kind of broken link, and a stale drawing, planted, must be found."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import links
import repository

PAGES = {
    "README.md": "# Title\n\n[to](docs/a.md#a-b-1) [own](#title) [web](https://example.org/x) ![p](docs/p.svg)\n",
    "docs/a.md": "# A, `b`?\n\ntext\n\n# a b\n\n[back](../README.md) [line](../x.rs#L3)\n\n"
    "```text\n[no](link.md)\n```\n",
    "docs/p.svg": "<svg/>",
    "x.rs": "fn main() {}\n",
}
BROKEN = {
    "[x](docs/none.md)": "there is no file docs/none.md",
    "[x](docs/A.md)": "there is no file docs/A.md",
    "[x](docs/a.md#none)": "docs/a.md has no anchor none",
    "[x](#none)": "README.md has no anchor none",
    "![x](none.svg)": "there is no file none.svg",
    "[x][r]\n\n[r]: none.md": "there is no file none.md",
    "[x](/docs/a.md)": "an absolute path",
    "[x](x.rs#main)": "x.rs has no anchors",
    "[x](https://)": "no valid address",
    "[x](htps://example.org)": "the scheme 'htps'",
    "[x](mailto:nobody)": "no address",
}


class Links(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name, text in PAGES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text)
        subprocess.run(["git", "init", "--quiet"], cwd=self.root, check=True)

    def test_good_links_pass(self):
        self.assertEqual(links.check_repository(self.root), [])

    def test_each_broken_link_is_found(self):
        for link, problem in BROKEN.items():
            with self.subTest(link):
                (self.root / "README.md").write_text(PAGES["README.md"] + "\n" + link + "\n")
                found = links.check_repository(self.root)
                self.assertEqual(len(found), 1, found)
                self.assertIn(problem, found[0])

    def test_broken_links_of_a_book_are_found(self):
        book = self.root / "book"
        book.mkdir()
        (book / "b.html").write_text("<h2 id=there>b</h2>")
        (book / "index.html").write_text('<a href="b.html#there">b</a><a href="b.html">b</a><img src="p.png">')
        self.assertEqual(links.check_book(book), ["index.html: p.png: there is no file p.png"])
        (book / "p.png").write_text("")
        self.assertEqual(links.check_book(book), [])
        (book / "index.html").write_text('<a href="b.html#none">b</a><a href="c.html">c</a>')
        self.assertEqual(len(links.check_book(book)), 2)

    def test_what_a_book_loads_from_servers_is_found(self):
        book = self.root / "book"
        book.mkdir()
        (book / "index.html").write_text('<a href="https://example.org/x">x</a>')
        self.assertEqual(links.check_book(book), [])
        (book / "index.html").write_text('<script src="https://example.org/x.js"></script>')
        self.assertIn("another server", links.check_book(book)[0])

    def test_anchors_are_those_of_github(self):
        for heading, anchor in [
            ("`fft_tile`: large dense masks", "fft_tile-large-dense-masks"),
            ("What is left out, and why", "what-is-left-out-and-why"),
            ("Why not for images of `u16`?", "why-not-for-images-of-u16"),
        ]:
            self.assertIn(anchor, repository.document(f"## {heading}\n").anchors)


class Drawings(unittest.TestCase):
    def test_a_stale_drawing_is_found(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        copy = Path(folder.name) / "docs/drawings"
        shutil.copytree(repository.ROOT / "docs/drawings", copy)
        for source in ("images", "measurements"):
            (copy.parent / source).symlink_to(repository.ROOT / "docs" / source)

        def check():
            return subprocess.run([sys.executable, copy / "make.py", "--check"], capture_output=True, text=True)

        self.assertEqual(check().returncode, 0)
        (copy / "other.svg").write_text("<svg/>")
        self.assertIn("other.svg", check().stderr)
        (copy / "other.svg").unlink()
        drawing = copy / "overlap-save.svg"
        drawing.write_text(drawing.read_text().replace("98", "97"))
        self.assertIn("overlap-save.svg", check().stderr)
        self.assertEqual(check().returncode, 1)


if __name__ == "__main__":
    unittest.main()
