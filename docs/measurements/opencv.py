"""Times the CPU of `host bench` beside OpenCV's functions, and writes a CSV.

    pip install opencv-python-headless numpy
    cargo build --release -p host
    python3 docs/measurements/opencv.py target/release/host > docs/measurements/CPU.csv

Both get the same sizes, masks and number of threads. Rounds of both take turns; the shortest time of each counts, in
us. Dense masks: `filter2D`. Separable ones: the faster of `sepFilter2D` and `GaussianBlur`. Borders are zero.
`GaussianBlur` rounds its coefficients to 8 binary digits for bytes; all other results are those of `f32` coefficients.
"""

import csv
import json
import subprocess
import sys
import time

import cv2
import numpy as np

ROUNDS = 3
MASKS = (3, 5, 7, 9, 13, 31, 63)


def shortest(function):
    """The shortest of some runs, in us."""
    function()
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < 0.1:
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e6


def ours(host, size, pixel, channels, separable):
    """Time and method of `host bench` for each mask."""
    command = [host, "bench", "--device", "cpu", "--json", "-", "--sizes", str(size), "--pixel", pixel]
    command += ["--channels", str(channels), "--masks", ",".join(map(str, MASKS))] + ["--separable"] * separable
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {row["mask_width"]: (row["kernel_us"], row["variant"]) for row in report["rows"]}


def peers(image, side, separable, random):
    """The times of OpenCV's functions."""
    border = cv2.BORDER_CONSTANT
    if separable:
        row = cv2.getGaussianKernel(side, -1).astype(np.float32)
        return {
            "sepFilter2D": shortest(lambda: cv2.sepFilter2D(image, -1, row, row, borderType=border)),
            "GaussianBlur": shortest(lambda: cv2.GaussianBlur(image, (side, side), 0, borderType=border)),
        }
    mask = random.random((side, side), dtype=np.float32)
    mask /= mask.sum()
    return {"filter2D": shortest(lambda: cv2.filter2D(image, -1, mask, borderType=border))}


def main(host):
    random = np.random.default_rng(1)
    print(f"OpenCV {cv2.__version__}, {cv2.getNumThreads()} threads", file=sys.stderr)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["size", "pixel", "channels", "mask", "side", "method", "us", "peer", "peer_us", "ratio"])
    for size in (512, 2048, 4096):
        for pixel, channels in (("f32", 1), ("u8", 1), ("u8", 3)):
            image = random.random((size, size) if channels == 1 else (size, size, channels), dtype=np.float32)
            if pixel == "u8":
                image = (image * 255).astype(np.uint8)
            for separable in (False, True):
                best = {side: [(float("inf"), ""), {}] for side in MASKS}
                for _ in range(ROUNDS):
                    mine = ours(host, size, pixel, channels, separable)
                    for side, kept in best.items():
                        kept[0] = min(kept[0], mine[side])
                        for name, us in peers(image, side, separable, random).items():
                            kept[1][name] = min(us, kept[1].get(name, us))
                for side, ((us, method), times) in best.items():
                    peer = min(times, key=times.get)
                    kind = "separable" if separable else "dense"
                    row = [size, pixel, channels, kind, side, method, f"{us:.0f}", peer, f"{times[peer]:.0f}"]
                    table.writerow([*row, f"{times[peer] / us:.2f}"])
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
