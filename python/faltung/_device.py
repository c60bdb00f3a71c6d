"""Arrays on CUDA devices: what the filters need of them.

``wrap(obj)`` is the device array that an object is, or None. ``empty(like, shape, dtype)`` is a new array of the same
library. ``as_host(obj)`` is the NumPy array of an object that offers DLPack on the CPU, or the object itself.
``correlate2d_f32`` enqueues a correlation and returns whether it could.
"""

import atexit

from faltung._native import (
    Device,
    DeviceArray,
    as_host,
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
    "as_host",
    "correlate2d_f32",
    "devices",
    "empty",
    "info",
    "release_finished",
    "wrap",
]

# Work may still use the arrays when the interpreter ends.
atexit.register(release_finished, wait=True)
