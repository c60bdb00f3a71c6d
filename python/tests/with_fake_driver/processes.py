"""Threads, and children of a fork."""

import gc
import os
import threading

import numpy as np
import pytest

import faltung
from faltung import _device

from device_by_hand import CUDA, HANDLE, WEIGHTS, Array, check, close, correlate, image, new_stream, numpy_of, setup


def in_child(work):
    """The text that ``work`` returns in a child of a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_the_gpu_was_used():
    values = image(8, 8)
    array = Array(values)
    wrapped = _device.wrap(array)
    output = correlate(wrapped, WEIGHTS)
    for work in [
        lambda: str(_device.wrap(array)),
        lambda: str(_device.wrap(wrapped)),
        lambda: str(_device.correlate2d_f32(wrapped, WEIGHTS, output, "reflect", 0.0, (0, 0))),
        lambda: str(_device.empty(wrapped, (3, 3), "f4")),
        lambda: str(faltung.Device("cuda:0")),
        lambda: str(faltung.devices()),
        lambda: str(output.__dlpack__(stream=2)),
    ]:
        text = in_child(work)
        assert text.startswith("RuntimeError: faltung: process") and "forked" in text, text
    assert "forked" in in_child(lambda: faltung.info()["reason"])
    assert in_child(lambda: str(faltung.Device("cpu"))) == "cpu"
    # Arrays that end in the child do nothing to the parent's.
    def drop():
        nonlocal output
        del output
        gc.collect()
        return "dropped"

    assert in_child(drop) == "dropped"
    close(numpy_of(output), values, WEIGHTS)


def test_threads():
    values = image(30, 64)
    masks = [np.random.default_rng(seed).random((3, 5)) for seed in range(8)]
    failed = []

    def work(mask):
        try:
            check(CUDA.cuCtxSetCurrent(HANDLE(0)))
            setup()
            array = Array(values, new_stream())
            for _ in range(5):
                close(numpy_of(correlate(array, mask)), values, mask)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(mask,)) for mask in masks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
