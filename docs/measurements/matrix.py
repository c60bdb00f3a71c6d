"""Prints a table of the fastest times of all formats and masks, from a file of `host calibrate --matrix`.

    python docs/measurements/matrix.py docs/measurements/h100-matrix.csv --side 4096

A cell has the time of the fastest kernel in microseconds. Behind it, in brackets, is the time of a value divided by
that of one channel of `f32`, for the same mask. A star marks kernels that filter planes of `f32`.
"""

import argparse
import csv
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", help="a file of `host calibrate --matrix`")
    parser.add_argument("--side", default="4096", help="the side of the images (4096)")
    parser.add_argument("--kernels", action="store_true", help="show the names of the kernels, not the ratios")
    arguments = parser.parse_args()

    fastest = {}
    with open(arguments.times, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["width"] != arguments.side or row["height"] != arguments.side:
                continue
            cell = (row["separable"] == "true", row["pixel"], int(row["channels"]), int(row["mask_width"]))
            time = (float(row["us"]), row["planes"] == "true", row["kernel"])
            fastest[cell] = min(fastest.get(cell, time), time)
    if not fastest:
        sys.exit(f"{arguments.times} has no times of {arguments.side} x {arguments.side} pixels")

    masks = sorted({mask for *_, mask in fastest})
    formats = sorted({(pixel, channels) for _, pixel, channels, _ in fastest})
    for separable in (False, True):
        kind = "separable" if separable else "dense"
        print(f"{arguments.side} x {arguments.side}, {kind} masks:\n")
        print(f"| format | {' | '.join(f'{mask} x {mask}' for mask in masks)} |")
        print(f"| --- |{' ---: |' * len(masks)}")
        for pixel, channels in formats:
            texts = []
            for mask in masks:
                time, planes, kernel = fastest.get((separable, pixel, channels, mask), (None, None, None))
                reference = fastest.get((separable, "f32", 1, mask))
                if time is None or reference is None:
                    texts.append("")
                    continue
                note = kernel if arguments.kernels else f"({time / channels / reference[0]:.2f})"
                texts.append(f"{time:.0f}{'*' if planes else ''} {note}")
            print(f"| `{pixel}` x {channels} | {' | '.join(texts)} |")
        print()


if __name__ == "__main__":
    main()
