#!/usr/bin/env python3
"""1, 2, 4, ... GPUs of one machine: transfers alone, images in page-locked memory, files, and a long kernel.

    python3 several_gpus.py --host target/release/host --example target/release/examples/several_gpus \\
        --folder /dev/shm/gpus --json several_gpus.json > several_gpus.md

1. Transfers alone: page-locked memory to and from all devices at once. One thread and two streams for each device.
2. The example program `several_gpus`: images in page-locked memory, limited by transfers or by the kernel, and chunks
   of an image in ordinary memory. It compares the results bit by bit with those of one device and of the CPU.
3. `host filter` on 1, 2, 4, ... devices, from and to .npy and Zarr in a folder that should be in memory. The results
   are compared byte for byte with those of the CPU.

Each rate stands beside the prediction of `host plan-scale`, from the transfers alone and from one GPU. It needs Python
and NumPy, and the driver. With 2 GPUs and 32 cores it takes some three minutes.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import threading
import time

import numpy as np

MIB = 1 << 20
RADIUS = 12  # of --gaussian 3
ROWS = 4096


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="host", help="the program")
    parser.add_argument("--example", default="several_gpus", help="the example program")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="where the images are made, best in memory")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script")
    parser.add_argument("--side", type=int, default=49_152, help="of the image in files, of u16")
    parser.add_argument("--memory", default="64G", help="of the program; without it, a .npy file is filtered whole")
    parser.add_argument("--options", default="", help="of the example, such as '--side 4096'")
    parser.add_argument("--transfer", type=int, default=512, help="MiB of one transfer")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def output_of(*arguments):
    """What a program prints; empty if there is none."""
    try:
        return subprocess.run(arguments, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


class Driver:
    """The few functions of the CUDA driver that transfers need."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.count = count.value

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise SystemExit(f"{name} fails with {status}")

    def place(self, number, size):
        """Memory and streams on one device: (context, host memory, device memory, streams), for both directions."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), number)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        host, memory, streams = [], [], []
        for _ in range(2):
            locked, own, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
            self.call("cuMemAllocHost_v2", ctypes.byref(locked), ctypes.c_size_t(size))
            ctypes.memset(locked, 1, size)
            self.call("cuMemAlloc_v2", ctypes.byref(own), ctypes.c_size_t(size))
            self.call("cuStreamCreate", ctypes.byref(stream), 1)
            host.append(locked), memory.append(own), streams.append(stream)
        return context, host, memory, streams

    def free(self, place):
        context, host, memory, streams = place
        self.call("cuCtxSetCurrent", context)
        for locked, own, stream in zip(host, memory, streams):
            self.call("cuStreamDestroy_v2", stream)
            self.call("cuMemFree_v2", own)
            self.call("cuMemFreeHost", locked)

    def work(self, place, size, runs, up, down, barrier):
        context, host, memory, streams = place
        self.call("cuCtxSetCurrent", context)
        size = ctypes.c_size_t(size)
        barrier.wait()
        for _ in range(runs):
            if up:
                self.call("cuMemcpyHtoDAsync_v2", memory[0], host[0], size, streams[0])
            if down:
                self.call("cuMemcpyDtoHAsync_v2", host[1], memory[1], size, streams[1])
        for stream in streams:
            self.call("cuStreamSynchronize", stream)


def counts(devices):
    """1, 2, 4, ... and all."""
    found, count = [], 1
    while count < devices:
        found.append(count)
        count *= 2
    return [*found, devices]


def together(jobs):
    """Runs functions on a thread each, which get a barrier, and gives the time from the barrier to the last end."""
    barrier = threading.Barrier(len(jobs) + 1)
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(job, barrier) for job in jobs]
        barrier.wait()
        begin = time.perf_counter()
        for job in running:
            job.result()
        return time.perf_counter() - begin


def transfers_alone(driver, size, repeats):
    """GB/s of all devices together, by number of devices: up, down and both ways."""
    places = [driver.place(number, size) for number in range(driver.count)]
    rates, runs = {}, 12
    for count in counts(driver.count):
        rates[count] = {}
        for name, up, down in [("up", True, False), ("down", False, True), ("both", True, True)]:
            jobs = [
                lambda barrier, place=place: driver.work(place, size, runs, up, down, barrier)
                for place in places[:count]
            ]
            best = min(together(jobs) for _ in range(repeats))
            rates[count][name] = count * runs * size * (up + down) / best / 1e9
        say(f"transfers alone, {count} devices: {rates[count]}")
    for place in places:
        driver.free(place)
    return rates


def make(path, side):
    """An image like a scan: smooth regions, edges and noise. Each block of rows is the first one, shifted."""
    image = np.lib.format.open_memmap(path, "w+", np.uint16, (side, side))
    rows, columns = np.arange(min(ROWS, side))[:, None], np.arange(side)
    noise = np.random.default_rng(1).integers(0, 64, (len(rows), side), dtype=np.uint16)
    smooth = (9000 + 4000 * np.sin(columns / 700) * np.cos(rows / 900)).astype(np.uint16)
    block = smooth + noise + (20_000 * ((columns // 1500 + rows // 1100) % 2)).astype(np.uint16)

    def fill(top):
        part = image[top : top + ROWS]
        shift = top // 7 % side
        part[:, shift:], part[:, :shift] = block[: len(part), : side - shift], block[: len(part), side - shift :]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(0, side, ROWS)))


def copy_alone(source, target, cores):
    """GB/s, read and written, of a file that all cores copy."""
    size, step = source.stat().st_size, 16 * MIB
    target.unlink(missing_ok=True)
    with open(source, "rb") as reader, open(target, "wb") as writer:
        writer.truncate(size)

        def copy(number, barrier):
            buffer = memoryview(bytearray(step))
            barrier.wait()
            for at in range(number * step, size, cores * step):
                length = os.preadv(reader.fileno(), [buffer], at)
                os.pwrite(writer.fileno(), buffer[:length], at)

        seconds = together([lambda barrier, number=number: copy(number, barrier) for number in range(cores)])
    target.unlink()
    return 2 * size / seconds / 1e9


def memory_alone(cores, size):
    """GB/s, read and written, of memory that all cores copy."""
    one, other = np.ones(size, np.uint8), np.ones(size, np.uint8)
    step = -(-size // cores)

    def copy(number, barrier):
        barrier.wait()
        part = slice(number * step, (number + 1) * step)
        for _ in range(3):
            other[part] = one[part]

    jobs = [lambda barrier, number=number: copy(number, barrier) for number in range(cores)]
    return 6 * size / min(together(jobs) for _ in range(2)) / 1e9


UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def number(text, pattern):
    value, unit = re.search(pattern, text).groups()
    return float(value) * UNITS[unit]


def run_host(arguments):
    """Runs `host filter`, and gives the times and rates that its last line names."""
    say("$ " + " ".join(map(str, arguments)))
    begin = time.perf_counter()
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True)
    wall = time.perf_counter() - begin
    lines = [line for line in done.stderr.splitlines() if " chunks, " in line]
    if done.returncode != 0 or not lines or "warning" in done.stderr:
        raise SystemExit(f"status {done.returncode}: {done.stderr}")
    line = lines[-1]
    say(f"  {line}; {wall:.2f} s in all")
    return {
        "wall": wall,
        "pixels_per_s": number(line, r"s: ([\d.]+) (\w?)pixels/s"),
        "decode": number(line, r"read \S+ \w+ at ([\d.]+) (\w?)B/s"),
        "computed": number(line, r"computed at ([\d.]+) (\w?)pixels/s"),
        "encode": number(line, r"wrote \S+ \w+ at ([\d.]+) (\w?)B/s"),
        "line": line,
    }


def same(one, other):
    """Whether two files, or two Zarr arrays, have the same bytes in the same chunks."""
    if one.is_file():
        names = [""]
    else:
        names = sorted(str(path.relative_to(one)) for path in (one / "c").rglob("*") if path.is_file())
        if names != sorted(str(path.relative_to(other)) for path in (other / "c").rglob("*") if path.is_file()):
            return False

    def pair(name):
        return subprocess.run(["cmp", "-s", one / name, other / name]).returncode == 0

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return all(pool.map(pair, names))


class Predictions:
    """`host plan-scale` for these runs."""

    def __init__(self, host, cores, memory):
        self.host, self.cores, self.memory = host, cores, memory

    def __call__(self, pixels, devices, link, kernel, **more):
        """Pixels a second, and what limits them."""
        options = {"pixel": "f32", "radius": 0, "chunk": 4096, "part": 1, "coded": 1}
        options |= {"disk": 1e18, "decode": 1e15, "encode": 1e15, "memory": 1e18, **more}
        options |= {"pixels": pixels, "gpus": devices, "gpus_per_machine": devices, "cores": self.cores}
        options |= {"link": link, "kernel": kernel}
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        text = output_of(self.host, "plan-scale", *arguments)
        rate = re.search(r"rate: (\S+) pixels/s", text)
        limit = re.search(r"limited by (\w+)", text)
        if not rate:
            raise SystemExit(f"plan-scale {' '.join(arguments)}: {text}")
        return float(rate[1]), limit[1]


def block_of_npy(side, cores):
    """The side of a chunk with the same share of halo as the blocks of full rows that `host filter` chooses."""
    rows = min(64 * MIB // (2 * side), max(-(-side // (4 * (cores + 2))), 2 * (2 * RADIUS + 1)))
    return 2 * rows


def table(title, head, rows):
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    sys.stdout.flush()


def files(arguments, devices, cores, limits, memory, predictions, record):
    """`host filter` on files."""
    folder, host, side = arguments.folder, arguments.host, arguments.side
    folder.mkdir(parents=True, exist_ok=True)
    # Two images, two results of each kind, and a new one beside the old one.
    free = shutil.disk_usage(folder).free
    while 2 * side * side * 7 > free:
        side //= 2
    pixels = side * side
    npy, zarr = folder / "a.npy", folder / "a.zarr"
    for old in folder.glob("*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    make(npy, side)
    disk = copy_alone(npy, folder / "copy.npy", cores)
    say(f"files alone: {disk:.1f} GB/s")
    run_host([host, "filter", npy, "-o", zarr, "--identity", "--chunk", min(4096, side), "--device", "cpu"])
    coded = sum(path.stat().st_size for path in zarr.rglob("*") if path.is_file()) / (2 * pixels)
    record["files"] = {"side": side, "copy_gb_per_s": disk, "coded": coded, "runs": []}
    rows = []
    for source in (npy, zarr):
        kind = source.suffix
        right = folder / f"cpu{kind}"
        common = [host, "filter", source, "--gaussian", "3", "--border", "mirror", "--memory", arguments.memory]
        run_host([*common, "-o", right, "--device", "cpu"])
        first = None
        for count in counts(devices):
            result = folder / f"gpu{kind}"
            names = ",".join(f"cuda:{number}" for number in range(count)) if arguments.device == "cuda" else "cpu"
            runs = [run_host([*common, "-o", result, "--device", names, "--overwrite"]) for _ in range(arguments.repeats)]
            best = max(runs, key=lambda run: run["pixels_per_s"])
            first = first or best
            is_same = same(right, result)
            gb = 4 * best["pixels_per_s"] / 1e9
            more = {"pixel": "u16", "radius": RADIUS, "disk": 1e9 * disk, "memory": 1e9 * memory}
            if source == npy:
                more |= {"chunk": block_of_npy(side, cores)}
            else:
                # Rates of one thread while all of them work, with one GPU.
                more |= {"chunk": min(4096, side), "part": min(512, side), "coded": coded}
                more |= {"decode": first["decode"], "encode": first["encode"]}
            link = 1e9 * limits[count]["both"] if limits else 1e15
            rate, limit = predictions(pixels, count, link, 300e9, **more)
            record["files"]["runs"].append(
                {"format": kind, "devices": count, "same": is_same, "predicted": rate, "limit": limit, "runs": runs}
            )
            rows.append([
                kind, count, f"{best['pixels_per_s'] / 1e9:.2f}", f"{gb:.1f}", f"{best['wall']:.2f}",
                f"{rate / 1e9:.2f}, {limit}", f"{best['pixels_per_s'] / rate:.2f}",
                f"{best['pixels_per_s'] / first['pixels_per_s']:.2f}", "same" if is_same else "OTHER",
            ])
    head = ["format", "GPUs", "Gpixels/s", "GB/s both ways", "s, whole program", "predicted Gpixels/s", "of it",
            "times one GPU", "bytes"]
    table(f"`host filter --gaussian 3`, {side} x {side} `u16`, files in `{folder}` (copied alone: {disk:.1f} GB/s)",
          head, rows)
    shutil.rmtree(folder)
    return all(row[-1] == "same" for row in rows)


def example(arguments, limits, predictions, record):
    """The example program."""
    names = "cuda:all" if arguments.device == "cuda" else "cpu:2"
    command = [arguments.example, "--devices", names, *arguments.options.split()]
    say("$ " + " ".join(command))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    record["example"] = {"command": command, "status": done.returncode, "lines": lines}
    first, rows = {}, []
    for line in lines:
        case, count, rate = line["case"], line["devices"], line["pixels_per_s"]
        one = first.setdefault(case, rate)
        # The kernel's rate is that of one device where the kernel is the limit.
        kernel = 300e9 if case == "transfers" else one
        link = 1e9 * limits[count]["both"] if limits else 1e15
        predicted, limit = predictions(line["pixels"] * line["images"], count, link, kernel)
        line |= {"predicted": predicted, "limit": limit}
        is_right = line["same_bits"] and line["right"]
        share = f"{line['gb_per_s'] / limits[count]['both']:.2f}" if limits else ""
        rows.append([
            case, line["variant"], count, f"{1e3 * line['seconds'] / line['images']:.3f}", f"{line['gb_per_s']:.1f}", share,
            f"{8 * predicted / 1e9:.1f}, {limit}", f"{rate / predicted:.2f}", f"{rate / one:.2f}",
            "same" if is_right else "OTHER",
        ])
    head = ["case", "variant", "GPUs", "ms an image", "GB/s both ways", "of transfers alone", "predicted GB/s", "of it",
            "times one GPU", "bits"]
    table(f"`several_gpus {' '.join(command[1:])}`", head, rows)
    return done.returncode == 0 and bool(lines)


def main():
    arguments = parse()
    cores = len(os.sched_getaffinity(0))
    memory = memory_alone(cores, max(arguments.transfer, 64) * MIB)
    commit = output_of("git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "HEAD")
    record = {
        "command": " ".join(sys.argv), "commit": commit, "host": output_of(arguments.host, "--version"),
        "machine": platform.processor() or platform.machine(), "cores": cores, "memory_gb_per_s": memory,
        "devices": output_of("nvidia-smi", "--query-gpu=name,driver_version,pcie.link.gen.max", "--format=csv,noheader"),
        "topology": output_of("nvidia-smi", "topo", "-m"), "info": output_of(arguments.host, "info"),
    }
    print(f"`{record['command']}`\n\n{record['host']}, commit {commit or 'unknown'}, {cores} cores, memory {memory:.0f} GB/s")
    print(f"\n```text\n{record['devices']}\n{record['topology']}\n```")
    limits, devices = {}, 1
    if arguments.device == "cuda":
        driver = Driver()
        devices = driver.count
        limits = transfers_alone(driver, arguments.transfer * MIB, arguments.repeats)
        record["transfers_alone"] = limits
        rows = [[count, *(f"{rates[way]:.1f}" for way in ("up", "down", "both"))] for count, rates in limits.items()]
        table("Transfers alone, page-locked memory, GB/s of all GPUs together", ["GPUs", "up", "down", "both"], rows)
    predictions = Predictions(arguments.host, cores, memory)
    is_good = False
    try:
        is_good = example(arguments, limits, predictions, record)
        is_good &= files(arguments, devices, cores, limits, memory, predictions, record)
    finally:
        if arguments.json:
            arguments.json.write_text(json.dumps(record, indent=1))
    if not is_good:
        raise SystemExit("results differ")


if __name__ == "__main__":
    main()
