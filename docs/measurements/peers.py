"""Times other libraries on one GPU for the problem of `host bench`: one channel of f32, a dense mask, a zero border.

    pip install numpy cupy-cuda13x torch numba-cuda nvidia-npp
    python docs/measurements/peers.py --npp DIR --sizes 200,8192 --masks 3,5,7,9,13,15,21,31,63 --json peers.json

DIR has libnppc and libnppif: `lib64` of the CUDA Toolkit, or `nvidia/cu13/lib` in site-packages. Without `--npp` NPP is
left out. Numba is left out if it cannot be imported. The program reads `peers.cu` from its own folder.

All arrays are on the device. Images and masks are random, and the sum of a mask is 1. Each answer is compared with an
FFT in f64, over the whole image, before it is timed. `err` is the largest relative error, or null if a value is not
finite. A wrong answer keeps its cell, is printed as WRONG, and makes the exit status 1.

A time is the median of 7 batches. A batch has as many calls as take 20 ms, from 2 to 100, between two CUDA events. The
calls come from Python: on small images a call can take longer than its kernels.

- npp-filter: `nppiFilterBorder_32f_C1R`. It replicates the border, and is compared with that.
- cuda-naive_inside, cuda-cmask_inside: CUDA C++, one thread per pixel, the mask in global or constant memory.
- cuda-tileK: CUDA C++, a tile in shared memory, unrolled for K x K, to 31 x 31.
- cupyx-ndimage, cupy-fft: `cupyx.scipy.ndimage.convolve` and `cupyx.scipy.signal.fftconvolve`.
- cupy-overlap-save: CuPy's `rfft2` of overlapping blocks, from 15 x 15 on.
- cudnn-torch: PyTorch's `conv2d` without TF32, with `cudnn.benchmark`.
- numba-seed: a naive kernel in Python, to 15 x 15.
"""

import argparse
import json
import subprocess
import sys
from ctypes import CDLL, POINTER, RTLD_GLOBAL, Structure, c_int, c_size_t, c_uint, c_void_p
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path

import cupy as cp
import numpy as np
import torch
from cupyx.scipy import ndimage, signal

try:
    np.row_stack = np.vstack  # numba-cuda imports this name, which new versions of NumPy lack.
    from numba import cuda
except Exception as error:
    cuda = None
    print(f"Numba is left out: {error}")

CUDA = Path(__file__).with_suffix(".cu").read_text()
TOLERANCE = 1e-4  # The largest relative error of a right answer. FFTs in f32 reach 7e-6.


def median_ms(call):
    def batch_ms(count):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return cp.cuda.get_elapsed_time(begin, end) / count

    call()
    count = int(min(100, max(2, 20 / batch_ms(2))))
    return float(np.median([batch_ms(count) for _ in range(7)]))


def peak_rates(multiprocessors):
    """GB/s of a copy, bytes read plus bytes written, and TFLOP/s of multiply-adds in f32."""
    source, blocks = cp.zeros(1 << 30, cp.uint8), 16 * multiprocessors
    target, sums = cp.empty_like(source), cp.empty(512 * blocks, cp.float32)
    kernel = cp.RawKernel(CUDA, "fma_chains", options=("-std=c++17",))
    copy_ms = median_ms(lambda: cp.copyto(target, source))
    fma_ms = median_ms(lambda: kernel((blocks,), (512,), (sums, np.float32(1.0001))))
    return {"copy_gbs": 2e-6 * source.nbytes / copy_ms, "fma_tflops": 2e-9 * 16 * 4096 * sums.size / fma_ms}


def cuda_kernel(name, block, image, mask, result):
    module = cp.RawModule(code=CUDA, options=("-std=c++17",), name_expressions=(name,))
    cp.ndarray(mask.shape, cp.float32, module.get_global("constant_mask"))[...] = mask
    kernel, n, k = module.get_function(name), len(image), len(mask)
    grid = tuple((n + side - 1) // side for side in block)
    return lambda: kernel(grid, block, (image, result, mask, np.int32(n), np.int32(k)))


def overlap_save(image, mask):
    n, k = len(image), len(mask)
    side = 1024 if k > 47 else 512
    # The first k - 1 rows and columns of a block wrap around. The others are the answer.
    step = side - (k - 1)
    count = (n + step - 1) // step
    padded = cp.pad(image, (k // 2, count * step - n + k // 2))
    blocks = cp.lib.stride_tricks.sliding_window_view(padded, (side, side))[::step, ::step]
    spectrum = cp.fft.rfft2(mask, s=(side, side))

    def call():
        product = cp.fft.rfft2(blocks, axes=(2, 3)) * spectrum
        answer = cp.fft.irfft2(product, s=(side, side), axes=(2, 3))[:, :, k - 1 :, k - 1 :]
        return answer.swapaxes(1, 2).reshape(count * step, count * step)[:n, :n]

    return call


class IntPair(Structure):  # `NppiSize` or `NppiPoint`
    _fields_ = [("x", c_int), ("y", c_int)]


class StreamContext(Structure):  # `NppStreamContext`, with CuPy's names of the device's properties
    _fields_ = [("stream", c_void_p), ("device", c_int), ("multiProcessorCount", c_int)]
    _fields_ += [("maxThreadsPerMultiProcessor", c_int), ("maxThreadsPerBlock", c_int), ("sharedMemPerBlock", c_size_t)]
    _fields_ += [("major", c_int), ("minor", c_int), ("flags", c_uint), ("workspace", c_uint)]


def load_npp(folder):
    for name in ("libnppc", "libnppif"):  # libnppif needs libnppc.
        npp = CDLL(str(min(Path(folder).glob(f"{name}.so.*"), default=f"{folder}/{name}.so")), mode=RTLD_GLOBAL)
    npp.nppGetLibVersion.restype = POINTER(c_int * 3)
    return npp


def npp_filter(npp, gpu, image, mask, result):
    n, k, (source, weights, target) = len(image), len(mask), (c_void_p(a.data.ptr) for a in (image, mask, result))
    arguments = [source, 4 * n, IntPair(n, n), IntPair(0, 0), target, 4 * n, IntPair(n, n)]
    arguments += [weights, IntPair(k, k), IntPair(k // 2, k // 2), 2]  # 2 is NPP_BORDER_REPLICATE.
    # The fields that `gpu` lacks are 0: the default stream of device 0.
    arguments.append(StreamContext(**{name: gpu.get(name, 0) for name, _ in StreamContext._fields_}))

    def call():
        if status := npp.nppiFilterBorder_32f_C1R_Ctx(*arguments):
            raise RuntimeError(f"NPP returned {status}")

    return call


def numba_seed(*arrays):
    @cuda.jit
    def convolve(image, mask, result):
        row, column = cuda.grid(2)
        total, n, k = 0, image.shape[0], mask.shape[0]
        if row < n and column < n:
            for i in range(k):
                for j in range(k):
                    y, x = row + k // 2 - i, column + k // 2 - j
                    if y >= 0 and y < n and x >= 0 and x < n:
                        total += mask[i, j] * image[y, x]
            result[row, column] = total

    launch = convolve[((arrays[0].shape[0] + 31) // 32,) * 2, (32, 32)]
    return lambda: launch(*arrays)


def peers(gpu, npp, image, mask, result):
    """The name and the call of each peer. A call returns its answer, or writes it to `result`."""
    arrays, k = (image, mask, result), len(mask)
    yield "cuda-naive_inside", cuda_kernel("one_pixel<false>", (32, 8), *arrays)
    yield "cuda-cmask_inside", cuda_kernel("one_pixel<true>", (32, 8), *arrays)
    if k <= 31:
        yield f"cuda-tile{k}", cuda_kernel(f"tile<{k}>", (32, 16), *arrays)
    if k <= 15 and cuda is not None:
        yield "numba-seed", numba_seed(*map(cuda.as_cuda_array, arrays))
    yield "cupyx-ndimage", lambda: ndimage.convolve(image, mask, result, "constant")
    if k >= 15:
        yield "cupy-overlap-save", overlap_save(image, mask)
    yield "cupy-fft", lambda: signal.fftconvolve(image, mask, "same")
    # `conv2d` is a correlation, so the mask is rotated by 180 degrees.
    tensor, rotated = torch.as_tensor(image)[None, None], torch.as_tensor(mask).flip(0, 1).contiguous()[None, None]
    yield "cudnn-torch", lambda: torch.nn.functional.conv2d(tensor, rotated, padding=k // 2)[0, 0]
    if npp is not None:
        yield "npp-filter", npp_filter(npp, gpu, *arrays)


def measure(who, call, image, mask, result):
    """The time of a call, and the largest relative error of its answer."""
    padded = cp.pad(image.astype(cp.float64), len(mask) // 2, mode="edge" if who == "npp-filter" else "constant")
    expected = signal.fftconvolve(padded, mask.astype(cp.float64), mode="valid")
    result.fill(cp.nan)
    # CuPy and PyTorch take the memory of a new answer from what was freed. That has NaN too.
    cp.full_like(result, cp.nan)
    torch.full(result.shape, float("nan"), device="cuda")
    answer = call()
    err = float(abs(cp.asarray(result if answer is None else answer) / expected - 1).max())
    return median_ms(call), err if np.isfinite(err) else None


def describe(gpu, npp):
    smi = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(smi, capture_output=True, text=True).stdout.split("\n")[0]
    versions = {x.name: x.version for x in distributions() if x.name in ("numpy", "torch", "numba", "numba-cuda")}
    versions |= {"cupy": cp.__version__, "cufft": str(cp.cuda.cufft.getVersion())}
    versions |= {"nvrtc": ".".join(map(str, cp.cuda.nvrtc.getVersion())), "cudnn": str(torch.backends.cudnn.version())}
    versions |= {"npp": ".".join(map(str, npp.nppGetLibVersion().contents))} if npp else {}
    command, date = "python " + " ".join(sys.argv), str(datetime.now(timezone.utc).date())
    return {"device": gpu["name"].decode(), "driver": driver, "date": date, "versions": versions, "command": command}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="200,8192", help="widths of the images, which are square")
    parser.add_argument("--masks", default="3,5,7,9,13,15,21,31,63", help="widths of the masks: odd, to 127")
    parser.add_argument("--npp", help="folder of libnppc and libnppif")
    parser.add_argument("--json", default="peers.json", help="file for the figures")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = False, True
    gpu, npp = cp.cuda.runtime.getDeviceProperties(0), load_npp(options.npp) if options.npp else None
    report = {**describe(gpu, npp), **peak_rates(gpu["multiProcessorCount"]), "cells": []}
    print(report, flush=True)
    random, status = np.random.default_rng(7), 0
    for n in map(int, options.sizes.split(",")):
        image = cp.asarray(random.random((n, n), dtype=np.float32))
        for k in map(int, options.masks.split(",")):
            mask = random.random((k, k), dtype=np.float32)
            arrays = (image, cp.asarray(mask / mask.sum()), cp.empty_like(image))
            floor_ms = n * n * max(8e-6 / report["copy_gbs"], 2e-9 * k * k / report["fma_tflops"])
            for who, call in peers(gpu, npp, *arrays):
                try:
                    ms, err = measure(who, call, *arrays)
                except Exception as error:
                    print(f"{n} {k} {who}: {error}", flush=True)
                    status = 1
                    continue
                cell = {"n": n, "k": k, "who": who, "ms": ms, "gpix": n * n / ms / 1e6, "floor_frac": floor_ms / ms}
                report["cells"].append({**cell, "err": err})
                is_wrong = err is None or err > TOLERANCE
                print(f"{n} {k} {who}: {1e3 * ms:.1f} us, err {err}{', WRONG' * is_wrong}", flush=True)
                status |= is_wrong
            cp.get_default_memory_pool().free_all_blocks()
    Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
