"""Image filters on NVIDIA GPUs and on any CPU: those of `scipy.ndimage` in `faltung.ndimage`, and OpenCV's."""

from faltung import ndimage
from faltung._device import Device, DeviceArray, devices, info
from faltung._install import install, installed, uninstall
from faltung._native import __version__, describe_cpu
from faltung._opencv import GaussianBlur, blur, filter2D, sepFilter2D

__all__ = [
    "Device",
    "DeviceArray",
    "GaussianBlur",
    "__version__",
    "blur",
    "describe_cpu",
    "devices",
    "filter2D",
    "info",
    "install",
    "installed",
    "ndimage",
    "sepFilter2D",
    "uninstall",
]
