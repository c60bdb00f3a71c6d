"""Memory for results."""

import math

import numpy as np

from faltung import _native


def empty(shape, dtype):
    """A new array like ``numpy.empty``. `_native` keeps the memory of large ones when they are freed."""
    dtype = np.dtype(dtype)
    if math.prod(shape) * dtype.itemsize < _native.LARGE:
        return np.empty(shape, dtype)
    return _native.empty_large(tuple(shape), dtype)
