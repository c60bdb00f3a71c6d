#!/usr/bin/env python3
"""An image larger than memory through `host filter`: made, filtered, killed, completed, compared.

    python3 larger_than_memory.py --host target/release/host --folder /big --side 60000 --memory 2G

1. Makes a Zarr array of SIDE x SIDE values of u16, in shards of 4096 x 4096, compressed.
2. Filters it with a Gaussian, undisturbed, and takes the time and the peak of memory.
3. Filters it again, kills the process several times at random moments (SIGKILL), and completes it.
4. Compares both results byte for byte, and random windows with SciPy.

It needs NumPy and SciPy, and on the disk some four times the bytes of the image.
"""

import argparse
import pathlib
import random
import shutil
import subprocess
import time

import numpy as np
import scipy.ndimage

SIGMA = 3
SHARD = 4096
ROWS = 512


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="host", help="the program")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="where the arrays are made")
    parser.add_argument("--side", type=int, default=60_000)
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    return parser.parse_args()


def make(path, side, seed):
    """An image like a scan: smooth regions, edges and noise."""
    image = np.lib.format.open_memmap(path, "w+", np.uint16, (side, side))
    generator = np.random.default_rng(seed)
    columns = np.arange(side)
    for top in range(0, side, ROWS):
        rows = np.arange(top, min(top + ROWS, side))[:, None]
        smooth = 9000 + 4000 * np.sin(columns / 700) * np.cos(rows / 900)
        edges = 20_000 * ((columns // 1500 + rows // 1100) % 2)
        noise = generator.integers(0, 64, (len(rows), side))
        image[top : top + len(rows)] = (smooth + edges + noise).astype(np.uint16)
    image.flush()


def run(arguments, **options):
    print("$", " ".join(map(str, arguments)), flush=True)
    return subprocess.Popen(list(map(str, arguments)), **options)


def finish(process):
    if process.wait() != 0:
        raise SystemExit(f"the exit status is {process.returncode}")


def watch(process):
    """Waits for a process, and returns the peak of its memory in bytes, as Linux keeps it while the process runs."""
    peak = 0
    while process.poll() is None:
        try:
            listing = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        lines = dict(line.split(":", 1) for line in listing.splitlines() if ":" in line)
        # Before it is the program, the process is a copy of this one.
        if lines["Name"].strip() != "python3" and "VmHWM" in lines:
            peak = max(peak, int(lines["VmHWM"].split()[0]) * 1024)
        time.sleep(0.01)
    finish(process)
    return peak


def files(folder):
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not path.name.startswith(".host-unfinished-"))


def same(one, other):
    if files(one) != files(other):
        return False
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in files(one))


def main():
    arguments = parse()
    print("seed", arguments.seed)
    chance = random.Random(arguments.seed)
    folder, side = arguments.folder, arguments.side
    folder.mkdir(parents=True, exist_ok=True)
    source, image = folder / "source.npy", folder / "image.zarr"
    whole, killed = folder / "whole.zarr", folder / "killed.zarr"
    for old in (image, whole, killed):
        shutil.rmtree(old, ignore_errors=True)
    make(source, side, arguments.seed)
    common = ["--memory", arguments.memory, "--device", arguments.device]
    finish(run([arguments.host, "filter", source, "-o", image, "--identity", "--chunk", SHARD, *common]))
    stored = sum((image / name).stat().st_size for name in files(image))
    print(f"{side} x {side} u16: {side * side * 2 / 1e9:.2f} GB, {stored / 1e9:.2f} GB compressed")

    gaussian = [arguments.host, "filter", image, "--gaussian", SIGMA, "--border", "mirror", *common]
    begin = time.monotonic()
    peak = watch(run([*gaussian, "-o", whole]))
    seconds = time.monotonic() - begin
    print(f"undisturbed: {seconds:.1f} s, {side * side / seconds / 1e6:.1f} Mpixels/s, peak {peak / 2**20:.0f} MiB")

    for number in range(arguments.kills):
        process = run([*gaussian, "-o", killed, "--skip-existing"])
        try:
            process.wait(chance.uniform(0.02, 0.9) * seconds / max(arguments.kills, 1))
            print("the process ended before it was killed")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            chunks = len(files(killed)) - 1 if killed.exists() else 0
            print(f"kill {number + 1}: {chunks} chunks are there")
    finish(run([*gaussian, "-o", killed, "--skip-existing"]))
    if not same(whole, killed):
        raise SystemExit("the completed result differs from the undisturbed one")
    print("the completed result is the undisturbed one, byte for byte")
    shutil.rmtree(killed)

    result = folder / "result.npy"
    finish(run([arguments.host, "filter", whole, "-o", result, "--identity", "--overwrite", *common]))
    before, after = np.load(source, mmap_mode="r"), np.load(result, mmap_mode="r")
    radius, worst, values, rounded = 4 * SIGMA, 0, 0, 0
    for number in range(arguments.windows):
        size = min(side, 500)
        y, x = (chance.randrange(side - size + 1) for _ in range(2))
        if number < 4:  # the corners
            y, x = (number // 2) * (side - size), (number % 2) * (side - size)
        top, left = max(y - radius, 0), max(x - radius, 0)
        padded = before[top : y + size + radius, left : x + size + radius].astype(np.float64)
        filtered = scipy.ndimage.gaussian_filter(padded, SIGMA, mode="mirror", truncate=4)
        expected = filtered[y - top :, x - left :][:size, :size]
        found = after[y : y + size, x : x + size].astype(np.float64)
        worst = max(worst, float(np.abs(found - expected).max()))
        values += found.size
        rounded += int((found == np.rint(expected)).sum())
    print(f"{arguments.windows} windows: at most {worst:.4f} from SciPy's f64, {rounded / values:.6%} equal when rounded")
    # Half a unit is the rounding. The rest is the sum in f32, of 625 products of numbers up to 33,000.
    if not worst < 0.5 + 0.25:
        raise SystemExit("the result differs from SciPy")


if __name__ == "__main__":
    main()
