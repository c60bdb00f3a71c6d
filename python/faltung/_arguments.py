"""The arguments of `faltung.ndimage`: checked, and in the form that the filters take."""

import math
import operator
import reprlib
import warnings
from collections.abc import Iterable

import numpy as np

from faltung import _native, _on_device
from faltung._memory import empty
from faltung._on_device import OnDevice

# The library's numbers of the border modes, by SciPy's names.
MODES = _native.MODES

# SciPy's names of the modes, by number; the library knows the same names.
MODE_NAMES = {code: name for name, code in reversed(MODES.items())}

# The kinds and sizes of NumPy's types that the library computes: bool, integers, float32, float64, and complex numbers
# made of these.
TYPES = frozenset("?bBhHiIlLqQfdFD")

# The real ones: those of arrays on a device.
REAL_TYPES = TYPES - frozenset("FD")

# The largest number of float32.
_MOST_F32 = float(np.finfo(np.float32).max)

# The library's accuracy classes, for the argument `accuracy`.
ACCURACIES = ("exact", "bounded", "normwise")


class Unsupported(Exception):
    """A type that the library does not compute. SciPy gets the call."""


def check_accuracy(accuracy):
    if accuracy is not None and accuracy not in ACCURACIES:
        raise ValueError(f"accuracy must be 'exact', 'bounded', 'normwise' or None, not {accuracy!r}")


def shown(value):
    """A value in a message, however long it is."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "an integer of thousands of digits"


def integer(value, name):
    try:
        return operator.index(value)
    except TypeError:
        # The last words are the text of Python and of SciPy.
        raise TypeError(f"{name} must be an integer: {shown(value)} cannot be interpreted as an integer") from None


def compared(relation, value, bound, name):
    """``relation(value, bound)``. `relation` is a comparison of the module `operator`."""
    try:
        return relation(value, bound)
    except TypeError:
        raise TypeError(f"{name} must be a real number, not {shown(value)}") from None


def as_weights(weights):
    try:
        return np.asarray(weights)
    except ValueError as error:
        raise ValueError(f"weights must be an array of numbers, not {shown(weights)}: {error}") from None


def real_weights(weights):
    try:
        return np.asarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"weights must be numbers, not {shown(weights)}") from None


def fits_f32(cval):
    """Whether float32 has a place for the value outside; infinities and NaN have one.

    As in SciPy, a value that is no real number raises `TypeError`, also where the mode does not need it.
    """
    if type(cval) is float and -_MOST_F32 <= cval <= _MOST_F32:
        return True
    try:
        magnitude = math.fabs(cval)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"cval must be a real number, not {shown(cval)}") from None
    return not _MOST_F32 < magnitude < math.inf


def as_input(array):
    """The input as an array of a type that the library computes, in native byte order: NumPy's, or one on a device."""
    if type(array) is OnDevice:
        return array
    if type(array) is not np.ndarray:
        on_device = _on_device.wrap(array)
        if on_device is not None:
            dtype = on_device.dtype
            if dtype.char not in REAL_TYPES or not dtype.isnative or on_device.ndim > _native.MOST_AXES:
                raise Unsupported(f"arrays of {dtype} with {on_device.ndim} axes on a device")
            return on_device
    array = np.asarray(array)
    dtype = array.dtype
    if dtype.char not in TYPES:
        raise Unsupported(f"arrays of {dtype}")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def mode_code(mode):
    try:
        return MODES[mode]
    except (KeyError, TypeError):
        raise RuntimeError(f"boundary mode not supported: {mode!r}, which must be one of {sorted(MODES)}") from None


def per_axis(value, count, name):
    """A value for each axis: one for all, or a sequence of as many."""
    # `numpy.iterable` takes a microsecond.
    if type(value) in (int, float, str) or isinstance(value, str) or not np.iterable(value):
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise RuntimeError(
            f"sequence argument must have length equal to input rank: {name} has {len(values)} values for {count} axes"
        )
    return values


def checked_axes(axes, ndim):
    """The axes as numbers from 0 on."""
    if axes is None:
        return tuple(range(ndim))
    if np.isscalar(axes):
        return (checked_axis(axes, ndim, "axes"),)
    if not isinstance(axes, Iterable):
        raise ValueError(f"axes must be an integer, a sequence of integers, or None, not {axes!r}")
    numbers_of_axes = []
    for axis in axes:
        axis = integer(axis, "each of axes")
        if not -ndim <= axis < ndim:
            raise ValueError(f"specified axis: {axis} is out of range for {ndim} axes")
        numbers_of_axes.append(axis % ndim)
    if len(set(numbers_of_axes)) != len(numbers_of_axes):
        raise ValueError(f"axes must be unique, not {axes!r}")
    return tuple(numbers_of_axes)


def checked_axis(axis, ndim, name="axis"):
    axis = integer(axis, name)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def checked_origin(origin, size, name):
    try:
        is_outside = origin < -(size // 2) or origin > (size - 1) // 2
    except TypeError:
        raise TypeError(f"origin must be an integer, not {shown(origin)}") from None
    if is_outside:
        raise ValueError(
            f"Invalid origin; origin must satisfy -({name} // 2) <= origin <= ({name} - 1) // 2: "
            f"it is {origin} for a size of {size}"
        )
    return integer(origin, "origin")


def checked_window_origin(origin, size):
    """The origin of a mean, for which SciPy has another error."""
    try:
        middle = size // 2 + origin
    except TypeError:
        raise TypeError(f"origin must be an integer, not {shown(origin)}") from None
    if middle < 0 or middle >= size:
        raise ValueError(f"invalid origin: {origin} for a size of {size}")
    return integer(origin, "origin")


def make_output(output, array, is_complex=False):
    """The array for the results: `output` itself, or a new array if `output` is a type or None."""
    if type(array) is OnDevice:
        if type(output) is OnDevice:
            return output
        if is_complex:
            raise Unsupported("complex weights for arrays on a device")
        if isinstance(output, (type, np.dtype, str)):
            _check_device_type(np.dtype(output))
        output = _on_device.output(output, array)
        _check_device_type(output.dtype)
        return output
    if output is None:
        dtype = array.dtype
        if is_complex:
            dtype = np.promote_types(dtype, np.complex64)
        return empty(array.shape, dtype)
    if isinstance(output, (type, np.dtype, str)):
        dtype = np.dtype(output)
        if isinstance(output, str):
            if is_complex and dtype.kind != "c":
                raise RuntimeError(f"output must have complex dtype, not {dtype}")
            if not issubclass(dtype.type, np.number):
                raise RuntimeError(f"output must have numeric dtype, not {dtype}")
        elif is_complex and dtype.kind != "c":
            warnings.warn("promoting specified output dtype to complex", stacklevel=5)
            dtype = np.promote_types(dtype, np.complex64)
        if dtype.char not in TYPES:
            raise Unsupported(f"results of {dtype}")
        return empty(array.shape, dtype)
    output = np.asarray(output)
    if output.shape != array.shape:
        raise RuntimeError(f"output shape not correct: it must be {array.shape}, and is {output.shape}")
    if is_complex and output.dtype.kind != "c":
        raise RuntimeError(f"output must have complex dtype, not {output.dtype}")
    if output.dtype.char not in TYPES:
        raise Unsupported(f"results of {output.dtype}")
    if not output.flags.writeable:
        raise ValueError("output must be writable, but it is read-only")
    return output


def _check_device_type(dtype):
    """Refuses a type of results that the kernels do not compute."""
    if dtype.char not in REAL_TYPES or not dtype.isnative:
        raise Unsupported(f"results of {dtype} on a device")


def check_cval(array, weights, cval):
    """Refuses a complex `cval` for a real array with complex weights. With real weights, the filters refuse it."""
    if weights.dtype.kind == "c" and array.dtype.kind != "c" and np.iscomplexobj(cval):
        raise ValueError("Cannot provide a complex-valued cval when the input is real.")


def refuse_others(options, name):
    others = options.keys() - {"truncate", "radius"}
    if others:
        raise TypeError(f"{name}() got an unexpected keyword argument {sorted(others)[0]!r}")
