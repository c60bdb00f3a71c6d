"""Times the kernels of `examples/own-kernels` beside the same algorithms in CUDA C++, on a GPU.

    cargo xtask own-kernels --ptx target/own-kernels.ptx
    python docs/measurements/own_kernels.py --ptx target/own-kernels.ptx --json table.json --markdown table.md

The second command needs CuPy and NumPy, and no Rust. The driver compiles the PTX; NVRTC compiles `own_kernels.cu`. Both
kernels get the same arrays and the same launch. Each result is compared with the result of a library, all elements and
bit by bit, before anything is timed. A kernel whose result differs is listed as wrong, and has no time.

In a round each kernel runs one batch of launches between two CUDA events; the order alternates from round to round. A
time is the median of the batches, a ratio the median of the ratios of the rounds. The column of the library has the
time of a tuned implementation, often of a better algorithm: CUB, cuBLAS or CuPy.
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import cupy as cp
import cupyx.scipy.ndimage as ndimage
import numpy as np

HERE = Path(__file__).resolve().parent
# Of `kernels::reduce`, `scan`, `histogram` and `matrix`.
THREADS = 256
# Eight blocks for each of 132 multiprocessors. `kernels::host::sum` takes fewer, for small arrays.
BLOCKS = 1056


def ceil_div(a, b):
    return -(-a // b)


class Problem:
    """Launches of one kernel, or of several that belong together, with their data."""

    def __init__(self, name, library_name, bytes_moved=None, operations=None):
        self.name, self.library_name = name, library_name
        self.bytes_moved, self.operations = bytes_moved, operations

    def prepare(self):
        """Puts the result into the state before a launch, which is never the right one."""
        self.result()[...] = 0

    def run(self, kernels):
        """Launches the kernels: a function from a name to a kernel."""
        raise NotImplementedError

    def result(self):
        raise NotImplementedError

    def library(self):
        """The same result by a library."""
        raise NotImplementedError


class Saxpy(Problem):
    def __init__(self, count, random):
        super().__init__("saxpy", "CuPy elementwise", bytes_moved=12 * count)
        # Integers, so that the result is exact with and without fused multiply-add.
        self.x = random.integers(-1000, 1000, count).astype(cp.float32)
        self.before = random.integers(-1000, 1000, count).astype(cp.float32)
        self.y, self.count = self.before.copy(), count
        self.elementwise = cp.ElementwiseKernel("float32 a, float32 x", "float32 y", "y = fmaf(a, x, y)", "axpy")

    def prepare(self):
        self.y[...] = self.before

    def run(self, kernels):
        arguments = (np.float32(2.0), self.x, self.y, np.uint32(self.count))
        kernels("saxpy")((ceil_div(self.count, 256),), (256,), arguments)

    def result(self):
        return self.y

    def library(self):
        return self.elementwise(np.float32(2.0), self.x, self.y)


class Median(Problem):
    def __init__(self, width, height, random):
        super().__init__("median_3x3", "cupyx median_filter", bytes_moved=2 * width * height)
        self.image = random.integers(0, 256, (height, width)).astype(cp.uint8)
        self.found, self.size = cp.zeros_like(self.image), (width, height)

    def run(self, kernels):
        width, height = self.size
        arguments = (self.image, self.found, np.uint32(width), np.uint32(height))
        kernels("median_3x3")((ceil_div(width, 32), ceil_div(height, 8)), (32, 8), arguments)

    def result(self):
        return self.found

    def library(self):
        return ndimage.median_filter(self.image, size=3, mode="nearest")


class Sum(Problem):
    def __init__(self, count, random):
        super().__init__("sum_blocks, twice", "CUB", bytes_moved=4 * count)
        self.values = random.integers(0, 2**32, count).astype(cp.uint32)
        self.sums, self.total, self.count = cp.zeros(BLOCKS, cp.uint32), cp.zeros(1, cp.uint32), count

    def run(self, kernels):
        kernel, shared = kernels("sum_blocks"), 4 * THREADS // 32
        kernel((BLOCKS,), (THREADS,), (self.values, self.sums, np.uint32(self.count)), shared_mem=shared)
        kernel((1,), (THREADS,), (self.sums, self.total, np.uint32(BLOCKS)), shared_mem=shared)

    def result(self):
        return self.total

    def library(self):
        return self.values.sum(dtype=cp.uint32, keepdims=True)


class Scan(Problem):
    def __init__(self, count, random):
        super().__init__("scan_blocks, add_sums", "CUB", bytes_moved=8 * count)
        values = random.integers(0, 2**32, count).astype(cp.uint32)
        self.levels = [(values, cp.zeros(count, cp.uint32))]
        while len(self.levels[-1][0]) > THREADS:
            blocks = ceil_div(len(self.levels[-1][0]), THREADS)
            self.levels.append((cp.zeros(blocks, cp.uint32), cp.zeros(blocks, cp.uint32)))
        self.last = cp.zeros(1, cp.uint32)

    def run(self, kernels):
        scan, add = kernels("scan_blocks"), kernels("add_sums")
        for level, (values, result) in enumerate(self.levels):
            sums = self.levels[level + 1][0] if level + 1 < len(self.levels) else self.last
            arguments = (values, result, sums, np.uint32(len(values)))
            scan((ceil_div(len(values), THREADS),), (THREADS,), arguments, shared_mem=8 * THREADS)
        for (_, result), (_, sums) in reversed(list(zip(self.levels, self.levels[1:]))):
            add((ceil_div(len(result), THREADS),), (THREADS,), (result, sums, np.uint32(len(result))))

    def result(self):
        return self.levels[0][1]

    def library(self):
        return cp.cumsum(self.levels[0][0], dtype=cp.uint32)


class Histogram(Problem):
    def __init__(self, count, random):
        super().__init__("histogram", "CuPy bincount", bytes_moved=count)
        # The product of two numbers: some bins are more frequent than others.
        self.bytes = (random.integers(0, 256, count) * random.integers(0, 256, count) >> 8).astype(cp.uint8)
        self.bins, self.count = cp.zeros(256, cp.uint32), count

    def run(self, kernels):
        arguments = (self.bytes, self.bins, np.uint32(self.count))
        kernels("histogram")((BLOCKS,), (256,), arguments, shared_mem=4 * 256)

    def result(self):
        return self.bins

    def library(self):
        return cp.bincount(self.bytes, minlength=256).astype(cp.uint32)


class Product(Problem):
    def __init__(self, name, rows, columns, inner, random):
        super().__init__(name, "cuBLAS, f32", operations=2 * rows * columns * inner)
        # Integers whose products and sums are exact, also with the 10 bits of TF32.
        self.a = random.integers(-15, 16, (rows, inner)).astype(cp.float32)
        self.b = random.integers(-15, 16, (inner, columns)).astype(cp.float32)
        self.c, self.sizes = cp.zeros((rows, columns), cp.float32), (rows, columns, inner)

    def run(self, kernels):
        rows, columns, _ = self.sizes
        arguments = (self.a, self.b, self.c, *map(np.uint32, self.sizes))
        if self.name == "product_tiled":
            grid, block, shared = (ceil_div(columns, 16), ceil_div(rows, 16)), (16, 16), 4 * 2 * 16 * 16
        else:
            grid, block, shared = (ceil_div(columns, 8), ceil_div(rows, 16 * 4)), (32, 4), 0
        kernels(self.name)(grid, block, arguments, shared_mem=shared)

    def result(self):
        return self.c

    def library(self):
        return self.a @ self.b


def problems(is_quick):
    """All problems, one after the other: each is freed before the next. No size is a multiple of a tile."""
    random = cp.random.default_rng(1)
    scale = 64 if is_quick else 1
    yield Saxpy((1 << 27) // scale + 3, random)
    yield Median(8193, 8191 // scale, random)
    yield Sum((1 << 27) // scale + 3, random)
    yield Scan((1 << 26) // scale + 3, random)
    yield Histogram((1 << 28) // scale + 3, random)
    rows, columns, inner = (300, 200, 100) if is_quick else (4100, 4000, 2045)
    yield Product("product_tiled", rows, columns, inner, random)
    yield Product("product_tensor", rows, columns, inner, random)


def is_equal(found, expected):
    return found.shape == expected.shape and found.dtype == expected.dtype and bool((found == expected).all())


def is_right(problem, kernels, expected):
    """Runs a problem once and compares. One wrong element must be seen, or the comparison would be worthless."""
    problem.prepare()
    problem.run(kernels)
    cp.cuda.Device().synchronize()
    found = problem.result()
    wrong = expected.copy()
    wrong.ravel()[-1] += 1
    if is_equal(wrong, expected):
        raise AssertionError(f"{problem.name}: the comparison does not see a wrong element")
    return is_equal(found, expected)


def batch_us(work, count):
    """The time of one of `count` calls, between two events."""
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return 1e3 * cp.cuda.get_elapsed_time(begin, end) / count


def measure(problem, sources, options):
    problem.prepare()
    expected = problem.library().copy()
    row = {"kernel": problem.name, "library": problem.library_name, "status": {}}
    for language, kernels in sources.items():
        try:
            row["status"][language] = "ok" if is_right(problem, kernels, expected) else "wrong"
        except (cp.cuda.driver.CUDADriverError, cp.cuda.runtime.CUDARuntimeError) as error:
            row["status"][language] = str(error)
    if set(row["status"].values()) != {"ok"}:
        return row
    works = {language: (lambda kernels=kernels: problem.run(kernels)) for language, kernels in sources.items()}
    works["library"] = problem.library
    # Values no longer matter: saxpy and the histogram add to what is there.
    counts = {}
    for name, work in works.items():
        work()
        counts[name] = max(1, int(1e3 * options.batch_ms / max(batch_us(work, 3), 1.0)))
    times = {name: [] for name in works}
    for number in range(options.rounds):
        order = list(works) if number % 2 == 0 else list(reversed(works))
        for name in order:
            times[name].append(batch_us(works[name], counts[name]))
    ratios = sorted(ours / theirs for ours, theirs in zip(times["rust"], times["cpp"]))
    row["us"] = {name: float(np.median(values)) for name, values in times.items()}
    row["ratio"] = {"median": float(np.median(ratios)), "least": ratios[0], "greatest": ratios[-1]}
    row["batches"] = {name: {"launches": counts[name], "us": values} for name, values in times.items()}
    seconds = row["us"]["rust"] * 1e-6
    if problem.bytes_moved:
        row["rate"] = f"{problem.bytes_moved / seconds / 1e12:.2f} TB/s"
    else:
        row["rate"] = f"{problem.operations / seconds / 1e12:.1f} TFLOP/s"
    return row


def registers(sources):
    """What the compilers gave each kernel."""
    names = ("saxpy", "median_3x3", "sum_blocks", "scan_blocks", "add_sums", "histogram", "product_tiled")
    of = lambda kernel: {"registers": kernel.num_regs, "local_bytes": kernel.local_size_bytes}
    return {name: {lang: of(get(name)) for lang, get in sources.items()} for name in (*names, "product_tensor")}


def machine():
    runtime, properties = cp.cuda.runtime, cp.cuda.runtime.getDeviceProperties(0)
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True)
    smi = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(smi, capture_output=True, text=True).stdout.split("\n")[0].strip()
    except OSError:
        driver = None
    return {
        "gpu": properties["name"].decode(),
        "driver": driver or None,
        "cuda_of_driver": runtime.driverGetVersion(),
        "nvrtc": ".".join(map(str, cp.cuda.nvrtc.getVersion())),
        "cupy": cp.__version__,
        "commit": git.stdout.strip() or os.environ.get("COMMIT") or None,
        "command": " ".join(["python docs/measurements/own_kernels.py", *sys.argv[1:]]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }


def figure(us):
    return f"{us:.1f} µs" if us < 1e3 else f"{us / 1e3:.3f} ms"


def markdown(report):
    info = report["machine"]
    text = [
        f"{info['gpu']}, driver {info['driver']}; NVRTC {info['nvrtc']}, CuPy {info['cupy']};",
        f"commit {info['commit']}, {info['date']}: `{info['command']}`",
        "",
        "| kernel | Rust | CUDA C++ | Rust / C++ (least to greatest) | rate of Rust | library |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in report["rows"]:
        if "us" not in row:
            text.append(f"| {row['kernel']} | {row['status']['rust']} | {row['status']['cpp']} | | | |")
            continue
        us, ratio = row["us"], row["ratio"]
        spread = f"{ratio['median']:.3f} ({ratio['least']:.3f} to {ratio['greatest']:.3f})"
        library = f"{figure(us['library'])}, {row['library']}"
        cells = [row["kernel"], figure(us["rust"]), figure(us["cpp"]), spread, row["rate"], library]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptx", required=True, help="the PTX of the kernels in Rust, or a cubin of it")
    parser.add_argument("--rounds", type=int, default=21, help="batches of each kernel")
    parser.add_argument("--batch-ms", type=float, default=20.0, help="the time that a batch takes about")
    parser.add_argument("--quick", action="store_true", help="small problems, for a test of the program")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--markdown", help="file for the table; default: standard output")
    options = parser.parse_args()

    rust = cp.RawModule(path=options.ptx)
    cpp = cp.RawModule(code=(HERE / "own_kernels.cu").read_text())
    sources = {"rust": rust.get_function, "cpp": cpp.get_function}
    rows = []
    for problem in problems(options.quick):
        rows.append(measure(problem, sources, options))
        print(problem.name, rows[-1]["status"], file=sys.stderr, flush=True)
        del problem
        cp.get_default_memory_pool().free_all_blocks()
    report = {"schema": 1, "machine": machine(), "registers": registers(sources), "rows": rows}
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(markdown(report))
    else:
        print(markdown(report))
    return int(any("us" not in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
