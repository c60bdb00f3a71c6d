"""What all functions of `faltung.ndimage` have in common.

These are the argument `accuracy`, the counts of calls, and the calls of SciPy for other types.
"""

import functools
import inspect
import sys

from faltung import _native, _on_device
from faltung._arguments import Unsupported, check_accuracy
from faltung._on_device import OnDevice


def _scipy(name, array):
    """The function of this name of SciPy, or of CuPy for its arrays, as it was before `faltung.install`."""
    from faltung import _install

    try:
        if type(array).__module__.partition(".")[0] == "cupy":
            return _install.original("cupyx.scipy.ndimage", name)
        if _on_device.wrap(array) is not None:
            return None
        original = sys.modules.get("scipy_ndimage_original")
        return getattr(original, name) if original else _install.original("scipy.ndimage", name)
    except ImportError:
        return None


def _advice(array):
    """The remedy for a call that neither this library nor another one computes."""
    if type(array).__module__.partition(".")[0] == "cupy":
        return "cupyx.scipy.ndimage may compute it, and cannot be imported"
    if _on_device.wrap(array) is not None:
        return "pass an array of CuPy or NumPy, which CuPy or SciPy may compute"
    return "the library does not compute it, and SciPy is not installed"


def public(function):
    """Counts the calls of a filter, and hands to SciPy what the library does not compute."""
    name = function.__name__
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(name="accuracy", default=None) if parameter.name == "_exact" else parameter
        for parameter in signature.parameters.values()
    ]

    @functools.wraps(function)
    def call(*args, accuracy=None, **kwargs):
        check_accuracy(accuracy)
        if "_exact" in kwargs:
            raise TypeError(f"{name}() got an unexpected keyword argument '_exact'")
        try:
            # "bounded" and "normwise" change nothing.
            result = function(*args, _exact=accuracy == "exact", **kwargs)
        except Unsupported as error:
            array = args[0] if args else kwargs["input"]
            scipy_function = _scipy(name, array)
            if scipy_function is None or scipy_function is call:
                raise NotImplementedError(f"{name} of {error}: {_advice(array)}") from None
            _native.count(False)
            return scipy_function(*args, **kwargs)
        _native.count(True)
        return result.object if type(result) is OnDevice else result

    call.__signature__ = signature.replace(parameters=parameters)
    return call
