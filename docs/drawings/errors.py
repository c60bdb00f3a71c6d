"""The scale of the pictures of errors: their colours and what they mean."""

import struct
from pathlib import Path

from svg import Drawing

PICTURE = Path(__file__).resolve().parent.parent / "images/error-exact.png"
# The errors that separate two colours: tests/reference/pictures.rs.
LIMITS = ["0.01", "0.1", "1", "10", "100", "1000", "10,000"]


def _colors():
    """The palette of a PNG."""
    data = PICTURE.read_bytes()
    at = 8
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        if name == b"PLTE":
            palette = data[at + 8 : at + 8 + length]
            return [palette[i : i + 3].hex() for i in range(0, length, 3)]
        at += 12 + length
    raise ValueError(f"{PICTURE.name} has no palette")


def scale():
    """A box for each colour, with the errors between two of them."""
    d = Drawing("Colours of errors, in units of u times the sum of the absolute products", 74)
    colors = _colors()
    left, width, height = 16, 46, 20
    if len(colors) != len(LIMITS) + 1:
        raise ValueError(f"{len(colors)} colours for {len(LIMITS)} limits")
    d.text(left, 18, "error / (u * sum|M * I|) at the pixel", small=True, bold=True)
    for i, color in enumerate(colors):
        d.shapes.append(f'<rect fill="#{color}" x="{left + i * width}" y="28" width="{width}" height="{height}"/>')
    d.rect(left, 28, len(colors) * width, height, stroke="line")
    for i, limit in enumerate(LIMITS):
        x = left + (i + 1) * width
        d.line([(x, 28 + height), (x, 28 + height + 4)], "dim", stroke_width=1)
        d.text(x, 28 + height + 17, limit, "dim", "middle", small=True)
    return d
