"""Times the CPU of `host bench` beside OpenCV's functions, and writes a CSV.

    pip install opencv-python-headless numpy
    cargo build --release -p host
    python3 docs/measurements/opencv.py target/release/host > docs/measurements/CPU.csv

Sides of the images may follow the program: by default 512, 2048 and 4096. With `--separable-bytes` in front of the
program, only separable masks on bytes are measured. For a CPU with AVX2 alone, set
`FALTUNG_CPU=avx2` and `OPENCV_CPU_DISABLE=AVX512-SKX`.

Both get the same sizes, masks and number of threads. Rounds of both take turns; the shortest time of each counts, in
us. Dense masks: `filter2D`. Separable ones: the faster of `sepFilter2D` and `GaussianBlur`. Borders are zero.
`GaussianBlur` rounds its coefficients to 8 binary digits for bytes; all other results are those of `f32` coefficients.

Separable masks on bytes are measured in two accuracy classes: Bounded, whose bytes are bit-exact, and Normwise.
"""

import csv
import json
import subprocess
import sys
import time

import cv2
import numpy as np

ROUNDS = 3
SIZES = [512, 2048, 4096]
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


def ours(host, size, pixel, channels, separable, accuracy):
    """Time and method of `host bench` for each mask."""
    command = [host, "bench", "--device", "cpu", "--json", "-", "--sizes", str(size), "--pixel", pixel]
    command += ["--channels", str(channels), "--masks", ",".join(map(str, MASKS))] + ["--separable"] * separable
    command += ["--accuracy", accuracy]
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


def main(host, sizes, only_separable_bytes):
    random = np.random.default_rng(1)
    print(f"OpenCV {cv2.__version__}, {cv2.getNumThreads()} threads", file=sys.stderr)
    table = csv.writer(sys.stdout, lineterminator="\n")
    heads = ["size", "pixel", "channels", "mask", "accuracy", "side", "method", "us", "peer", "peer_us", "ratio"]
    table.writerow(heads)
    for size in sizes:
        for pixel, channels in (("u8", 1), ("u8", 3)) if only_separable_bytes else (("f32", 1), ("u8", 1), ("u8", 3)):
            image = random.random((size, size) if channels == 1 else (size, size, channels), dtype=np.float32)
            if pixel == "u8":
                image = (image * 255).astype(np.uint8)
            for separable in (True,) if only_separable_bytes else (False, True):
                classes = ("bounded", "normwise") if separable and pixel == "u8" else ("bounded",)
                times = {(side, accuracy): (float("inf"), "") for side in MASKS for accuracy in classes}
                of_peers = {side: {} for side in MASKS}
                for _ in range(ROUNDS):
                    for accuracy in classes:
                        mine = ours(host, size, pixel, channels, separable, accuracy)
                        for side in MASKS:
                            times[side, accuracy] = min(times[side, accuracy], mine[side])
                    for side, kept in of_peers.items():
                        for name, us in peers(image, side, separable, random).items():
                            kept[name] = min(us, kept.get(name, us))
                kind = "separable" if separable else "dense"
                for (side, accuracy), (us, method) in times.items():
                    peer, peer_us = min(of_peers[side].items(), key=lambda item: item[1])
                    row = [size, pixel, channels, kind, accuracy, side, method, f"{us:.0f}", peer, f"{peer_us:.0f}"]
                    table.writerow([*row, f"{peer_us / us:.2f}"])
                sys.stdout.flush()


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--separable-bytes"]
    main(arguments[0], [int(size) for size in arguments[1:]] or SIZES, "--separable-bytes" in sys.argv)
