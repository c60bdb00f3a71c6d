#!/usr/bin/env python3
"""The same bits from `faltung.ndimage`, from `faltung.dask` on four processes, and from `host filter`.

    python3 dask_bits.py --host target/release/host --folder /big/dask --side 8000

It makes a Zarr array of SIDE x SIDE whole numbers in f32, and filters it in three ways: whole, on four Dask workers,
and in chunks by the program. The coefficients are multiples of 1/64, so all sums are exact in f32 and in f64. It
compares the results bit by bit, and parts of them with SciPy. It needs the module faltung, dask[array], distributed,
zarr and SciPy.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import time

import dask.array as da
import numpy as np
import scipy.ndimage
import zarr
from dask.distributed import Client, LocalCluster
from faltung import dask as fd
from faltung import ndimage

CHUNK = 1024
WORKERS = 4


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="host", help="the program")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="where the arrays are made")
    parser.add_argument("--side", type=int, default=8000)
    parser.add_argument("--device", default="auto", help="of the program")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    return parser.parse_args()


def timed(name, pixels, work):
    begin = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begin
    print(f"{name}: {seconds:.2f} s, {pixels / seconds / 1e6:.1f} Mpixels/s", flush=True)
    return result


def same_bits(one, other):
    return one.shape == other.shape and bool((one.view(np.uint32) == other.view(np.uint32)).all())


def main():
    arguments = parse()
    print("seed", arguments.seed)
    chance = np.random.default_rng(arguments.seed)
    folder, side = arguments.folder, arguments.side
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Neither symmetric nor separable. Sums have at most 23 bits.
    weights = chance.integers(-64, 65, (5, 7)) / 64
    # Of f32, because a result of `faltung.dask.correlate` has the type of its array.
    image = chance.integers(0, 1 << 12, (side, side), dtype=np.uint16).astype(np.float32)
    source, result = folder / "image.zarr", folder / "result.zarr"
    stored = zarr.create_array(source, shape=image.shape, chunks=(CHUNK, CHUNK), dtype=image.dtype)
    stored[:] = image

    whole = timed("one array", image.size, lambda: ndimage.correlate(image, weights, mode="mirror"))

    threads = max(len(os.sched_getaffinity(0)) // WORKERS, 1)
    cluster = LocalCluster(
        processes=True,
        n_workers=WORKERS,
        threads_per_worker=1,
        dashboard_address=None,
        env={"RAYON_NUM_THREADS": str(threads)},
    )
    with cluster, Client(cluster) as client:
        processes = set(client.run(os.getpid).values())
        assert len(processes) == WORKERS and os.getpid() not in processes
        lazy = fd.correlate(da.from_zarr(stored), weights, mode="mirror")
        print(f"{lazy.npartitions} tasks of {lazy.chunksize}")
        # One task is one function of the module: the rest is the work of Dask and of Zarr.
        lazy.blocks[0, 0].compute()
        dask = timed(f"{WORKERS} Dask workers", image.size, lazy.compute)

    np.save(folder / "mask.npy", weights.astype(np.float32))
    command = [arguments.host, "filter", source, "-o", result, "--mask", folder / "mask.npy", "--op", "correlate"]
    command += ["--exact", "--border", "mirror", "--output-type", "f32", "--device", arguments.device]
    print("$", " ".join(map(str, command)), flush=True)
    timed("host filter", image.size, lambda: subprocess.run(list(map(str, command)), check=True))
    host = zarr.open_array(result)[:]

    part = slice(0, min(side, 600))
    right = scipy.ndimage.correlate(image[:700, :700].astype(np.float64), weights, mode="mirror")[part, part]
    assert (whole[part, part] == right).all(), "SciPy's result differs"
    assert same_bits(whole, dask), "the result of the Dask workers differs"
    assert same_bits(whole, host), "the result of the program differs"
    print("the three results are the same, bit by bit")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
