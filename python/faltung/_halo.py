"""Which values of an image a part of a filter's result depends on, axis by axis.

The result at index `i` depends on the indices `i - below` to `i + above` of the image with its border. A part of the
result is computed from a part of the image, its window. The filter runs on the window as if that were an image of its
own. The window is chosen such that the wanted results are then those of the whole image:

* The border at an end of the window that is an end of the image is the image's border.
* Results near any other end of the window are wrong, and are cut off.

This also holds for filters in several passes, because each pass runs along one axis.
"""

from operator import index
from typing import NamedTuple

import numpy as np

WRAPS = ("wrap", "grid-wrap")


class Reach(NamedTuple):
    """The reach of a filter along one axis."""

    below: int
    above: int
    wraps: bool


class Window(NamedTuple):
    """A part of an axis: consecutive half-open ranges of indices, and where the wanted part starts in them."""

    ranges: tuple[tuple[int, int], ...]
    first: int


def window(start, stop, length, reach):
    """The window of the results `start` to `stop` on an axis of `length` values."""
    low, high = start - reach.below, stop + reach.above
    if 0 <= low and high <= length:
        return Window(((low, high),), reach.below)
    if reach.wraps:
        if high - low >= length:
            return Window(((0, length),), start)
        if low < 0:
            return Window(((length + low, length), (0, high)), reach.below)
        return Window(((low, length), (0, high - length)), reach.below)
    # The border repeats values from inside. `mirror` reaches one value deeper than the others.
    first = max(0, min(low, 2 * length - high - 1))
    last = min(length, max(high, 1 - low))
    return Window(((first, last),), start - first)


def axes_of(axes, ndim):
    """The axes that a filter is applied to, as a list of numbers from 0."""
    if axes is None:
        return list(range(ndim))
    axes = [axes] if _is_index(axes) else list(axes)
    return [index(axis) % ndim for axis in axes]


def per_axis(value, count):
    """`count` values: `value` itself, or one value for each axis."""
    return [value] * count if isinstance(value, str) or not np.iterable(value) else list(value)


def of_mask(shape, origin, axes, ndim, reverse=False):
    """Values below and above for each of `axes`. `reverse` is true for convolutions.

    As in SciPy, the sides of a mask belong to the axes in ascending order. The origins belong to the axes in their
    order, but to all `ndim` axes in ascending order.
    """
    ascending = sorted(axes)
    sides = dict(zip(ascending, shape))
    shifts = dict(zip(axes if len(axes) < ndim else ascending, per_axis(origin, len(axes))))
    result = []
    for axis in axes:
        side, shift = sides[axis], index(shifts[axis])
        below = (side - 1) // 2 - shift if reverse else side // 2 + shift
        result.append((below, side - 1 - below))
    return result


def of_window(size, origin, axes):
    """Values below and above for each of `axes`, where sizes and origins belong to the axes in their order."""
    result = []
    for side, shift in zip(per_axis(size, len(axes)), per_axis(origin, len(axes))):
        # As in SciPy, the fraction of a size does not count, and a size of 1 or less is no filter.
        side, shift = (int(side), index(shift)) if side > 1 else (1, 0)
        below = side // 2 + shift
        result.append((below, side - 1 - below))
    return result


def of_gaussian(sigma, truncate, radius, axes):
    """Values below and above for each of `axes` of a Gaussian filter."""
    result = []
    for width, reach in zip(per_axis(sigma, len(axes)), per_axis(radius, len(axes))):
        if not width > 1e-15:
            reach = 0
        elif reach is None:
            reach = int(truncate * float(width) + 0.5)
        result.append((index(reach), index(reach)))
    return result


def of_gaussian_derivatives(shape, axes, sigma, truncate, radius, mode, smooths_all):
    """The reach along every axis of a sum of derivatives along `axes`.

    Each derivative also smooths the other axes: all of them if `smooths_all`, else those of `axes`.
    """
    every = range(len(shape))
    if not axes:
        return [Reach(0, 0, False)] * len(shape)
    # As in SciPy, sigmas belong to the axes in ascending order where `axes` has all of them.
    if smooths_all or len(axes) == len(shape):
        values = of_gaussian(sigma, truncate, radius, every)
    else:
        sigmas = [0] * len(shape)
        for axis, width in zip(axes, per_axis(sigma, len(axes))):
            sigmas[axis] = width
        values = of_gaussian(sigmas, truncate, radius, every)
    # A derivative has the mode of its own axis on all axes.
    modes = per_axis(mode, len(axes))
    if len({name in WRAPS for name in modes}) > 1:
        # No window has both kinds of borders: an axis is filtered as a whole.
        values = [(length, length) if any(value) else value for value, length in zip(values, shape)]
    return reaches(len(shape), every, values, modes[0])


def reaches(ndim, axes, values, mode):
    """The reach along every axis of an image, from the reach and the mode of each filtered axis."""
    result = [Reach(0, 0, False)] * ndim
    for axis, (below, above), name in zip(axes, values, per_axis(mode, len(axes))):
        result[axis] = Reach(max(0, below), max(0, above), name in WRAPS)
    return result


def _is_index(value):
    try:
        index(value)
    except TypeError:
        return False
    return True
