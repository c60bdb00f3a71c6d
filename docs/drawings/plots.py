"""Plots of times, from the reports in docs/measurements."""

import json
from math import log10
from pathlib import Path

from svg import Drawing

REPORTS = Path(__file__).resolve().parent.parent / "measurements/h200"
SIZE = 8192


def _ours(*reports):
    """Times and rooflines in µs, by variant and side of the mask."""
    times, rooflines = {}, {}
    for name in reports:
        for row in json.loads((REPORTS / name).read_text(encoding="utf-8"))["rows"]:
            is_square = row["mask_width"] == row["mask_height"] and row["width"] == row["height"] == SIZE
            if row["backend"] == "cuda" and is_square and row["pixel"] == "f32" and row["channels"] == 1:
                variant, side = row["variant"], row["mask_width"]
                times.setdefault(variant, {})[side] = row["kernel_us"]
                rooflines.setdefault(variant, {})[side] = row["floor_us"]
    return times, rooflines


def _peers():
    """Times in µs, by program and side of the mask."""
    times = {}
    for cell in json.loads((REPORTS / "peers.json").read_text(encoding="utf-8"))["cells"]:
        if cell["n"] == SIZE:
            # One program for each size of mask: cuda-tile3, cuda-tile5 …
            who = "cuda-tile" if cell["who"].startswith("cuda-tile") else cell["who"]
            times.setdefault(who, {})[cell["k"]] = 1000 * cell["ms"]
    return times


def time_against_mask():
    """Kernel times on an H200 for 8192 x 8192 `f32`, the figures of docs/measurements/h200.md."""
    times, rooflines = _ours("f32-8192.json", "f32-large-8192.json")
    separable, _ = _ours("separable-8192.json")
    peers = _peers()
    dense, roofline = times["sliding_window"], rooflines["sliding_window"]
    transforms = times["fft_tile"] | times["fft_passes"]
    separable = {side: time for variant in separable.values() for side, time in variant.items()}

    series = [
        ("cuDNN (PyTorch)", peers["cudnn-torch"], "dim", "2 3"),
        ("NPP", peers["npp-filter"], "orange", "7 3"),
        ("CUDA C++ tile", peers["cuda-tile"], "orange", "2 3"),
        ("CuPy, FFT by tiles", peers["cupy-overlap-save"], "purple", "7 3"),
        ("dense, exact", dense, "blue", None),
        ("FFT, bounded", transforms, "purple", None),
        ("separable, bounded", separable, "green", None),
        ("roofline of dense", roofline, "ink", "1 3"),
    ]
    d = Drawing("Kernel time against the side of the mask on an H200, 8192 x 8192 pixels of f32", 432)
    d.text(12, 20, "H200, 8192 x 8192, f32, one channel: kernel time", bold=True)
    left, right, top, bottom = 52, 388, 36, 300
    first, last = log10(2.7), log10(140)
    low, high = 2.0, log10(150000)

    def at(side, time):
        across = (log10(side) - first) / (last - first)
        return left + across * (right - left), bottom - (log10(time) - low) / (high - low) * (bottom - top)

    for time, name in ((100, "0.1 ms"), (1000, "1 ms"), (10000, "10 ms"), (100000, "100 ms")):
        y = at(3, time)[1]
        d.line([(left, y), (right, y)], "line", stroke_width=1)
        d.text(left - 6, y + 4, name, "dim", "end", small=True)
        for step in (2, 3, 5):
            if log10(step * time) < high:
                y = at(3, step * time)[1]
                d.line([(left, y), (right, y)], "grey", stroke_width=1)
    for side in (3, 5, 7, 9, 13, 21, 31, 63, 127):
        x = at(side, 100)[0]
        d.line([(x, bottom), (x, bottom + 4)], "dim", stroke_width=1)
        d.text(x, bottom + 16, str(side), "dim", "middle", small=True)
    d.text((left + right) / 2, bottom + 32, "side of the square mask, pixels", "dim", "middle", small=True)
    for name, points, color, dash in series:
        places = [at(side, points[side]) for side in sorted(points)]
        d.line(places, color, dash, stroke_width=2)
        if name != "roofline of dense":
            for x, y in places:
                d.circle(x, y, 2.4, color)
    d.text(14, bottom + 53, "others", bold=True)
    d.text(210, bottom + 53, "this project", bold=True)
    for i, (name, _, color, dash) in enumerate(series):
        x, y = 14 + 196 * (i // 4), bottom + 70 + 17 * (i % 4)
        d.line([(x, y - 4), (x + 30, y - 4)], color, dash, stroke_width=2)
        d.text(x + 38, y, name, "ink" if i >= 4 else "dim", small=True)
    return d
