"""The filters of `faltung.ndimage` without their documentation. They check the arguments and compute."""

import functools
import numbers
import operator
from collections.abc import Iterable

import numpy as np

from faltung import _native
from faltung._arguments import (
    as_input,
    as_weights,
    check_cval,
    checked_axes,
    checked_axis,
    checked_origin,
    checked_window_origin,
    compared,
    fits_f32,
    integer,
    make_output,
    mode_code,
    per_axis,
    real_weights,
    refuse_others,
    shown,
)
from faltung._dispatch import (
    assign,
    correlate_dense,
    correlate_lines,
    filter_all_axes,
    filter_axes,
    has_f32_sums,
    is_sum_of_products,
    one_after_another,
    run_on_device,
    run_on_host,
    separable_image,
)
from faltung._memory import empty
from faltung._on_device import OnDevice

# The difference of both neighbours, and what Sobel and Prewitt smooth it with.
_DIFFERENCE = np.array([-1.0, 0.0, 1.0])
SOBEL = np.array([1.0, 2.0, 1.0])
PREWITT = np.array([1.0, 1.0, 1.0])

# The index that reverses an axis.
_REVERSED = (slice(None, None, -1),)


def correlate1d(array, weights, axis, output, mode, cval, origin, exact):
    array = as_input(array)
    weights = as_weights(weights)
    is_complex = array.dtype.kind == "c" or weights.dtype.kind == "c"
    output = make_output(output, array, is_complex)
    check_cval(array, weights, cval)
    if weights.dtype.kind == "c":
        weights = weights.conj().astype(np.complex128, copy=False)
    else:
        weights = real_weights(weights)
    if weights.ndim != 1 or weights.shape[0] < 1:
        raise RuntimeError(f"no filter weights given: they must have shape (n,), not {weights.shape}")
    if weights.dtype.kind != "c":
        weights = np.ascontiguousarray(weights)
    axis = checked_axis(axis, array.ndim)
    origin = checked_origin(origin, len(weights), "len(weights)")
    correlate_lines(array, weights, axis, output, mode_code(mode), cval, origin, exact)
    return output


def convolve1d(array, weights, axis, output, mode, cval, origin, exact):
    weights = as_weights(weights)[::-1]
    if type(origin) is not int:
        origin = integer(origin, "origin")
    origin = -origin
    if not weights.shape[0] & 1:
        origin -= 1
    if weights.dtype.kind == "c":
        weights = weights.conj()  # a correlation takes the conjugate weights
    return correlate1d(array, weights, axis, output, mode, cval, origin, exact)


def _gaussian_weights(sigma, order, radius):
    """The weights of a Gaussian's derivative of this order, for a correlation."""
    if type(sigma) in (int, float) and type(order) is int:
        return _kept_gaussian_weights(sigma, order, radius)
    return _new_gaussian_weights(sigma, order, radius)


def _new_gaussian_weights(sigma, order, radius):
    if compared(operator.lt, order, 0, "order"):
        raise ValueError(f"order must be non-negative, not {order}")
    x = np.arange(-radius, radius + 1)
    variance = sigma * sigma
    weights = np.exp(-0.5 / variance * x**2)
    weights = weights / weights.sum()
    if order:
        # A derivative is a polynomial times the Gaussian. Differentiating it once more maps the coefficients: the
        # polynomial's derivative, and -x / sigma^2 times the polynomial.
        powers = np.arange(order + 1)
        order = integer(order, "order")
        step = np.diag(powers[1:], 1) + np.diag(np.ones(order) / -variance, -1)
        polynomial = np.zeros(order + 1)
        polynomial[0] = 1
        for _ in range(order):
            polynomial = step.dot(polynomial)
        weights = (x[:, None] ** powers).dot(polynomial) * weights
    weights = np.ascontiguousarray(weights[::-1])
    weights.flags.writeable = False
    return weights


# They take longer than a filter of a small array on a GPU.
_kept_gaussian_weights = functools.lru_cache(maxsize=64, typed=True)(_new_gaussian_weights)


def _standard_deviation(sigma):
    try:
        width = float(sigma)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"sigma must be a real number of float64, not {shown(sigma)}") from None
    if isinstance(sigma, (str, bytes)):
        raise TypeError(f"sigma must be a real number, not {shown(sigma)}")
    return width


def _gaussian_radius(sigma, truncate, radius):
    # As in SciPy, sigma must be finite even where the radius is given.
    width = _standard_deviation(sigma)
    try:
        reach = int(truncate * width + 0.5)
    except TypeError:
        raise TypeError(f"truncate must be a real number, not {shown(truncate)}") from None
    except (ValueError, OverflowError) as error:
        found = f"{shown(sigma)} and {shown(truncate)}"
        raise type(error)(f"sigma and truncate must be numbers with a finite product, not {found}") from None
    if radius is None:
        radius = reach
    if not isinstance(radius, numbers.Integral) or radius < 0:
        raise ValueError(f"Radius must be a nonnegative integer, not {radius!r}.")
    return int(radius)


def gaussian1d(array, sigma, axis, order, output, mode, cval, truncate, radius, exact):
    weights = _gaussian_weights(sigma, order, _gaussian_radius(sigma, truncate, radius))
    return correlate1d(array, weights, axis, output, mode, cval, 0, exact)


def _may_take_one_call(array, axes, exact):
    """Whether one call of the library may do all: on small arrays the arguments take longer than the filter."""
    return axes is None and not exact and type(array) is not OnDevice


def gaussian(array, sigma, order, output, mode, cval, truncate, radius, axes, exact):
    is_plain = type(sigma) in (int, float) and type(order) is int and type(radius) in (int, type(None))
    if _may_take_one_call(array, axes, exact) and is_plain and sigma > 1e-15 and order == 0:
        weights = _gaussian_weights(sigma, 0, _gaussian_radius(sigma, truncate, radius))
        result = filter_all_axes(array, weights, output, mode, cval)
        if result is not None:
            return result
    array = as_input(array)
    output = make_output(output, array)
    axes = checked_axes(axes, array.ndim)
    count = len(axes)
    passes = zip(
        axes,
        per_axis(sigma, count, "sigma"),
        per_axis(order, count, "order"),
        per_axis(mode, count, "mode"),
        per_axis(radius, count, "radius"),
    )
    passes = [
        (axis, _gaussian_weights(width, degree, _gaussian_radius(width, truncate, reach)), 0, axis_mode)
        for axis, width, degree, axis_mode, reach in passes
        if compared(operator.gt, width, 1e-15, "sigma")
    ]
    if not passes:
        assign(output, array)
    elif not (separable_image(array, output, passes, cval, exact) or filter_axes(array, output, passes, cval, exact)):
        one_after_another(array, output, [_pass(*one, cval, exact) for one in passes])
    return output


def _pass(axis, weights, origin, mode, cval, exact):
    """A filter along one axis, as a function of source and target."""
    return lambda source, target: correlate1d(source, weights, axis, target, mode, cval, origin, exact)


def uniform1d(array, size, axis, output, mode, cval, origin):
    array = as_input(array)
    axis = checked_axis(axis, array.ndim)
    if compared(operator.lt, size, 1, "size"):
        raise RuntimeError(f"incorrect filter size: it must be at least 1, not {size}")
    is_complex = array.dtype.kind == "c"
    output = make_output(output, array, is_complex)
    origin = checked_window_origin(origin, size)
    mode, size = mode_code(mode), integer(size, "size")
    if type(array) is OnDevice:

        def enqueue(values, result):
            _native.device_uniform1d(values, size, result, axis, mode, cval, origin)

        run_on_device(array, output, enqueue)
        return output
    parts = [(array, output, cval)]
    if is_complex:
        parts = [(array.real, output.real, np.real(cval)), (array.imag, output.imag, np.imag(cval))]
    elif output.dtype.kind == "c":
        parts = [(array, output.real, cval)]
    for values, result, outside in parts:
        fits_f32(outside)

        def compute(values, result, outside=outside):
            _native.filter_axes(values, result, [(axis, size, mode, origin)], outside, False)

        run_on_host(values, result, compute, may_be_same=True)
    if output.dtype.kind == "c" and not is_complex:
        # Last, because the imaginary part may be the input.
        output.imag = 0
    return output


def _whole_size(size):
    try:
        return int(size)
    except OverflowError:
        raise OverflowError(f"size must be finite, not {shown(size)}") from None


def uniform(array, size, output, mode, cval, origin, axes, exact):
    """A mean along each axis."""
    is_plain = type(size) is int and type(origin) is int
    if _may_take_one_call(array, axes, exact) and is_plain and size > 1 and origin == 0:
        result = filter_all_axes(array, size, output, mode, cval)
        if result is not None:
            return result
    array = as_input(array)
    output = make_output(output, array, array.dtype.kind == "c")
    axes = checked_axes(axes, array.ndim)
    count = len(axes)
    passes = zip(
        axes,
        per_axis(size, count, "size"),
        per_axis(origin, count, "origin"),
        per_axis(mode, count, "mode"),
    )
    passes = [
        (axis, _whole_size(size), checked_window_origin(origin, _whole_size(size)), axis_mode)
        for axis, size, origin, axis_mode in passes
        if compared(operator.gt, size, 1, "size")
    ]
    if not passes:
        assign(output, array)
        return output
    takes_products = array.ndim != 2 or len(passes) != 2 or is_sum_of_products(array.shape, [one[1] for one in passes])
    if takes_products and has_f32_sums(array, output, exact):
        weighted = [(axis, np.full(size, 1 / size), origin, axis_mode) for axis, size, origin, axis_mode in passes]
        if separable_image(array, output, weighted, cval, exact):
            return output
    if filter_axes(array, output, passes, cval, exact):
        return output
    filters = [
        lambda source, target, axis=axis, size=size, origin=origin, mode=axis_mode: uniform1d(
            source, size, axis, target, mode, cval, origin
        )
        for axis, size, origin, axis_mode in passes
    ]
    one_after_another(array, output, filters)
    return output


def smoothed_difference(array, axis, output, mode, cval, smoothing, exact):
    """The difference of both neighbours along `axis`, smoothed along the others."""
    array = as_input(array)
    axis = checked_axis(axis, array.ndim)
    output = make_output(output, array)
    modes = per_axis(mode, array.ndim, "mode")
    if array.ndim == 2:
        weights = [smoothing, smoothing]
        weights[axis] = _DIFFERENCE
        if separable_image(array, output, [(0, weights[0], 0, modes[0]), (1, weights[1], 0, modes[1])], cval, exact):
            return output
    others = (other for other in range(array.ndim) if other != axis)
    passes = [(axis, _DIFFERENCE, 0, modes[axis])]
    passes += [(other, smoothing, 0, modes[other]) for other in others]
    if not filter_axes(array, output, passes, cval, exact):
        one_after_another(array, output, [_pass(*one, cval, exact) for one in passes])
    return output


def _sum_over_axes(array, output, mode, axes, derivative, square):
    """The sum of a derivative along each axis, or of its squares."""
    array = as_input(array)
    output = make_output(output, array)
    axes = checked_axes(axes, array.ndim)
    if not axes:
        assign(output, array)
        return output
    modes = per_axis(mode, len(axes), "mode")
    is_on_device = type(array) is OnDevice
    overlaps = array.overlaps(output) if is_on_device else np.may_share_memory(array, output)
    source = array
    if len(axes) > 1 and overlaps:
        # The first one overwrites the input, which the others still need.
        source = array.empty(array.dtype) if is_on_device else empty(array.shape, array.dtype)
        assign(source, array)
    derivative(source, axes[0], output, modes[0])
    if square:
        _square(output)
    for axis, axis_mode in zip(axes[1:], modes[1:]):
        term = derivative(source, axis, output.dtype, axis_mode)
        if square:
            _square(term)
        if is_on_device:
            output.add(term)
        else:
            output += term
    return output


def _square(array):
    if type(array) is OnDevice:
        array.square()
    else:
        np.multiply(array, array, array)


def laplace(array, output, mode, cval, axes, exact):
    def derivative(values, axis, result, axis_mode):
        return correlate1d(values, [1, -2, 1], axis, result, axis_mode, cval, 0, exact)

    return _sum_over_axes(array, output, mode, axes, derivative, square=False)


def _order_along(axis, ndim, order):
    return [order if other == axis else 0 for other in range(ndim)]


def gaussian_laplace(array, sigma, output, mode, cval, axes, options, exact):
    options = {"truncate": 4.0, "radius": None, **options}
    refuse_others(options, "gaussian_laplace")
    array = as_input(array)
    filtered = checked_axes(axes, array.ndim)
    sigmas = per_axis(sigma, len(filtered), "sigma")
    if len(filtered) < array.ndim:
        # As in SciPy, the sigmas belong to the axes as they are named only where these are not all axes.
        of_filtered, sigmas = sigmas, [0] * array.ndim
        for axis, value in zip(filtered, of_filtered):
            sigmas[axis] = value

    def derivative(values, axis, result, axis_mode):
        order = _order_along(axis, array.ndim, 2)
        return gaussian(values, sigmas, order, result, axis_mode, cval, *options.values(), None, exact)

    return _sum_over_axes(array, output, mode, axes, derivative, square=False)


def gaussian_gradient_magnitude(array, sigma, output, mode, cval, axes, options, exact):
    options = {"truncate": 4.0, "radius": None, **options}
    refuse_others(options, "gaussian_gradient_magnitude")
    array = as_input(array)

    def derivative(values, axis, result, axis_mode):
        order = _order_along(axis, array.ndim, 1)
        return gaussian(values, sigma, order, result, axis_mode, cval, *options.values(), None, exact)

    output = _sum_over_axes(array, output, mode, axes, derivative, square=True)
    if not checked_axes(axes, array.ndim):
        return output
    if type(output) is OnDevice:
        output.root()
    else:
        np.sqrt(output, output, casting="unsafe")
    return output


def correlate_or_convolve(array, weights, output, mode, cval, origin, is_convolution, axes, exact):
    if _may_take_one_call(array, axes, exact) and type(array) is not np.ndarray:
        result = _native.filter_picture(array, weights, output, mode, cval, origin, is_convolution)
        if result is not None:
            return result
    array = as_input(array)
    weights = as_weights(weights)
    is_complex = array.dtype.kind == "c" or weights.dtype.kind == "c"
    output = make_output(output, array, is_complex)
    check_cval(array, weights, cval)
    if weights.dtype.kind == "c":
        weights = weights.astype(np.complex128, copy=False)
        if not is_convolution:
            weights = weights.conj()
    else:
        weights = real_weights(weights)
    ndim = array.ndim
    filtered = range(ndim) if axes is None else checked_axes(axes, ndim)
    if weights.ndim != len(filtered) or 0 in weights.shape:
        raise RuntimeError(
            f"weights.ndim ({weights.ndim}) must match len(axes) ({len(filtered)}), and each axis must have an "
            f"element, not the shape {weights.shape}"
        )
    origins = per_axis(origin, len(filtered), "origin")
    if len(filtered) < ndim:
        # As in SciPy, the origins belong to the axes as they are named only where these are not all axes.
        values, origins = origins, [0] * ndim
        for axis, value in zip(filtered, values):
            origins[axis] = value
        weights = np.expand_dims(weights, tuple(axis for axis in range(ndim) if axis not in filtered))
    origins = [checked_origin(value, size, "weights.shape[k]") for value, size in zip(origins, weights.shape)]
    if is_convolution:
        weights = weights[_REVERSED * ndim]
        origins = [-value - (size & 1 == 0) for value, size in zip(origins, weights.shape)]
    if not isinstance(mode, str) and isinstance(mode, Iterable):
        raise RuntimeError("A sequence of modes is not supported")
    if not weights.flags.c_contiguous:
        weights = weights.copy()
    correlate_dense(array, weights, output, mode_code(mode), cval, origins, exact)
    return output
