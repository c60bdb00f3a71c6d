"""Filters of device arrays: streams, types, axes, borders, places in memory, errors."""

import copy
import gc
import pickle
import types
import weakref

import numpy as np
import pytest
import scipy.ndimage

import faltung.ndimage
from faltung import _device

from device_by_hand import LEGACY, WEIGHTS, Array, calls, close, correlate, image, new_stream, numpy_of, read, wait


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
    assert copy.deepcopy(info) == pickle.loads(pickle.dumps(info)) == info
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
        code = faltung._native.MODES[mode]
        native = [faltung._native.filter_all_axes(array, w, None, code, cval) for w in (weights, 5, 200)]
        outputs = [cupy.ndarray(values.shape, dtype) for _ in native]
        for w, output in zip((weights, 5, 200), outputs):
            assert faltung._native.filter_all_axes(array, w, output, code, cval) is output
        found = [
            *native,
            *outputs,
            faltung.ndimage.gaussian_filter(array, 0.5, mode=mode, cval=cval),
            faltung.ndimage.uniform_filter(array, 5, mode=mode, cval=cval),
            faltung.ndimage.uniform_filter(array, 200, mode=mode, cval=cval),
        ]
        expected = [
            scipy.ndimage.gaussian_filter(values, 0.5, mode=mode, cval=cval),
            *(scipy.ndimage.uniform_filter(values, size, mode=mode, cval=cval) for size in (5, 200)),
        ] * 3
        for result, right in zip(found, expected):
            assert type(result) is cupy.ndarray and result.dtype == values.dtype
            assert np.abs(result.get().astype("f8") - right.astype("f8")).max() <= tolerance
    # All else takes the long way, which knows the errors, too.
    reflect = faltung._native.MODES["reflect"]
    for given in (values, [[1.0]], cupy.ndarray(values.shape, "c8", values.astype("c8"))):
        assert faltung._native.filter_all_axes(given, 3, None, reflect, 0.0) is None
    assert faltung._native.filter_all_axes(array, 3, None, reflect, 1j) is None
    assert faltung._native.filter_all_axes(array, 3, array, reflect, 0.0) is None
    with pytest.raises(RuntimeError, match="boundary mode not supported"):
        faltung.ndimage.gaussian_filter(array, 1.0, mode="mirrors")
    with pytest.raises(TypeError, match="cval must be a real number, not 1j"):
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
    with pytest.raises(NotImplementedError, match="pass an array of CuPy or NumPy"):
        faltung.ndimage.sobel(Array(image(8, 9).astype(np.complex64)))
    for output in (np.float16, "complex64", np.dtype(">f4"), Array(image(8, 9).astype(np.complex64))):
        with pytest.raises(NotImplementedError, match="results of .* on a device: pass an array of CuPy or NumPy"):
            faltung.ndimage.sobel(array, output=output)


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_an_output_whose_elements_overlap(dtype):
    values = image(6, 5).astype(dtype)
    for shape in [(6, 1), (1, 5)]:
        output = Array(np.broadcast_to(np.zeros(shape, dtype), (6, 5)))
        for call in [
            lambda: faltung.ndimage.correlate(Array(values), WEIGHTS, output),
            lambda: faltung.ndimage.gaussian_filter(Array(values), 1.0, output=output),
            lambda: faltung.ndimage.uniform_filter1d(Array(values), 3, output=output),
            lambda: faltung.ndimage.correlate1d(Array(values), [1, 2], output=output),
        ]:
            with pytest.raises(ValueError, match="elements of output must not overlap"):
                call()
    # An array to be read may have such elements.
    same = np.broadcast_to(values[:1], (6, 5))
    found = faltung.ndimage.correlate(Array(same), WEIGHTS)
    np.testing.assert_allclose(numpy_of(found), scipy.ndimage.correlate(same.copy(), WEIGHTS), 1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_weights_that_differ_by_nan_or_by_nothing(dtype):
    values = (image(6, 9) - 100).astype(dtype)
    nan, inf = np.nan, np.inf
    for weights in [[1, 2, nan], [nan, 2, 1], [inf, 1, inf], [1, nan, 1], [inf, 1, -inf], [1, 2, inf]]:
        for axis in (0, 1):
            with np.errstate(all="ignore"):
                expected = scipy.ndimage.correlate1d(values, weights, axis)
            found = faltung.ndimage.correlate1d(Array(values), weights, axis)
            np.testing.assert_allclose(numpy_of(found), expected, 1e-4)


def test_a_value_outside_that_float32_has_no_place_for(cupy):
    values = image(6, 9)
    for name, args in [("correlate", (WEIGHTS,)), ("sobel", ()), ("uniform_filter", (3,)), ("gaussian_filter", (1.0,))]:
        with np.errstate(all="ignore"):
            expected = getattr(scipy.ndimage, name)(values, *args, mode="constant", cval=1e300)
        found = getattr(faltung.ndimage, name)(Array(values), *args, mode="constant", cval=1e300)
        np.testing.assert_allclose(numpy_of(found), expected, 1e-3, 1e-3)
        of_cupy = cupy.ndarray((6, 9), "f4", values)
        found = getattr(faltung.ndimage, name)(of_cupy, *args, mode="constant", cval=1e300)
        np.testing.assert_allclose(found.get(), expected, 1e-3, 1e-3)


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
