"""Arrays of CuPy and torch, as far as they can be told without them, and the functions of OpenCV."""

import gc
import sys
import types
import weakref

import numpy as np
import pytest
import scipy.ndimage

import faltung.ndimage
from faltung import _device

from device_by_hand import WEIGHTS, Array, Current, close, correlate, image, new_stream, numpy_of


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


def test_results_of_other_types_are_cupys(cupy, monkeypatch):
    monkeypatch.setattr(cupy.ndarray, "__module__", "cupy")
    array = cupy.ndarray((12, 40), "f4", image(12, 40))
    with pytest.raises(NotImplementedError, match="cupyx.scipy.ndimage may compute it"):
        faltung.ndimage.sobel(array, output="complex64")
    pieces = {name: types.ModuleType(name) for name in ("cupyx", "cupyx.scipy", "cupyx.scipy.ndimage")}
    pieces["cupyx.scipy.ndimage"].sobel = lambda *args, **options: (args, options)
    for name, module in pieces.items():
        monkeypatch.setitem(sys.modules, name, module)
    for output in (np.float16, "complex64", cupy.ndarray((12, 40), "F")):
        assert faltung.ndimage.sobel(array, output=output) == ((array,), {"output": output})


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
        native = faltung._native.filter_picture(array, weights, None, mode, 1.5, origin, function == "convolve")
        output = cupy.ndarray(values.shape, type_)
        assert faltung._native.filter_picture(array, weights, output, mode, 1.5, origin, function == "convolve") is output
        result = ours(array, weights, mode=mode, cval=1.5, origin=origin)
        for found in (native, output, result):
            assert type(found) is cupy.ndarray and found.dtype == values.dtype
            expected = right(values, weights, mode=mode, cval=1.5, origin=origin)
            assert np.abs(found.get().astype("f8") - expected.astype("f8")).max() <= tolerance
    # All else takes the long way, which knows the errors, too.
    for weights, origin, cval in [([[1, 2]], 0, 0.0), (WEIGHTS, (0, 0), 0.0), (WEIGHTS, 0, 1j), (WEIGHTS, 0.5, 0.0)]:
        assert faltung._native.filter_picture(array, weights, None, "reflect", cval, origin, False) is None
    for given in (values, cupy.ndarray(values.shape, "c8", values.astype("c8")), cupy.ndarray((40,), "f4", values[0].astype("f4")), [[1.0]]):
        assert faltung._native.filter_picture(given, WEIGHTS, None, "reflect", 0.0, 0, False) is None
    assert faltung._native.filter_picture(array, WEIGHTS, None, "mirrors", 0.0, 0, False) is None
    assert faltung._native.filter_picture(array, WEIGHTS, None, "reflect", 0.0, 2, False) is None, "outside of the window"
    others = [array, values, "f4", np.float32, cupy.ndarray((40, 12), type_), cupy.ndarray((12, 40), "i8")]
    for output in others:
        assert faltung._native.filter_picture(array, WEIGHTS, output, "reflect", 0.0, 0, False) is None, output
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
