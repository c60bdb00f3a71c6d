"""How the filters of `faltung.ndimage` run: in which memory, with which sums, by which function of the library.

All arguments are checked.
"""

import functools
import math
import struct

import numpy as np

from faltung import _native
from faltung._arguments import MODE_NAMES, MODES, REAL_TYPES, Unsupported, fits_f32, mode_code
from faltung._memory import empty
from faltung._on_device import OnDevice

# Weights of this magnitude or less count as 0 in `correlate` and `convolve`, as in SciPy.
_NO_WEIGHT = float(np.finfo(np.float64).eps)

# The largest mean of a picture of float32 that is computed as a sum of products, in one pass over memory. Running sums,
# whose work does not grow with the size, take less time for larger means.
SMALL_MEAN = 12

# The most products of a window that is wider than the image.
_MOST_PRODUCTS = 1 << 16

# A number of float32. `numpy.float32` may warn or raise where a number is rounded to 0.
_F32 = struct.Struct("f")

# Of fewer weights than this, the products with 0 are left out one by one.
_FEW = 64


def _is_same(a, b):
    """Whether two arrays of one shape have the same elements in the same order."""
    return (
        a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and a.strides == b.strides
        and a.dtype == b.dtype
    )


def run_on_host(array, output, compute, may_be_same):
    """Calls ``compute(array, output)`` with arrays that the library takes.

    A result in another byte order, or one that overlaps the input, is computed in memory of its own.
    """
    shares = np.may_share_memory(array, output)
    direct = output.dtype.isnative and (not shares or (may_be_same and _is_same(array, output)))
    if direct and array.ndim:
        compute(array, output)
        return
    result = empty(output.shape, output.dtype.newbyteorder("="))
    if array.ndim:
        compute(array, result)
    else:
        compute(array.reshape(1), result.reshape(1))
    output[...] = result


def run_on_device(array, output, compute):
    """Calls ``compute(array, output)`` with device arrays that have no byte in common."""
    if not array.overlaps(output):
        compute(array.array, output.array)
        return
    result = output.empty(output.dtype)
    compute(array.array, result.array)
    output.assign(result)


def one_after_another(array, output, filters):
    """Filters `array` into `output` by several functions ``filter(source, target)``."""
    targets = [output] * len(filters)
    if type(array) is OnDevice and len(filters) > 1:
        # Kernels can't filter an array in place.
        between = output.empty(output.dtype)
        targets = [output if i % 2 == 0 else between for i in reversed(range(len(filters)))]
    for function, target in zip(filters, targets):
        function(array, target)
        array = target


def assign(output, array):
    if type(output) is OnDevice:
        output.assign(array)
    else:
        output[...] = array


def has_f32_sums(array, output, exact):
    return not exact and array.dtype == np.float32 and output.dtype == np.float32


def _complex_parts(function, array, weights, output, cval, exact):
    """A filter of complex numbers by filters of their parts: ``function(array, weights, output, cval, exact)``."""
    if array.dtype.kind != "c":
        function(array, weights.real, output.real, cval, exact)
        function(array, weights.imag, output.imag, cval, exact)
        return
    real, imaginary = (array.real, np.real(cval)), (array.imag, np.imag(cval))
    if weights.dtype.kind != "c":
        for (values, outside), result in ((real, output.real), (imaginary, output.imag)):
            function(values, weights, result, outside, exact)
        return
    if np.may_share_memory(array, output):
        real, imaginary = (real[0].copy(), real[1]), (imaginary[0].copy(), imaginary[1])
    # As in SciPy, the products with the imaginary part have the input's type. The sums are those of the other products.
    product = empty(array.shape, array.real.dtype)
    exact_product = exact or output.real.dtype != np.float32
    function(real[0], weights.real, output.real, real[1], exact)
    function(imaginary[0], weights.imag, product, imaginary[1], exact_product)
    output.real -= product
    function(real[0], weights.imag, output.imag, real[1], exact)
    function(imaginary[0], weights.real, product, imaginary[1], exact_product)
    output.imag += product


def _has_rows(array):
    """Whether an array has rows without gaps, one after the other, as the library takes pictures."""
    return array[0].flags.c_contiguous and array.strides[0] >= array[0].nbytes and array.flags.aligned


def _image(array, column, row, shape, output, mode, cval, origins):
    """Correlates a picture of float32, if its memory is that of a picture; else returns False.

    `column` and `row` are the weights along both axes, of `shape`; `column` has all weights if `row` is None.
    """
    if not (array.size and _has_rows(array) and _has_rows(output)):
        return False
    # `fits_f32` is called for every mode, because it raises what SciPy raises.
    if not fits_f32(cval) and mode == "constant":
        return False
    if np.may_share_memory(array, output):
        array = array.copy()
    border = f"constant:{_F32.unpack(_F32.pack(cval))[0]}" if mode == "constant" else mode
    anchor = tuple(size // 2 + origin for size, origin in zip(shape, origins))
    row = None if row is None else row.tobytes()
    _native.correlate_image(array, output, (column.tobytes(), row, shape, anchor, 1.0, 0.0, border, "bounded"))
    return True


def separable_image(array, output, passes, cval, exact):
    """Filters a picture of float32 on the host along its rows and columns at once; returns False for other arrays and
    filters.

    `passes` are axis, weights, origin and mode of each filter.
    """
    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] <= 4)
    if type(array) is OnDevice or not is_picture or not has_f32_sums(array, output, exact):
        return False
    if [axis for axis, *_ in passes] != [0, 1] or passes[0][3] != passes[1][3]:
        return False
    (_, column, *_), (_, row, *_) = passes
    origins, mode = [origin for _, _, origin, _ in passes], MODE_NAMES[mode_code(passes[0][3])]
    if mode == "constant" and cval != 0:
        return False  # outside, the second filter reads `cval`, but one window reads what the first makes of it
    column, row = np.asarray(column, np.float64), np.asarray(row, np.float64)
    fit = _native.fits_f32(column) and _native.fits_f32(row)
    return fit and _image(array, column, row, (len(column), len(row)), output, mode, cval, origins)


def filter_all_axes(array, weights, output, mode, cval):
    """Filters an array along each of its axes, with all arguments but these at their defaults.

    `weights` may be the size of a mean.

    This is the short way for common arguments: on small arrays all checks take longer than the filter. Returns the
    result, which is a new array, or on a device `output`. Returns None where the long way is needed.
    """
    code = MODES.get(mode) if type(mode) is str else None
    if code is None:
        return None
    if type(array) is not np.ndarray:
        return _native.filter_all_axes(array, weights, output, code, cval)
    dtype = array.dtype
    if output is not None or dtype.char not in REAL_TYPES or not dtype.isnative or not array.ndim or type(cval) is not float:
        return None
    if dtype.char == "f":
        return _smoothed_picture(array, weights, MODE_NAMES[code], cval)
    output = empty(array.shape, dtype)
    filters = [(axis, weights, code, 0) for axis in range(array.ndim)]
    _native.filter_axes(array, output, filters, cval, False)
    return output


def _smoothed_picture(array, weights, mode, cval):
    """`filter_all_axes` of a picture of float32."""
    if array.ndim != 2 or (mode == "constant" and cval != 0):
        return None
    if type(weights) is int:
        if not is_sum_of_products(array.shape, (weights, weights)):
            return None
        weights = _mean_weights(weights)
    output = empty(array.shape, array.dtype)
    shape = (len(weights), len(weights))
    done = _native.fits_f32(weights) and _image(array, weights, weights, shape, output, mode, cval, (0, 0))
    return output if done else None


def is_sum_of_products(shape, sizes):
    """Whether the mean of a window is computed as a correlation instead of by running sums.

    Running sums take more time for a small window. They also do for a window wider than the image, because each row
    then has the border of the window.
    """
    return max(sizes) <= SMALL_MEAN or (shape[1] < sizes[1] and math.prod(sizes) <= _MOST_PRODUCTS)


@functools.lru_cache(maxsize=SMALL_MEAN)
def _mean_weights(size):
    """The weights of a mean."""
    weights = np.full(size, 1 / size)
    weights.flags.writeable = False
    return weights


def filter_axes(array, output, passes, cval, exact):
    """Filters a real array along several axes in one call; returns False for other arrays.

    `passes` are axis, weights or size, origin and mode of each filter.
    """
    if array.dtype.kind == "c" or output.dtype.kind == "c":
        return False
    filters = [
        (axis, weights if type(weights) is int else np.asarray(weights, np.float64), mode_code(mode), origin)
        for axis, weights, origin, mode in passes
    ]
    has_place = fits_f32(cval)
    exact = exact or not has_place
    if type(array) is OnDevice:
        return _native.device_filter_axes(array.array, output.array, filters, cval, exact)
    if not has_place and any(type(weights) is int for _, weights, _, _ in filters):
        return False  # means along two axes at once need a `cval` of the array's type
    is_f32 = has_f32_sums(array, output, exact) and all(
        type(weights) is int or _native.fits_f32(weights) for _, weights, _, _ in filters
    )

    def compute(values, result):
        _native.filter_axes(values, result, filters, cval, is_f32)

    run_on_host(array, output, compute, may_be_same=True)
    return True


def correlate_lines(array, weights, axis, output, mode, cval, origin, exact):
    """Correlates along an axis. All arguments are checked; array and output are real or complex."""
    if array.dtype.kind == "c" or weights.dtype.kind == "c":

        def part(values, weights, result, outside, exact):
            weights = np.ascontiguousarray(weights, np.float64)
            correlate_lines(values, weights, axis, result, mode, outside, origin, exact)

        _complex_parts(part, array, weights, output, cval, exact)
        return
    if output.dtype.kind == "c":
        correlate_lines(array, weights, axis, output.real, mode, cval, origin, exact)
        output.imag = 0
        return
    is_f32 = fits_f32(cval) and has_f32_sums(array, output, exact) and _native.fits_f32(weights)
    if type(array) is OnDevice:

        def enqueue(values, result):
            _native.device_correlate1d(values, weights, result, axis, mode, cval, origin, is_f32)

        run_on_device(array, output, enqueue)
        return

    def compute(values, result):
        _native.filter_axes(values, result, [(axis, weights, mode, origin)], cval, is_f32)

    run_on_host(array, output, compute, may_be_same=True)


def correlate_dense(array, weights, output, mode, cval, origins, exact):
    """Correlates with weights of as many axes. All arguments are checked; array and output are real or complex."""
    if array.dtype.kind == "c" or weights.dtype.kind == "c":

        def part(values, weights, result, outside, exact):
            correlate_dense(values, np.ascontiguousarray(weights, np.float64), result, mode, outside, origins, exact)

        _complex_parts(part, array, weights, output, cval, exact)
        return
    if output.dtype.kind == "c":
        correlate_dense(array, weights, output.real, mode, cval, origins, exact)
        output.imag = 0
        return
    exact = exact or not fits_f32(cval)
    if type(array) is OnDevice:
        if not array.ndim:
            raise Unsupported("arrays without axes on a device")
        is_f32 = has_f32_sums(array, output, exact)
        if is_f32 and array.ndim == 2:
            name = MODE_NAMES[mode]
            if _native.correlate2d_f32(array.array, weights, output.array, name, cval, tuple(origins)):
                return
        is_f32 = is_f32 and _native.fits_f32(weights)

        def enqueue(values, result):
            _native.device_correlate(values, weights, result, mode, cval, origins, is_f32)

        run_on_device(array, output, enqueue)
        return
    if not array.ndim:
        weights, origins = weights.reshape(1), [0]
    is_f32 = has_f32_sums(array, output, exact) and _native.fits_f32(weights)
    if is_f32 and (array.ndim == 2 or (array.ndim == 3 and weights.shape[2] == 1 and array.shape[2] <= 4)):
        has_zeros = not _native.are_above(weights, _NO_WEIGHT)
        # SciPy leaves out products with 0, which matters where the array is not finite.
        if not (has_zeros and weights.size < _FEW):
            if has_zeros and np.may_share_memory(array, output):
                # The second filter below reads the array after the first one has written the output.
                array = array.copy()
            name = MODE_NAMES[mode]
            done = _image(array, weights, None, weights.shape[:2], output, name, cval, origins[:2])
            if done and not (has_zeros and not np.isfinite(output.sum())):
                return

    def compute(values, result):
        _native.correlate(values, weights, result, mode, cval, origins, is_f32)

    run_on_host(array, output, compute, may_be_same=False)
