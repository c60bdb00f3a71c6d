"""Times `faltung.ndimage` beside SciPy, OpenCV, CuPy and PyTorch, as a Python user sees it.

    pip install faltung scipy opencv-python-headless
    python docs/measurements/python_peers.py --json table.json --markdown table.md

Each problem is filtered by every library that is installed. Each result is compared with SciPy's before it is timed. A
library whose result differs is listed as wrong, and has no time. The first call of a library on a problem has a column
of its own. The median of the later ones is the time. The libraries take turns:

- A turn of short calls on NumPy arrays is one call that is not timed, and five that are. The untimed call fills the
  caches again and wakes the library's threads. A turn of long calls is one timed call.
- With a GPU (CuPy or PyTorch with CUDA) device arrays are timed too. A turn is then a batch of calls between two
  synchronisations, after five calls that are not timed.

SciPy gets at most `--scipy-seconds` a problem, and at least one call, which also is the reference.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone

import numpy as np
import scipy
import scipy.ndimage as nd

import faltung
from faltung import ndimage

FILTERS = ("convolve 3", "convolve 13", "convolve 31", "gaussian 1", "gaussian 3", "gaussian 10")
FILTERS += ("uniform 5", "uniform 51", "sobel")
TYPES = {"u8": np.uint8, "f32": np.float32, "f64": np.float64}
# OpenCV's and PyTorch's name of SciPy's mode `mirror`; all libraries have that mode.
MODE = "mirror"


def optional(name):
    try:
        return __import__(name)
    except Exception:
        return None


cv2, torch, cupy = optional("cv2"), optional("torch"), optional("cupy")


def has_gpu():
    try:
        return cupy is not None and cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:
        return False


class Problem:
    """A filter, a type and a side of a square image."""

    def __init__(self, filter_name, type_name, side, random):
        self.filter_name, self.type_name, self.side = filter_name, type_name, side
        self.kind, _, size = filter_name.partition(" ")
        self.size = float(size) if size else 0.0
        image = random.random((side, side))
        self.image = (image * 255).astype(np.uint8) if type_name == "u8" else image.astype(TYPES[type_name])
        if self.kind == "convolve":
            k = int(self.size)
            mask = random.random((k, k))
            self.mask = mask / mask.sum()

    def of_module(self, module, image, mask=None):
        """The filter of a module with SciPy's names."""
        if self.kind == "convolve":
            return lambda: module.convolve(image, self.mask if mask is None else mask, mode=MODE)
        if self.kind == "gaussian":
            return lambda: module.gaussian_filter(image, self.size, mode=MODE)
        if self.kind == "uniform":
            return lambda: module.uniform_filter(image, int(self.size), mode=MODE)
        return lambda: module.sobel(image, mode=MODE)

    def of_opencv(self):
        border = cv2.BORDER_REFLECT_101
        if self.kind == "convolve":
            mask = np.ascontiguousarray(self.mask[::-1, ::-1])
            return lambda: cv2.filter2D(self.image, -1, mask, borderType=border)
        if self.kind == "gaussian":
            side = 2 * int(4 * self.size + 0.5) + 1
            return lambda: cv2.GaussianBlur(self.image, (side, side), self.size, borderType=border)
        if self.kind == "uniform":
            side = int(self.size)
            return lambda: cv2.blur(self.image, (side, side), borderType=border)
        depth = cv2.CV_16S if self.type_name == "u8" else -1
        return lambda: cv2.Sobel(self.image, depth, 1, 0, borderType=border)

    def of_torch(self, device):
        """Convolutions and Gaussians of floating-point type: padding, then `conv2d`."""
        if self.kind not in ("convolve", "gaussian") or self.type_name == "u8":
            return None
        functional = torch.nn.functional
        image = torch.from_numpy(self.image)[None, None].to(device)
        if self.kind == "convolve":
            mask = torch.from_numpy(np.ascontiguousarray(self.mask[::-1, ::-1])).to(image)[None, None]
            reach = mask.shape[-1] // 2
            return lambda: functional.conv2d(functional.pad(image, (reach,) * 4, mode="reflect"), mask)[0, 0]
        reach = int(4 * self.size + 0.5)
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / self.size) ** 2)
        row = torch.from_numpy(weights / weights.sum()).to(image)[None, None, None]

        def blur():
            padded = functional.pad(image, (reach,) * 4, mode="reflect")
            return functional.conv2d(functional.conv2d(padded, row), row.mT)[0, 0]

        return blur

    def tolerance(self, library):
        """The largest difference from SciPy's result that a library may have."""
        if self.type_name == "u8":
            # SciPy truncates, OpenCV rounds: 1 for each pass. OpenCV's Gaussian has coefficients of 8 bits.
            return 0.0 if library in ("scipy", "faltung", "cupyx") else 3.0
        return {"f32": 3e-5, "f64": 1e-11}[self.type_name] * (8.0 if self.kind == "sobel" else 1.0)

    def is_right(self, library, result, reference):
        if library == "opencv" and self.kind == "sobel" and self.type_name == "u8":
            # SciPy's result wraps around in u8, OpenCV's is i16.
            result = result.astype(np.uint8)
        if result.shape != reference.shape:
            return False
        difference = np.abs(result.astype(np.float64) - reference.astype(np.float64)).max()
        return bool(difference <= self.tolerance(library))


def to_numpy(array):
    if torch is not None and isinstance(array, torch.Tensor):
        return array.cpu().numpy()
    return array.get() if hasattr(array, "get") else np.asarray(array)


# Calls on NumPy arrays up to this long are short ones, of which a turn times so many.
SHORT_US, CALLS = 20_000, 5
# Longer first calls have no untimed ones after them.
LONG_US = 500_000
# Calls on device arrays that are not timed before a batch is.
UNTIMED = 5


class Runner:
    """A library on a problem: its first call, and later ones until its time is used."""

    def __init__(self, library, arrays, call, seconds, synchronise=None, batch=1):
        self.library, self.arrays, self.call, self.seconds = library, arrays, call, seconds
        self.synchronise, self.batch = synchronise or (lambda: None), batch
        self.first_us, self.times, self.spent, self.turns, self.status = None, [], 0.0, 0, "ok"

    def first(self, problem, reference):
        self.synchronise()
        begin = time.perf_counter()
        try:
            result = self.call()
            self.synchronise()
        except Exception as error:
            self.status = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            return None
        self.first_us = 1e6 * (time.perf_counter() - begin)
        result = to_numpy(result)
        if reference is not None and not problem.is_right(self.library, result, reference):
            self.status = "wrong"
        return result

    def wants_more(self, rounds):
        return self.status == "ok" and self.turns < rounds and self.spent < self.seconds

    def turn(self):
        self.turns += 1
        calls = 1
        if self.batch > 1:
            for _ in range(UNTIMED):
                self.call()
        elif self.first_us < LONG_US:
            begin = time.perf_counter()
            self.call()
            if 1e6 * (time.perf_counter() - begin) < SHORT_US:
                calls = CALLS
        for _ in range(calls):
            self.time_calls()

    def time_calls(self):
        self.synchronise()
        begin = time.perf_counter()
        for _ in range(self.batch):
            self.call()
        self.synchronise()
        took = time.perf_counter() - begin
        self.spent += took
        self.times.append(1e6 * took / self.batch)

    def row(self, problem):
        # Without a later call the only one counts: SciPy on large problems.
        times = self.times or ([self.first_us] if self.status == "ok" else [])
        return {
            "filter": problem.filter_name,
            "type": problem.type_name,
            "side": problem.side,
            "library": self.library,
            "arrays": self.arrays,
            "status": self.status,
            "first_us": self.first_us,
            "median_us": float(np.median(times)) if times else None,
            "calls": len(self.times) * self.batch,
        }


def runners(problem, options, gpu):
    """What runs a problem, SciPy first."""
    image, seconds = problem.image, options.seconds
    result = [
        Runner("scipy", "numpy", problem.of_module(nd, image), options.scipy_seconds),
        Runner("faltung", "numpy", problem.of_module(ndimage, image), seconds),
    ]
    if cv2 is not None:
        result.append(Runner("opencv", "numpy", problem.of_opencv(), seconds))
    if torch is not None and options.torch_cpu:
        call = problem.of_torch("cpu")
        if call is not None:
            result.append(Runner("torch", "numpy", call, seconds))
    if gpu:
        import cupyx.scipy.ndimage

        on_device = cupy.asarray(image)
        mask = cupy.asarray(problem.mask) if problem.kind == "convolve" else None
        wait = cupy.cuda.Device().synchronize
        batch = options.batch
        call = problem.of_module(ndimage, on_device)
        result.append(Runner("faltung", "device", call, seconds, wait, batch))
        call = problem.of_module(cupyx.scipy.ndimage, on_device, mask)
        result.append(Runner("cupyx", "device", call, seconds, wait, batch))
        if torch is not None and torch.cuda.is_available():
            call = problem.of_torch("cuda")
            if call is not None:
                result.append(Runner("torch", "device", call, seconds, wait, batch))
    return result


def measure(problem, options, gpu):
    each, reference = runners(problem, options, gpu), None
    for runner in each:
        result = runner.first(problem, reference)
        if reference is None:
            reference = result
            runner.spent = runner.first_us / 1e6
    while any(runner.wants_more(options.rounds) for runner in each):
        for runner in each:
            if runner.wants_more(options.rounds):
                runner.turn()
    return [runner.row(problem) for runner in each]


def call_overhead(gpu):
    """The time of a call on a 64 x 64 image of f32, in us: batches of 200, the median of 21."""
    random = np.random.default_rng(2)
    problem = Problem("convolve 3", "f32", 64, random)
    cases = [("faltung", "numpy", problem.of_module(ndimage, problem.image), lambda: None)]
    if gpu:
        import cupyx.scipy.ndimage

        on_device, wait = cupy.asarray(problem.image), cupy.cuda.Device().synchronize
        cases.append(("faltung", "device", problem.of_module(ndimage, on_device), wait))
        mask = cupy.asarray(problem.mask)
        cases.append(("cupyx", "device", problem.of_module(cupyx.scipy.ndimage, on_device, mask), wait))
    result = []
    for library, arrays, call, wait in cases:
        runner = Runner(library, arrays, call, 60.0, wait, 200)
        runner.first(problem, nd.convolve(problem.image, problem.mask, mode=MODE))
        while runner.status == "ok" and len(runner.times) < 21:
            runner.turn()
        result.append({**runner.row(problem), "filter": "call overhead"})
    return result


def machine(gpu):
    """What the figures belong to."""
    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        model = names[0] if names else model
    here = os.path.dirname(os.path.abspath(__file__))
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True)
    modules = {"numpy": np, "scipy": scipy, "opencv": cv2, "cupy": cupy, "torch": torch, "faltung": faltung}
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode() if gpu else None,
        "python": platform.python_version(),
        "versions": {name: str(module.__version__) for name, module in modules.items() if module is not None},
        "commit": git.stdout.strip() or os.environ.get("COMMIT") or None,
        "command": " ".join(["python docs/measurements/python_peers.py", *sys.argv[1:]]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }


def figure(us):
    if us is None:
        return ""
    value, unit = (us, "µs") if us < 1e3 else (us / 1e3, "ms") if us < 1e6 else (us / 1e6, "s")
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"


def markdown(report):
    """One table: a line for each problem and kind of array, a column for each library."""
    rows, info = report["rows"], report["machine"]
    libraries = [x for x in ("scipy", "opencv", "torch", "cupyx") if any(r["library"] == x for r in rows)]
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    text = [
        f"{info['cpu']}, {info['cores']} cores; {info['gpu'] or 'no GPU'}; Python {info['python']}, {versions};",
        f"commit {info['commit']}, {info['date']}: `{info['command']}`",
        "",
        "| filter | type | side | arrays | faltung, first | faltung | " + " | ".join(libraries) + " |",
        "| --- | --- | ---: | --- | ---: | ---: | " + " | ".join("---:" for _ in libraries) + " |",
    ]
    keys = list(dict.fromkeys((r["filter"], r["type"], r["side"], r["arrays"]) for r in rows))
    for key in keys:
        found = {r["library"]: r for r in rows if (r["filter"], r["type"], r["side"], r["arrays"]) == key}
        ours, cells = found.get("faltung"), []
        if ours is None:
            continue
        for library in libraries:
            row = found.get(library)
            cell = "" if row is None else figure(row["median_us"]) if row["status"] == "ok" else row["status"]
            if row is not None and row["median_us"] and ours["median_us"]:
                cell += f" ({row['median_us'] / ours['median_us']:.1f}x)"
            cells.append(cell)
        mine = figure(ours["median_us"]) if ours["status"] == "ok" else ours["status"]
        text.append(f"| {' | '.join(map(str, key))} | {figure(ours['first_us'])} | {mine} | {' | '.join(cells)} |")
    text += ["", "In brackets: the time in units of ours. A result that is not SciPy's is `wrong`, and has no time."]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="512,4096")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--filters", default=",".join(FILTERS))
    parser.add_argument("--rounds", type=int, default=15, help="later calls of each library, at most")
    parser.add_argument("--seconds", type=float, default=0.5, help="for the later calls of a library on a problem")
    parser.add_argument("--scipy-seconds", type=float, default=0.5, help="the same for SciPy; its first call counts")
    parser.add_argument("--batch", type=int, default=10, help="calls on device arrays between two synchronisations")
    parser.add_argument("--torch-cpu", action="store_true", help="time PyTorch on the CPU too")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--markdown", help="file for the table; default: standard output")
    options = parser.parse_args()

    gpu, random, rows = has_gpu(), np.random.default_rng(1), []
    for side in map(int, options.sizes.split(",")):
        for filter_name in options.filters.split(","):
            for type_name in options.types.split(","):
                rows += measure(Problem(filter_name, type_name, side, random), options, gpu)
                print(filter_name, type_name, side, file=sys.stderr, flush=True)
    rows += call_overhead(gpu)
    report = {"schema": 1, "machine": machine(gpu), "rows": rows}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(markdown(report))
    else:
        print(markdown(report))
    ours = [row["status"] for row in rows if row["library"] == "faltung"]
    return int(any(status != "ok" for status in ours))


if __name__ == "__main__":
    sys.exit(main())
