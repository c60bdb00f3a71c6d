"""Device arrays on a driver that runs the kernels in an emulator. ``test_device_arrays.py`` starts this with the driver
in the loader's path: work begins only when a thread waits for it, so that what is not ordered runs in another order."""

import copy
import ctypes as c
import gc
import os
import re
import sys
import threading
import types
import weakref

import dlpack_by_hand as dl
import numpy as np
import pytest
import scipy.ndimage

import faltung.ndimage
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


def test_the_comparison_fails_where_it_must():
    values = image(9, 7)
    right = scipy.ndimage.correlate(values, WEIGHTS)
    close(right, values, WEIGHTS)
    for wrong in [np.roll(right, 1, 0), right + np.eye(9, 7), np.where(np.eye(9, 7) > 0, np.nan, right), right.T]:
        with pytest.raises(AssertionError):
            close(wrong, values, WEIGHTS)


def test_devices_and_info():
    devices = faltung.devices()
    assert [str(device) for device in devices] == ["cuda:0", "cuda:1"]
    assert devices[0] == faltung.Device("cuda") == faltung.Device("cuda:0") != devices[1]
    assert devices[0].name == "Fake H100 for tests" and devices[0].memory == 256 << 20
    assert devices[0].compute_capability == (9, 0) and devices[0].kind == "cuda"
    info = faltung.info()
    assert info["driver"] == "12.4" and info["reason"] is None and info["devices"] == devices
    with pytest.raises(RuntimeError, match="device 2 was asked for"):
        faltung.Device("cuda:2")


def test_what_an_array_says():
    stream = new_stream()
    values = image(6, 10)[:, 2:9]
    array = Array(values, stream, read_only=True)
    wrapped = _device.wrap(array)
    assert type(wrapped) is faltung.DeviceArray
    assert wrapped.pointer == array.memory.address + 8 and wrapped.shape == (6, 7) and wrapped.strides == (40, 4)
    assert wrapped.dtype == np.dtype("f4") and (wrapped.ndim, wrapped.size, wrapped.nbytes) == (2, 42, 168)
    assert (wrapped.device, wrapped.stream, wrapped.library, wrapped.read_only) == (0, stream, "other", True)
    assert repr(wrapped) == "<faltung.DeviceArray (6, 7) float32 on cuda:0>"
    assert _device.wrap(wrapped) is wrapped
    assert _device.wrap(Array(values)).stream == LEGACY
    assert _device.wrap(Array(values.astype(">c16"))).dtype == np.dtype(">c16")
    assert _device.as_host(array) is array


@pytest.mark.parametrize("stream", [None, 1, 2, "own"])
def test_a_correlation_waits_for_nothing(stream):
    stream = new_stream() if stream == "own" else stream
    values = image(37, 64)
    for repeat in range(2):
        array = Array(values, stream)
        wrapped = _device.wrap(array)
        output = _device.empty(wrapped, wrapped.shape, np.float32)
        _device.release_finished(wait=True)
        before = calls()
        correlate(wrapped, WEIGHTS, output)
        after = calls()
        made = {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}
        allowed = {"cuCtxGetCurrent", "cuLaunchKernel", "cuEventRecord", "cuEventCreate", "cuEventDestroy_v2", "cuEventQuery"}
        if repeat > 0:
            assert set(made) <= allowed, made
            assert made["cuLaunchKernel"] == 1
        close(numpy_of(output), values, WEIGHTS)


@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"])
def test_modes_and_origins(mode):
    values = image(13, 11)
    for shape, origins in [((3, 3), (0, 0)), ((2, 4), (0, 1)), ((5, 3), (-2, 1)), ((4, 4), (1, -2)), ((1, 7), (0, 3)), ((9, 9), (4, -4))]:
        weights = np.random.default_rng(3).random(shape) - 0.3
        output = correlate(Array(values), weights, mode=mode, cval=2.5, origins=origins)
        close(numpy_of(output), values, weights, mode=mode, cval=2.5, origin=origins)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 67), (64, 64), (33, 128), (3, 2)])
def test_sizes(shape):
    values = image(*shape)
    output = correlate(Array(values), WEIGHTS, mode="mirror")
    close(numpy_of(output), values, WEIGHTS, mode="mirror")


def test_views():
    base = image(20, 48)
    for view in [base[3:17], base[:, 5:31], base[::2], base[4::3, 7:41], base[5:6, 3:9], base[:, 8:9]]:
        output = correlate(Array(view), WEIGHTS)
        close(numpy_of(output), view, WEIGHTS)
    # Into a view: what lies beside it stays.
    target = Array(np.full((20, 48), -1, np.float32)[2:16, 3:40])
    correlate(Array(base[:14, :37]), WEIGHTS, target)
    found = np.frombuffer(read(target.memory.address, target.nbytes, LEGACY), np.float32).reshape(20, 48)
    close(found[2:16, 3:40], base[:14, :37], WEIGHTS)
    outside = np.ones((20, 48), bool)
    outside[2:16, 3:40] = False
    assert (found[outside] == -1).all()


def test_what_the_kernels_do_not_take():
    values = image(12, 12)
    for other in [values[:, ::2], values.T, values[::-1], values[:, ::-1], values.astype("f8"), values.astype(">f4"), values[0], values[None]]:
        wrapped = _device.wrap(Array(other))
        output = _device.empty(wrapped, wrapped.shape, other.dtype)
        assert _device.correlate2d_f32(wrapped, WEIGHTS, output, "reflect", 0.0, (0, 0)) is False
    good = Array(values)
    output = _device.empty(_device.wrap(good), (12, 12), np.float32)
    for weights, origins in [(np.full((1, 1), 1e300), (0, 0)), (np.full((2, 2), np.nan), (0, 0)), (WEIGHTS, (2, 0)), (WEIGHTS, (0, -2)), (np.zeros((0, 3)), (0, 0))]:
        assert _device.correlate2d_f32(good, weights, output, "reflect", 0.0, origins) is False


def test_wrong_arguments():
    array = Array(image(8, 8))
    output = Array(image(8, 8))
    run = lambda a=array, w=WEIGHTS, o=output, m="reflect", v=0.0, p=(0, 0): _device.correlate2d_f32(a, w, o, m, v, p)
    assert run()
    for arguments, error, words in [
        ({"a": np.zeros((8, 8))}, TypeError, "array must be an array on a CUDA device, not .*ndarray"),
        ({"o": np.zeros((8, 8))}, TypeError, "output must be"),
        ({"o": Array(image(8, 9))}, ValueError, r"output must have the shape \[8, 8\], not \[8, 9\]"),
        ({"o": Array(image(8, 8), read_only=True)}, ValueError, "output must be writable"),
        ({"w": WEIGHTS[0]}, ValueError, "weights must have 2 axes, not 1"),
        ({"w": [[1.0]]}, TypeError, "weights|buffer"),
        ({"w": WEIGHTS.astype("f4")}, (TypeError, BufferError), "f64|buffer|type"),
        ({"m": "symmetric"}, ValueError, 'mode must be .*, not "symmetric"'),
        ({"p": (0,)}, (TypeError, ValueError), "tuple"),
    ]:
        with pytest.raises(error, match=words):
            run(**arguments)


def test_many_filters_stay_apart():
    # More than are kept, all under way at the same time, each with a result of its own.
    values = image(24, 40)
    array = Array(values, new_stream())
    masks = [np.random.default_rng(seed).random((3 + seed % 4, 3 + seed % 3)) for seed in range(60)]
    outputs = [correlate(array, mask) for mask in masks]
    for mask, output in zip(masks, outputs):
        close(numpy_of(output), values, mask)
    # What was made ready is used again.
    for mask, is_ready in [(masks[-1], True), (masks[0], False)]:
        output = _device.empty(_device.wrap(array), (24, 40), np.float32)
        before = calls()
        correlate(array, mask, output)
        after = calls()
        copies = sum(after.get(name, 0) - before.get(name, 0) for name in after if name.startswith("cuMemcpy"))
        assert (copies == 0) == is_ready
        close(numpy_of(output), values, mask)


def test_weights_that_differ_in_one_bit():
    values = image(8, 8)
    for weights in [WEIGHTS, WEIGHTS * (1 + np.eye(3) / 2), -WEIGHTS, WEIGHTS.T]:
        close(numpy_of(correlate(Array(values), weights)), values, weights)
    close(numpy_of(correlate(Array(values), WEIGHTS, mode="constant", cval=1.0)), values, WEIGHTS, mode="constant", cval=1.0)
    close(numpy_of(correlate(Array(values), WEIGHTS, mode="constant", cval=3.0)), values, WEIGHTS, mode="constant", cval=3.0)


FILTERS = {
    "correlate": lambda f, x: f.correlate(x, WEIGHTS, mode="mirror", origin=(1, -1)),
    "convolve to f64": lambda f, x: f.convolve(x, WEIGHTS[:2], mode="constant", cval=2.0, output=np.float64),
    "correlate1d": lambda f, x: f.correlate1d(x, [1, -2, 0.25], 0, mode="wrap"),
    "convolve1d": lambda f, x: f.convolve1d(x, [1, 3, 1], 1, mode="nearest"),
    "gaussian_filter": lambda f, x: f.gaussian_filter(x, (0.6, 1.2)),
    "gaussian_filter1d": lambda f, x: f.gaussian_filter1d(x, 1.0, 0, order=1, output=np.float32),
    "uniform_filter": lambda f, x: f.uniform_filter(x, (3, 4), mode="mirror"),
    "uniform_filter1d": lambda f, x: f.uniform_filter1d(x, 5, 0),
    "sobel": lambda f, x: f.sobel(x, 0),
    "prewitt": lambda f, x: f.prewitt(x, 1, output=np.int32),
}


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u4", "i8", "f4", "f8"])
@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_all_types(name, dtype):
    values = np.random.default_rng(3).integers(0, 2 if dtype == "?" else 100, (20, 26)).astype(dtype)[1:-1, ::2]
    on_host = FILTERS[name](faltung.ndimage, values)
    result = FILTERS[name](faltung.ndimage, Array(values, new_stream()))
    found = numpy_of(result)
    assert found.dtype == on_host.dtype and found.shape == on_host.shape
    if on_host.dtype == np.float32 and dtype == "f4":
        np.testing.assert_allclose(found, on_host, rtol=1e-5, atol=1e-3)
    elif (name, dtype) == ("uniform_filter", "f8"):
        # Products on a device, running sums on the host.
        np.testing.assert_allclose(found, on_host, rtol=1e-14)
    else:
        np.testing.assert_array_equal(found, on_host)
        wrong = found.copy()
        wrong.flat[7] = not wrong.flat[7]
        with pytest.raises(AssertionError):
            np.testing.assert_array_equal(wrong, on_host)


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(7, 9), (5, 6, 7), (3, 4, 5, 2)])
def test_filters_along_all_axes(shape, dtype):
    values = np.random.default_rng(5).integers(0, 100, shape).astype(dtype)
    axes = len(shape)
    modes = ["wrap", "mirror", "nearest", "reflect"][:axes]
    filters = {
        "gaussian": lambda x: faltung.ndimage.gaussian_filter(x, (0.6, 0.9, 0.7, 0.8)[:axes], mode=modes, accuracy="exact"),
        "uniform": lambda x: faltung.ndimage.uniform_filter(x, (2, 3, 4, 2)[:axes], origin=-1, mode=modes, accuracy="exact"),
        "sobel": lambda x: faltung.ndimage.sobel(x, 1, mode=modes),
        "to f64": lambda x: faltung.ndimage.gaussian_filter(x, 0.7, output=np.float64),
    }
    for name, function in filters.items():
        expected, found = function(values), numpy_of(function(Array(values, new_stream())))
        assert found.dtype == expected.dtype, name
        rounds = name == "sobel" and dtype == "f4"
        np.testing.assert_allclose(found, expected, rtol=1e-5 if rounds else 0, atol=1e-3 if rounds else 0, err_msg=name)


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i4"])
@pytest.mark.parametrize("mode", ["reflect", "grid-constant", "wrap"])
def test_filters_along_all_axes_take_one_call(cupy, dtype, mode):
    values = (image(17, 23) * 10).astype(dtype)
    array = cupy.ndarray(values.shape, dtype, values)
    tolerance = {"f4": 1e-2, "f8": 1e-9}.get(dtype, 0)
    weights = np.exp(-np.arange(-2, 3) ** 2 / 0.5)
    weights /= weights.sum()
    for cval in 0, 3.5:
        native = [faltung._native.filter_all_axes(array, w, faltung._native.MODES[mode], cval) for w in (weights, 5, 200)]
        found = [
            *native,
            faltung.ndimage.gaussian_filter(array, 0.5, mode=mode, cval=cval),
            faltung.ndimage.uniform_filter(array, 5, mode=mode, cval=cval),
            faltung.ndimage.uniform_filter(array, 200, mode=mode, cval=cval),
        ]
        expected = [
            scipy.ndimage.gaussian_filter(values, 0.5, mode=mode, cval=cval),
            *(scipy.ndimage.uniform_filter(values, size, mode=mode, cval=cval) for size in (5, 200)),
        ] * 2
        for result, right in zip(found, expected):
            assert type(result) is cupy.ndarray and result.dtype == values.dtype
            assert np.abs(result.get().astype("f8") - right.astype("f8")).max() <= tolerance
    # All else takes the long way, which knows the errors, too.
    reflect = faltung._native.MODES["reflect"]
    for given in (values, [[1.0]], cupy.ndarray(values.shape, "c8", values.astype("c8"))):
        assert faltung._native.filter_all_axes(given, 3, reflect, 0.0) is None
    assert faltung._native.filter_all_axes(array, 3, reflect, 1j) is None
    with pytest.raises(RuntimeError, match="boundary mode not supported"):
        faltung.ndimage.gaussian_filter(array, 1.0, mode="mirrors")
    with pytest.raises(ValueError, match="complex-valued cval"):
        faltung.ndimage.gaussian_filter(array, 1.0, cval=1j)


def test_weights_whose_products_are_below_float32():
    array, output = Array(np.full((5, 6), 1e30, np.float32)), Array(np.zeros((5, 6), np.float32))
    passes = [(axis, np.array([1e-25]), faltung._native.MODES["reflect"], 0) for axis in (0, 1)]
    assert faltung._native.device_filter_axes(_device.wrap(array), _device.wrap(output), passes, 0.0, False)
    np.testing.assert_allclose(numpy_of(_device.wrap(output)), np.full((5, 6), 1e-20), rtol=1e-5)


def test_a_filter_of_two_axes_in_place():
    values = image(9, 8).astype(np.float64)
    array = Array(values.copy())
    assert faltung.ndimage.gaussian_filter(array, 0.8, output=array) is array
    found = np.frombuffer(read(array.memory.address, array.nbytes, LEGACY)).reshape(9, 8)
    np.testing.assert_array_equal(found, faltung.ndimage.gaussian_filter(values, 0.8))


def test_what_needs_the_callers_library():
    array = Array(image(8, 9))
    for function in (faltung.ndimage.laplace, lambda x: faltung.ndimage.gaussian_gradient_magnitude(x, 1.0)):
        with pytest.raises(NotImplementedError, match="CuPy or PyTorch"):
            function(array)
    with pytest.raises(TypeError, match="output must be"):
        faltung.ndimage.sobel(array, output=np.zeros((8, 9)))
    with pytest.raises(RuntimeError, match="output shape not correct"):
        faltung.ndimage.sobel(array, output=Array(image(9, 9)))
    with pytest.raises(NotImplementedError, match="install SciPy"):
        faltung.ndimage.sobel(Array(image(8, 9).astype(np.complex64)))


def test_an_array_is_kept_until_its_work_is_done():
    # Memory that is freed in between would start the work.
    gc.collect()
    stream = new_stream()
    array = Array(image(16, 32), stream)
    kept = weakref.ref(array)
    output = correlate(array, WEIGHTS)
    del array
    assert kept() is not None, "the kernel has not begun"
    _device.release_finished()
    assert kept() is not None
    wait(stream)
    _device.release_finished()
    gc.collect()
    assert kept() is None
    close(numpy_of(output), image(16, 32), WEIGHTS)


def test_other_streams_wait_on_the_device():
    values = image(16, 32)
    first, second = new_stream(), new_stream()
    source, target = Array(values, first), Array(np.zeros((16, 32), np.float32), second)
    before = calls()
    correlate(source, WEIGHTS, target)
    after = calls()
    for name in ["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"]:
        assert after.get(name, 0) == before.get(name, 0), name
    # The owner of the target goes on in its own stream.
    found = np.frombuffer(read(target.memory.address, target.nbytes, second), np.float32).reshape(16, 32)
    close(found, values, WEIGHTS)


def test_in_place():
    values = image(16, 32)
    array = Array(values.copy())
    before = calls().get("cuMemcpy2DAsync_v2", 0)
    correlate(array, WEIGHTS, array)
    # The emulator reads the source before it writes, so that the copy shows in the calls alone.
    assert calls().get("cuMemcpy2DAsync_v2", 0) == before + 1
    close(np.frombuffer(read(array.memory.address, array.nbytes, LEGACY), np.float32).reshape(16, 32), values, WEIGHTS)


def test_empty_arrays():
    for shape in [(0, 5), (5, 0), (0, 0)]:
        array = Array(np.zeros(shape, np.float32))
        array.__cuda_array_interface__["data"] = (0, False)
        wrapped = _device.wrap(array)
        output = _device.empty(wrapped, shape, np.float32)
        assert _device.correlate2d_f32(wrapped, WEIGHTS, output, "reflect", 0.0, (0, 0)) is True
        assert output.shape == shape and output.__cuda_array_interface__["data"][0] == 0


def test_memory_that_is_none_of_a_device():
    array = Array(image(4, 4))
    freed = array.memory.address
    interface = dict(array.__cuda_array_interface__)
    keep = Array(image(4, 4))
    array.__cuda_array_interface__["data"] = (keep.memory.host.value, False)
    with pytest.raises(TypeError, match="page-locked memory of the host"):
        _device.wrap(array)
    array.__cuda_array_interface__["data"] = (np.zeros(64).ctypes.data, False)
    with pytest.raises(ValueError, match="no memory of a device"):
        _device.wrap(array)
    del array
    gc.collect()
    gone = types.SimpleNamespace(__cuda_array_interface__=interface)
    assert interface["data"][0] == freed
    with pytest.raises(ValueError, match="was it freed"):
        _device.wrap(gone)


# DLPack

def producer(values, memory=None, **keys):
    """Values on the device, of which the default stream has a copy enqueued."""
    memory = memory or Memory(values.nbytes)
    memory.write(values.tobytes(), LEGACY)
    keep = keys.pop("keep", None)
    return dl.Producer(memory.address, values.shape, kind=values.dtype.kind, bits=values.itemsize * 8, keep=(memory, keep), **keys)


@pytest.mark.parametrize(
    "keys, asked",
    [
        ({}, [{"stream": 1, "max_version": (1, 0)}]),
        ({"version": (1, 3)}, [{"stream": 1, "max_version": (1, 0)}]),
        ({"version": None}, [{"stream": 1, "max_version": (1, 0)}]),
        ({"takes_max_version": False}, [{"stream": 1, "max_version": (1, 0)}, {"stream": 1}]),
    ],
)
def test_tensors(keys, asked):
    values = image(9, 16)
    tensor = producer(values, **keys)
    wrapped = _device.wrap(tensor)
    assert tensor.calls == asked
    used = dl.USED_VERSIONED if tensor.name == dl.NAME_VERSIONED else dl.USED
    assert dl.API.PyCapsule_GetName(tensor.capsules[0]) == used
    assert (wrapped.shape, wrapped.strides, wrapped.dtype) == ((9, 16), (64, 4), np.dtype("f4"))
    assert (wrapped.device, wrapped.stream, wrapped.library) == (0, LEGACY, "other")
    output = correlate(wrapped, WEIGHTS)
    del wrapped
    gc.collect()
    assert tensor.deleted == 0, "the kernel has not begun"
    close(numpy_of(output), values, WEIGHTS)
    _device.release_finished()
    gc.collect()
    assert tensor.deleted == 1
    tensor.capsules.clear()
    gc.collect()
    assert tensor.deleted == 1


def test_tensors_with_strides_and_offsets():
    values = image(9, 16)
    tensor = producer(values, strides=(16, 1), byte_offset=64)
    tensor.numbers[0][0] = 8
    wrapped = _device.wrap(tensor)
    assert wrapped.shape == (8, 16) and wrapped.strides == (64, 4)
    assert wrapped.pointer == tensor.keep[0].address + 64
    close(numpy_of(correlate(wrapped, WEIGHTS)), values[1:], WEIGHTS)
    assert _device.wrap(producer(values, read_only=True)).read_only is True
    for dtype in ["?", "i1", "u2", "i4", "u8", "f2", "f8", "c8", "c16"]:
        assert _device.wrap(producer(np.ones((2, 3), dtype))).dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "keys, error, words",
    [
        ({"version": (2, 0)}, BufferError, "DLPack 1 is required, the tensor is of version 2.0"),
        ({"code": 4, "bits": 16}, TypeError, "code 4, 16 bits"),
        ({"lanes": 4}, TypeError, "4 lanes"),
        ({"bits": 12}, TypeError, "12 bits"),
        ({"device": (dl.CUDA, 1), "says": (dl.CUDA, 0)}, ValueError, "says cuda:0"),
        ({"device": (dl.CPU, 0), "says": (dl.CUDA, 0)}, ValueError, "gives the CPU"),
        ({"byte_offset": 2}, ValueError, "multiples of 4"),
    ],
)
def test_tensors_that_are_refused_are_given_back(keys, error, words):
    values = image(4, 4)
    memory = Memory(values.nbytes)
    keys = {"kind": "f", "bits": 32} | keys
    tensor = dl.Producer(memory.address, (4, 4), **keys)
    with pytest.raises(error, match=words) as caught:
        _device.wrap(tensor)
    del caught
    gc.collect()
    assert tensor.deleted == 1


def test_a_tensor_without_memory_and_on_no_device():
    tensor = dl.Producer(None, (2, 2))
    with pytest.raises(ValueError, match="null"):
        _device.wrap(tensor)
    assert tensor.deleted == 1
    tensor = dl.Producer(4096, (2, 2), device=(dl.CUDA, 7))
    with pytest.raises(RuntimeError, match="device 7"):
        _device.wrap(tensor)
    assert tensor.calls == []
    tensor = dl.Producer(4096, (2, 2), device=(dl.CUDA, -1))
    with pytest.raises(ValueError, match="0 or more, not -1"):
        _device.wrap(tensor)


def test_producers_that_give_something_else():
    class Wrong:
        def __init__(self, value):
            self.value = value

        def __dlpack_device__(self):
            return (dl.CUDA, 0)

        def __dlpack__(self, **arguments):
            if isinstance(self.value, Exception):
                raise self.value
            return self.value

    for value, error in [(5, BufferError), (None, BufferError), (KeyError("mine"), KeyError), (TypeError("no"), TypeError)]:
        with pytest.raises(error):
            _device.wrap(Wrong(value))
    # A capsule that was taken before.
    tensor = producer(image(4, 4))
    first = _device.wrap(tensor)
    with pytest.raises(BufferError, match="nobody has taken"):
        _device.wrap(Wrong(tensor.capsules[0]))
    del first
    gc.collect()
    assert tensor.deleted == 1


# Arrays of the module

def own(values, stream=None):
    """A device array of the module with these values."""
    array = Array(values, stream)
    wrapped = _device.wrap(array)
    result = _device.empty(wrapped, values.shape, values.dtype)
    check(CUDA.cuMemcpyAsync(U64(result.pointer), U64(wrapped.pointer), c.c_size_t(values.nbytes), HANDLE(wrapped.stream)))
    wait(wrapped.stream)
    return result


def test_new_arrays():
    like = _device.wrap(Array(image(3, 3), new_stream()))
    array = _device.empty(like, (2, 3, 4), ">i2")
    assert (array.shape, array.strides, array.dtype, array.nbytes) == ((2, 3, 4), (24, 8, 2), np.dtype(">i2"), 48)
    assert (array.stream, array.device, array.library) == (like.stream, 0, "other")
    assert array.__cuda_array_interface__ == {
        "shape": (2, 3, 4), "typestr": ">i2", "data": (array.pointer, False), "strides": None, "stream": like.stream, "version": 3,
    }
    with pytest.raises(MemoryError):
        _device.empty(like, (1 << 29,), "f4")
    with pytest.raises(ValueError, match="more than memory"):
        _device.empty(like, (1 << 62, 4), "f8")
    with pytest.raises(TypeError, match="object"):
        _device.empty(like, (2,), object)
    with pytest.raises(BufferError, match="no type for >i2"):
        array.__dlpack__()


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 5), (2, 0)])
def test_arrays_of_the_module_by_dlpack(max_version):
    values = image(5, 7)
    array = own(values)
    assert array.__dlpack_device__() == (2, 0)
    gone = weakref.ref(array)
    capsule = array.__dlpack__(stream=-1, max_version=max_version)
    is_versioned = max_version is not None and max_version[0] >= 1
    assert dl.API.PyCapsule_GetName(capsule) == (dl.NAME_VERSIONED if is_versioned else dl.NAME)
    managed = dl.take(capsule)
    tensor = managed.tensor
    assert (tensor.data, tensor.device_type, tensor.device_id, tensor.ndim) == (array.pointer, 2, 0, 2)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 32, 1, 0)
    assert tensor.shape[:2] == [5, 7] and tensor.strides[:2] == [7, 1]
    if is_versioned:
        assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
    address = array.pointer
    del array, capsule
    gc.collect()
    assert gone() is not None, "the consumer has the memory"
    np.testing.assert_array_equal(np.frombuffer(read(address, 140, LEGACY), np.float32).reshape(5, 7), values)
    thread = threading.Thread(target=managed.deleter, args=(c.addressof(managed),))
    thread.start()
    thread.join()
    gc.collect()
    assert gone() is None


def test_a_capsule_that_nobody_takes():
    array = own(image(3, 3))
    gone = weakref.ref(array)
    capsules = [array.__dlpack__(), array.__dlpack__(max_version=(1, 0))]
    before = calls()["cuMemFree_v2"]
    del array
    gc.collect()
    assert gone() is not None and calls()["cuMemFree_v2"] == before
    del capsules
    gc.collect()
    assert gone() is None and calls()["cuMemFree_v2"] == before + 1


def test_what_a_consumer_may_ask():
    stream, other = new_stream(), new_stream()
    array = own(image(4, 4), stream)
    for given, waits in [(None, LEGACY), (1, 1), (2, 2), (other, other), (-1, None), (stream, None)]:
        before = calls().get("cuStreamWaitEvent", 0)
        array.__dlpack__(stream=given)
        assert calls().get("cuStreamWaitEvent", 0) - before == (0 if waits is None else 1), given
    for given in [0, -2]:
        with pytest.raises(ValueError, match="stream must be"):
            array.__dlpack__(stream=given)
    array.__dlpack__(dl_device=(2, 0))
    for device in [(1, 0), (2, 1)]:
        with pytest.raises(BufferError, match="dl_device"):
            array.__dlpack__(dl_device=device)
    read_only = _device.wrap(Array(image(4, 4), read_only=True))
    with pytest.raises(BufferError, match="read-only"):
        read_only.__dlpack__()
    managed = dl.take(read_only.__dlpack__(max_version=(1, 0)))
    assert managed.flags == 1
    managed.deleter(c.addressof(managed))


def test_a_consumer_gets_finished_values():
    values = image(16, 32)
    consumer = new_stream()
    output = correlate(Array(values, new_stream()), WEIGHTS)
    managed = dl.take(output.__dlpack__(stream=consumer, max_version=(1, 0)))
    found = np.frombuffer(read(managed.tensor.data, values.nbytes, consumer), np.float32).reshape(16, 32)
    close(found, values, WEIGHTS)
    managed.deleter(c.addressof(managed))


def test_copies():
    values = image(16, 32)
    output = correlate(Array(values, new_stream()), WEIGHTS)
    managed = dl.take(output.__dlpack__(stream=1, max_version=(1, 0), copy=True))
    assert managed.flags == 2 and managed.tensor.data != output.pointer
    found = np.frombuffer(read(managed.tensor.data, values.nbytes, LEGACY), np.float32).reshape(16, 32)
    close(found, values, WEIGHTS)
    managed.deleter(c.addressof(managed))


def test_numpy_refuses_what_is_on_a_device():
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(own(image(3, 3)))


# The libraries, as far as their objects can be told without them

class Current:
    """A context manager and a device of stand-ins."""

    device = 0

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self.before, Current.device = Current.device, self.number

    def __exit__(self, *_):
        Current.device = self.before


@pytest.fixture(scope="module")
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


def test_objects_like_cupys(cupy):
    values = image(12, 40)
    array = cupy.ndarray(values.shape, "f4", values)
    wrapped = _device.wrap(array)
    assert (wrapped.library, wrapped.device, wrapped.stream) == ("cupy", 0, cupy.streams[0])
    output = _device.empty(wrapped, values.shape, np.float32)
    assert type(output) is cupy.ndarray and output.made_on == 0
    gone = weakref.ref(array)
    correlate(array, WEIGHTS, output)
    del array, wrapped
    gc.collect()
    assert gone() is None, "CuPy frees in the order of the stream: nothing is kept"
    close(output.get(), values, WEIGHTS)
    # The array's device decides, whichever is the current one.
    with Current(1):
        array = cupy.ndarray(values.shape, "f4", values)
        first = _device.wrap(array)
    assert (first.device, first.stream) == (1, cupy.streams[1])
    output = _device.empty(first, (3, 4), np.float64)
    assert output.made_on == 1 and Current.device == 0 and output.dtype == np.float64
    with pytest.raises(ValueError, match="output must be on the input's device, cuda:1, not on cuda:0"):
        _device.correlate2d_f32(first, WEIGHTS, cupy.ndarray(values.shape, "f4"), "reflect", 0.0, (0, 0))
    array.data.device_id = 5
    with pytest.raises(KeyError):
        _device.wrap(array)
    cupy.streams[5] = cupy.streams[0]
    with pytest.raises(RuntimeError, match="device 5 was asked for"):
        _device.wrap(array)


@pytest.mark.parametrize("function", ["correlate", "convolve"])
@pytest.mark.parametrize("type_", ["f4", "f8", "u1", "i2", "?"])
def test_small_pictures_take_one_call(cupy, function, type_):
    ours, right = getattr(faltung.ndimage, function), getattr(scipy.ndimage, function)
    random = np.random.default_rng(5)
    values = (image(12, 40) * 10).astype(type_)
    array = cupy.ndarray(values.shape, type_, values)
    tolerance = {"f4": 1e-2, "f8": 1e-10}.get(type_, 0)
    for shape, origin, mode in [((3, 3), 0, "reflect"), ((2, 4), 0, "wrap"), ((4, 3), -1, "mirror"), ((5, 6), 2, "constant")]:
        weights = random.random(shape) - 0.3
        native = faltung._native.filter_picture(array, weights, mode, 1.5, origin, function == "convolve")
        result = ours(array, weights, mode=mode, cval=1.5, origin=origin)
        for found in (native, result):
            assert type(found) is cupy.ndarray and found.dtype == values.dtype
            expected = right(values, weights, mode=mode, cval=1.5, origin=origin)
            assert np.abs(found.get().astype("f8") - expected.astype("f8")).max() <= tolerance
    # All else takes the long way, which knows the errors, too.
    for weights, origin, cval in [([[1, 2]], 0, 0.0), (WEIGHTS, (0, 0), 0.0), (WEIGHTS, 0, 1j), (WEIGHTS, 0.5, 0.0)]:
        assert faltung._native.filter_picture(array, weights, "reflect", cval, origin, False) is None
    for given in (values, cupy.ndarray(values.shape, "c8", values.astype("c8")), cupy.ndarray((40,), "f4", values[0].astype("f4")), [[1.0]]):
        assert faltung._native.filter_picture(given, WEIGHTS, "reflect", 0.0, 0, False) is None
    assert faltung._native.filter_picture(array, WEIGHTS, "mirrors", 0.0, 0, False) is None
    assert faltung._native.filter_picture(array, WEIGHTS, "reflect", 0.0, 2, False) is None, "outside of the window"
    with pytest.raises(RuntimeError, match="boundary mode not supported"):
        ours(array, WEIGHTS, mode="mirrors")
    with pytest.raises(ValueError, match="Invalid origin"):
        ours(array, WEIGHTS, origin=3)


# OpenCV's functions

OPENCV = {
    "filter2D": lambda x, **options: faltung.filter2D(x, -1, WEIGHTS / 9, anchor=(2, 0), delta=3, **options),
    "sepFilter2D": lambda x, **options: faltung.sepFilter2D(x, -1, [0.25, 0.5, 0.125], [0.25, 0.5, -0.5, 1], **options),
    "GaussianBlur": lambda x, **options: faltung.GaussianBlur(x, (5, 7), 1.3, **options),
    "blur": lambda x, **options: faltung.blur(x, (4, 3), borderType="replicate", **options),
}


def opencv_image(shape, dtype):
    return np.random.default_rng(9).integers(0, 256, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
@pytest.mark.parametrize("shape", [(18, 23), (11, 14, 3), (9, 8, 1), (1, 5, 2)])
@pytest.mark.parametrize("name", OPENCV)
def test_opencvs_functions(name, shape, dtype):
    values = opencv_image(shape, dtype)
    on_host = OPENCV[name](values, accuracy="exact")
    given = Array(values, new_stream())
    found = numpy_of(OPENCV[name](given, accuracy="exact"))
    assert found.dtype == on_host.dtype and found.shape == on_host.shape
    # The CPU sums images of uint16 along rows and columns in float64.
    distance = np.abs(found.astype(float) - on_host)
    assert distance.max() <= (1 if dtype == "u2" and name != "filter2D" else 0)
    assert np.ptp(found) > 1


def test_opencvs_functions_with_other_types():
    values = opencv_image((12, 17), "u1")
    for kind in (np.uint16, np.float32):
        found = numpy_of(faltung.filter2D(Array(values), kind, WEIGHTS))
        np.testing.assert_array_equal(found, faltung.filter2D(values, kind, WEIGHTS))
    for given, ddepth in [(values.astype("f8"), -1), (values.astype("i2"), -1), (values, np.int16), (values, np.float64)]:
        with pytest.raises(TypeError, match="on a device, images and results of uint8, uint16 or float32"):
            faltung.filter2D(Array(given), ddepth, WEIGHTS)
    with pytest.raises(TypeError, match="src: an image of"):
        faltung.filter2D(Array(values.astype(">f4")), -1, WEIGHTS)
    with pytest.raises(ValueError, match="at least 1 pixel"):
        faltung.filter2D(Array(np.zeros((0, 4), "f4")), -1, WEIGHTS)
    with pytest.raises(ValueError, match="the shape .rows, columns"):
        faltung.filter2D(Array(values[0]), -1, WEIGHTS)


def test_results_of_opencvs_functions(cupy):
    values = opencv_image((15, 22), "f4")
    right = faltung.blur(values, (3, 5))
    source, target = (cupy.ndarray(values.shape, "f4", array) for array in (values, np.zeros_like(values)))
    assert faltung.blur(source, (3, 5), target) is target
    np.testing.assert_allclose(target.get(), right, rtol=1e-6)
    # In place, and from a view to a view.
    assert faltung.blur(source, (3, 5), source) is source
    np.testing.assert_allclose(source.get(), right, rtol=1e-6)
    source = cupy.ndarray(values.shape, "f4", values)
    for part in [np.s_[2:9, 4:], np.s_[:, ::2], np.s_[::-1]]:
        found = faltung.blur(source[part], (3, 5), target[part])
        np.testing.assert_allclose(found.get(), faltung.blur(values[part], (3, 5)), rtol=1e-6)
    for wrong, error, words in [
        (np.zeros_like(values), TypeError, "dst: an array on the device"),
        (cupy.ndarray((15, 21), "f4"), ValueError, "dst: the shape"),
        (cupy.ndarray((15, 22), "u1"), ValueError, "dst: the type float32"),
    ]:
        with pytest.raises(error, match=words):
            faltung.blur(source, (3, 5), wrong)
    with Current(1):
        other = cupy.ndarray(values.shape, "f4", values)
    with pytest.raises(ValueError, match="on the input's device, cuda:0, not on cuda:1"):
        faltung.blur(source, (3, 5), other)
    with pytest.raises(TypeError, match="dst: a NumPy array"):
        faltung.blur(values, (3, 5), target)


def test_many_channels_and_huge_masks(cupy):
    values = opencv_image((6, 7, 10), "u1")
    found = faltung.filter2D(cupy.ndarray(values.shape, "u1", values), -1, WEIGHTS / 9)
    np.testing.assert_array_equal(found.get(), faltung.filter2D(values, -1, WEIGHTS / 9))
    values = opencv_image((5, 6), "f4")
    line = np.random.default_rng(1).random(2049) / 2049
    found = faltung.sepFilter2D(cupy.ndarray(values.shape, "f4", values), -1, line, line)
    np.testing.assert_allclose(found.get(), faltung.sepFilter2D(values, -1, line, line), rtol=1e-4)


def test_an_axis_of_one_channel(cupy):
    values = opencv_image((5, 6, 1), "u1")
    right, array = faltung.blur(values, (3, 3)), cupy.ndarray(values.shape, "u1", values)
    found = faltung.blur(array, (3, 3))
    assert found.shape == (5, 6)
    np.testing.assert_array_equal(found.get(), right)
    for shape in [(5, 6), (5, 6, 1)]:
        target = cupy.ndarray(shape, "u1")
        assert faltung.blur(array, (3, 3), target) is target
        np.testing.assert_array_equal(target.get().reshape(5, 6), right)
    # In place, by way of another array.
    np.testing.assert_array_equal(faltung.blur(array, (3, 3), array).get()[:, :, 0], right)


# What comes after a fork

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
