"""A driver that runs the kernels in an emulator, and arrays in its memory. Work begins only when a thread waits for it, so
that what is not ordered runs in another order. A plugin of pytest: all tests have its fixtures."""

import copy
import ctypes as c
import os
import re
import sys
import types

import numpy as np
import pytest
import scipy.ndimage

import faltung
from faltung import _device


CUDA = c.CDLL("libcuda.so.1")
U64, HANDLE = c.c_uint64, c.c_uint64
LEGACY = 1
PROCESS = os.getpid()


def check(status):
    assert status == 0, f"the driver says {status}"


def setup():
    check(CUDA.cuInit(0))
    context = HANDLE()
    check(CUDA.cuDevicePrimaryCtxRetain(c.byref(context), 0))
    check(CUDA.cuCtxSetCurrent(context))


setup()


def report():
    size = CUDA.fake_cuda_report(None, c.c_size_t(0))
    text = c.create_string_buffer(size + 4096)
    CUDA.fake_cuda_report(text, c.c_size_t(len(text)))
    return text.value.decode()


def calls():
    return {name: int(count) for name, count in re.findall(r"^call (\w+) (\d+)$", report(), re.M)}


@pytest.fixture(autouse=True)
def no_misuse():
    yield
    _device.release_finished(wait=True)
    assert not re.findall(r"^violation.*$", report(), re.M)


def new_stream():
    stream = HANDLE()
    check(CUDA.cuStreamCreate(c.byref(stream), 1))
    return stream.value


def wait(stream):
    check(CUDA.cuStreamSynchronize(HANDLE(stream)))


class Memory:
    """Memory of the device, and page-locked memory of the host for copies that come late."""

    def __init__(self, size):
        self.address, self.host = U64(), c.c_void_p()
        check(CUDA.cuMemAlloc_v2(c.byref(self.address), c.c_size_t(max(size, 1))))
        check(CUDA.cuMemHostAlloc(c.byref(self.host), c.c_size_t(max(size, 1)), 0))
        self.size, self.address = size, self.address.value

    def __del__(self):
        # The threads of the driver are not in a child of fork.
        if os.getpid() == PROCESS:
            CUDA.cuMemFree_v2(U64(self.address))
            CUDA.cuMemFreeHost(self.host)

    def write(self, data, stream):
        assert len(data) == self.size
        c.memmove(self.host, data, self.size)
        check(CUDA.cuMemcpyAsync(U64(self.address), U64(self.host.value), c.c_size_t(self.size), HANDLE(stream)))


def read(address, size, stream):
    data = c.create_string_buffer(max(size, 1))
    check(CUDA.cuMemcpyDtoHAsync_v2(data, U64(address), c.c_size_t(size), HANDLE(stream)))
    wait(stream)
    return data.raw[:size]


class Array:
    """An array of no known library: a view of NumPy's strides on memory whose values come late."""

    def __init__(self, values, stream=None, names_stream=True, read_only=False):
        base = values
        while isinstance(base.base, np.ndarray):
            base = base.base
        self.offset = values.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        self.nbytes = base.nbytes
        # Without a stream of its own the array's work is on the default stream.
        self.stream = stream
        self.memory = Memory(base.nbytes)
        self.memory.write(base.tobytes("A"), self.order)
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "strides": values.strides,
            "typestr": values.dtype.str,
            "data": (self.memory.address + self.offset, read_only),
            "version": 3,
            "stream": stream if names_stream else None,
        }

    @property
    def order(self):
        return LEGACY if self.stream is None else self.stream


def numpy_of(array):
    """The values of a device array of the module."""
    assert type(array) is faltung.DeviceArray
    wrapped = _device.wrap(array)
    data = read(wrapped.pointer, wrapped.nbytes, wrapped.stream)
    return np.frombuffer(data, wrapped.dtype).reshape(wrapped.shape)


def own(values, stream=None):
    """A device array of the module with these values."""
    array = Array(values, stream)
    wrapped = _device.wrap(array)
    result = _device.empty(wrapped, values.shape, values.dtype)
    check(CUDA.cuMemcpyAsync(U64(result.pointer), U64(wrapped.pointer), c.c_size_t(values.nbytes), HANDLE(wrapped.stream)))
    wait(wrapped.stream)
    return result


def image(rows, columns, seed=1):
    return np.random.default_rng(seed).random((rows, columns), np.float32) * 255


def correlate(array, weights, output=None, mode="reflect", cval=0.0, origins=(0, 0)):
    wrapped = _device.wrap(array)
    if output is None:
        output = _device.empty(wrapped, wrapped.shape, np.float32)
    assert _device.correlate2d_f32(wrapped, np.asarray(weights, np.float64), output, mode, cval, origins) is True
    return output


def close(found, values, weights, **arguments):
    """Within the bound of sums of float32: relative to the sum of all magnitudes."""
    weights = np.asarray(weights, np.float64)
    right = scipy.ndimage.correlate(values.astype(np.float64), weights, **arguments)
    bound = scipy.ndimage.correlate(np.abs(values.astype(np.float64)), np.abs(weights), **arguments)
    assert found.shape == right.shape
    error = np.abs(found - right)
    assert (error <= (bound + 1) * 2.0**-20).all(), error.max()


WEIGHTS = np.array([[0.5, -1, 2], [0.25, 3, -2], [1, 0.125, 1.5]])


class Current:
    """A context manager and a device of stand-ins."""

    device = 0

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self.before, Current.device = Current.device, self.number

    def __exit__(self, *_):
        Current.device = self.before


@pytest.fixture(scope="session")
def cupy():
    """A stand-in for CuPy with the attributes that its arrays have. The module looks CuPy's functions up once."""
    cupy, cuda, device = (types.ModuleType(name) for name in ["cupy", "cupy.cuda", "cupy.cuda.device"])
    streams = {0: new_stream(), 1: new_stream()}

    class ndarray:
        def __init__(self, shape, dtype, values=None):
            self.made_on = Current.device
            self.shape, self.dtype = tuple(shape), np.dtype(dtype)
            values = np.zeros(shape, dtype) if values is None else values
            self.array = Array(values, streams[Current.device])
            self.strides = values.strides
            pointer = self.array.__cuda_array_interface__["data"][0]
            self.data = types.SimpleNamespace(ptr=pointer, device_id=Current.device)

        def get(self):
            memory = self.array.memory
            data = np.frombuffer(read(memory.address, memory.size, self.array.stream), self.dtype)
            first = (self.data.ptr - memory.address) // self.dtype.itemsize
            return np.lib.stride_tricks.as_strided(data[first:], self.shape, self.strides)

        def __getitem__(self, index):
            shadow = np.lib.stride_tricks.as_strided(np.zeros(1, self.dtype), self.shape, self.strides)
            part, view = shadow[index], copy.copy(self)
            view.shape, view.strides = part.shape, part.strides
            offset = part.__array_interface__["data"][0] - shadow.__array_interface__["data"][0]
            view.data = types.SimpleNamespace(ptr=self.data.ptr + offset, device_id=self.data.device_id)
            return view

        def __setitem__(self, index, values):
            view, values, memory = self[index], values.get(), self.array.memory
            whole = np.frombuffer(read(memory.address, memory.size, self.array.stream), self.dtype).copy()
            first = (view.data.ptr - memory.address) // self.dtype.itemsize
            np.lib.stride_tricks.as_strided(whole[first:], view.shape, view.strides)[...] = values
            memory.write(whole.tobytes(), self.array.order)

    cuda.get_current_stream = lambda device_id=-1: types.SimpleNamespace(ptr=streams[device_id])
    cuda.Device = Current
    device.get_device_id = lambda: Current.device
    cupy.ndarray, cupy.cuda, cuda.device, cupy.streams = ndarray, cuda, device, streams
    sys.modules.update({"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.device": device})
    yield cupy
    for name in ["cupy", "cupy.cuda", "cupy.cuda.device"]:
        del sys.modules[name]
