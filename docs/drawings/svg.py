"""A drawing in SVG: shapes whose colours follow the reader's choice of light or dark, readable at a width of 400 px."""

from html import escape

WIDTH = 400

# Name: (light, dark).
COLORS = {
    "page": ("#ffffff", "#12161c"),
    "ink": ("#1b2430", "#e4e9f0"),
    "dim": ("#5a6675", "#9aa7b7"),
    "line": ("#b4bdc9", "#465364"),
    "blue": ("#1d5fb0", "#74b0ff"),
    "pale-blue": ("#dbe9fa", "#1c3554"),
    "green": ("#14743f", "#63cf93"),
    "pale-green": ("#d6f0e0", "#173f2a"),
    "orange": ("#b25208", "#ffb066"),
    "pale-orange": ("#fde6cf", "#4d3015"),
    "purple": ("#7a3cae", "#cb9bf5"),
    "pale-purple": ("#ecdffa", "#3a2552"),
    "grey": ("#e9edf2", "#252d38"),
}


def _style():
    rules = []
    for mode in (0, 1):
        colors = "".join(
            f".f-{name}{{fill:{color[mode]}}}.s-{name}{{stroke:{color[mode]}}}" for name, color in COLORS.items()
        )
        rules.append(colors if mode == 0 else f"@media (prefers-color-scheme:dark){{{colors}}}")
    text = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px}"
    return text + ".small{font-size:11px}.bold{font-weight:600}.none{fill:none}" + "".join(rules)


class Drawing:
    """A list of shapes. All measures are pixels of a drawing 400 px wide."""

    def __init__(self, title, height):
        self.title = title
        self.height = height
        self.shapes = []

    def rect(self, x, y, width, height, fill="none", stroke=None, dash=None, radius=0, stroke_width=1):
        classes = "none" if fill == "none" else f"f-{fill}"
        attributes = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        attributes += f' rx="{radius:g}"' if radius else ""
        self._shape("rect", attributes, classes, stroke, dash, stroke_width)

    def line(self, points, stroke="ink", dash=None, arrow=False, stroke_width=1.25):
        """A line through points, with an arrow at its end if asked for."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._shape("polyline", f'points="{path}"', "none", stroke, dash, stroke_width)
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
            u, v = (x1 - x0) / length, (y1 - y0) / length
            base, side = (x1 - 7 * u, y1 - 7 * v), (3.5 * v, 3.5 * u)
            head = [(x1, y1), (base[0] - side[0], base[1] + side[1]), (base[0] + side[0], base[1] - side[1])]
            points = " ".join(f"{x:.2f},{y:.2f}" for x, y in head)
            self.shapes.append(f'<polygon class="f-{stroke}" points="{points}"/>')

    def circle(self, x, y, radius, fill):
        self.shapes.append(f'<circle class="f-{fill}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def text(self, x, y, words, color="ink", anchor="start", small=False, bold=False):
        """Words, with their base line at y. A list of words is lines, 14 px apart."""
        for i, line in enumerate([words] if isinstance(words, str) else words):
            # Wide fonts take half an em and some more for a letter.
            width = len(line) * (11 if small else 12) * (0.56 if bold else 0.51)
            first = x - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            if first < 2 or first + width > WIDTH - 2:
                raise ValueError(f"{line!r} takes {first:.0f} to {first + width:.0f} of {WIDTH} pixels")
            classes = f"f-{color}" + (" small" if small else "") + (" bold" if bold else "")
            place = f'x="{x:g}" y="{y + 14 * i:g}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
            self.shapes.append(f'<text class="{classes}" {place}>{escape(line, quote=False)}</text>')

    def box(self, x, y, width, height, words, fill="grey", stroke="line", color="ink", small=True, bold_first=False):
        """A box with centred lines of text."""
        lines = [words] if isinstance(words, str) else words
        self.rect(x, y, width, height, fill, stroke, radius=4)
        first = y + height / 2 - 7 * (len(lines) - 1) + 4
        for i, line in enumerate(lines):
            self.text(x + width / 2, first + 14 * i, line, color, "middle", small, bold_first and i == 0)

    def _shape(self, name, attributes, classes, stroke, dash, stroke_width):
        if stroke:
            classes += f" s-{stroke}"
            attributes += f' stroke-width="{stroke_width:g}"'
        if dash:
            attributes += f' stroke-dasharray="{dash}"'
        self.shapes.append(f'<{name} class="{classes}" {attributes}/>')

    def svg(self):
        """The text of the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="560" '
            f'height="{self.height * 560 / WIDTH:g}" role="img">'
        )
        page = f'<rect class="f-page" width="{WIDTH}" height="{self.height}" rx="6"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, f"<style>{_style()}</style>", page, *self.shapes, "</svg>", ""])
