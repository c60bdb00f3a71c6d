"""Arrays on CUDA devices: what the filters need of them.

``wrap(obj)`` is the device array that an object is, or None. ``empty(like, shape, dtype)`` is a new array of the same
library. ``correlate2d_f32`` enqueues a correlation and returns whether it could.
"""

import atexit

from faltung._native import (
    Device,
    DeviceArray,
    correlate2d_f32,
    devices,
    empty,
    info,
    release_finished,
    wrap,
)

__all__ = [
    "Device",
    "DeviceArray",
    "correlate2d_f32",
    "devices",
    "empty",
    "info",
    "release_finished",
    "wrap",
]

# Work may still use the arrays when the interpreter ends.
atexit.register(release_finished, wait=True)
