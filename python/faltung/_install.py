"""Puts the functions of `faltung.ndimage` in the place of SciPy's and CuPy's, and takes them back."""

import functools
import importlib
import importlib.util
import inspect
import sys
from contextlib import ContextDecorator
from threading import RLock

from faltung._arguments import check_accuracy

NAMES = (
    "correlate",
    "convolve",
    "correlate1d",
    "convolve1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "uniform_filter",
    "uniform_filter1d",
    "sobel",
    "prewitt",
    "laplace",
    "gaussian_laplace",
    "gaussian_gradient_magnitude",
)

_lock = RLock()
_originals = {}  # (module, name): the function that was there; empty while nothing is installed
_installed = {}  # (module, name): the function that took its place
# (module, name): the original function where another program has since replaced ours.
_originals_of_others = {}
_accuracy = None  # the accuracy of the installed functions
_by_call = False  # whether `install()` was called, and `uninstall()` not since
_blocks = 0  # how many blocks `with installed()` run


def install(accuracy=None):
    """Puts the thirteen functions of `faltung.ndimage` into `scipy.ndimage`, and into `cupyx.scipy.ndimage`.

    Code that calls `scipy.ndimage.gaussian_filter` then runs `faltung.ndimage.gaussian_filter`, also inside other
    packages. A module is changed only if its package is installed. Only public names change. These stay as they are:

    * a function that was imported by name before the call: `from scipy.ndimage import gaussian_filter`,
    * names in SciPy's private modules. So SciPy's other functions that use these names do not change.

    A second call changes nothing. Any thread may call it; the change is for all threads.

    `accuracy` is the default of the installed functions. With "exact", results of ``float32`` are SciPy's, too. With
    None they are sums of ``float32``, which is faster. A small difference of large values, such as a gradient of an
    image with an offset, then has a large relative error.

    Returns the names of the changed modules. Raises `ImportError` if there is neither SciPy nor CuPy, `ValueError` for
    an unknown accuracy, and `RuntimeError` if the functions are installed with another one.

    >>> import faltung, scipy.ndimage
    >>> faltung.install()[0]
    'scipy.ndimage'
    >>> scipy.ndimage.sobel is faltung.ndimage.sobel
    True
    >>> faltung.uninstall()
    >>> scipy.ndimage.sobel is faltung.ndimage.sobel
    False
    """
    global _by_call
    with _lock:
        modules = _put(accuracy)
        _by_call = True
        return modules


def uninstall():
    """Undoes `install()`: each name refers to its original function again. If another program has replaced a function
    since, its function stays.

    While any thread is inside a block `with installed()`, the functions stay until the last such block ends. A call
    without an earlier `install()` changes nothing.
    """
    global _by_call
    with _lock:
        _by_call = False
        _take_back()


def installed(accuracy=None):
    """`install(accuracy)` for the length of a ``with`` block. Blocks may be nested, and blocks of several threads may
    overlap, if they have the same accuracy. The returned object may be used for several blocks.

    >>> import faltung, scipy.ndimage
    >>> with faltung.installed():
    ...     scipy.ndimage.laplace is faltung.ndimage.laplace
    True
    >>> scipy.ndimage.laplace is faltung.ndimage.laplace
    False
    """
    return _Block(accuracy)


class _Block(ContextDecorator):
    """The context manager that `installed` returns."""

    def __init__(self, accuracy):
        self._accuracy = accuracy

    def __enter__(self):
        global _blocks
        with _lock:
            modules = _put(self._accuracy)
            _blocks += 1
            return modules

    def __exit__(self, *_):
        global _blocks
        with _lock:
            _blocks -= 1
            _take_back()


def original(module, name):
    """The function `name` of the module named `module` as it was before `install()`."""
    with _lock:
        for known in (_originals_of_others, _originals):
            if (module, name) in known:
                return known[module, name]
        return getattr(importlib.import_module(module), name)


def _modules():
    """The modules that can take the functions."""
    result = []
    for package, name in (("scipy", "scipy.ndimage"), ("cupyx", "cupyx.scipy.ndimage")):
        if package in sys.modules or importlib.util.find_spec(package) is not None:
            try:
                result.append(importlib.import_module(name))
            except ImportError:
                # CuPy without the libraries of CUDA fails at the import.
                continue
    return result


class _WithAccuracy:
    """The function `name` of `faltung.ndimage` with another default of `accuracy`.

    Unlike a nested function it can be pickled, as tasks of `multiprocessing` require.
    """

    def __init__(self, name, accuracy):
        from faltung import ndimage

        self._function, self._accuracy = getattr(ndimage, name), accuracy
        functools.update_wrapper(self, self._function)
        signature = inspect.signature(self._function)
        parameters = signature.parameters.values()
        self.__signature__ = signature.replace(
            parameters=[p.replace(default=accuracy) if p.name == "accuracy" else p for p in parameters]
        )

    def __call__(self, *args, **kwargs):
        return self._function(*args, **{"accuracy": self._accuracy, **kwargs})

    def __reduce__(self):
        return _with_accuracy, (self.__name__, self._accuracy)

    def __repr__(self):
        return f"<function {self.__name__} of faltung.ndimage with accuracy={self._accuracy!r}>"


def _with_accuracy(name, accuracy):
    """The function `name` of `faltung.ndimage` with this default of `accuracy`."""
    from faltung import ndimage

    return getattr(ndimage, name) if accuracy is None else _WithAccuracy(name, accuracy)


def _is_ours(function, name):
    return isinstance(function, _WithAccuracy) or function is _with_accuracy(name, None)


def _put(accuracy):
    global _accuracy
    # The module keeps SciPy's functions for the types that it does not compute. So it is imported before they are
    # replaced.
    importlib.import_module("faltung.ndimage")

    check_accuracy(accuracy)
    if _originals and accuracy != _accuracy:
        found = f"accuracy={_accuracy!r}, not {accuracy!r}"
        raise RuntimeError(f"the functions are installed with {found}: first call uninstall, or end the block")
    if not _originals:
        places = [(module, name) for module in _modules() for name in NAMES if hasattr(module, name)]
        if not places:
            raise ImportError("faltung.install() needs SciPy or CuPy: pip install scipy")
        for module, name in places:
            place, function = (module.__name__, name), getattr(module, name)
            if _is_ours(function, name):
                # Another program had replaced our function, and has put it back since.
                function = _originals_of_others.pop(place, function)
            _originals[place] = function
            _installed[place] = _with_accuracy(name, accuracy)
            setattr(module, name, _installed[place])
        _accuracy = accuracy
    return list(dict.fromkeys(module for module, _ in _originals))


def _take_back():
    if not _by_call and not _blocks:
        for (module, name), function in _originals.items():
            if getattr(sys.modules[module], name, None) is _installed[module, name]:
                setattr(sys.modules[module], name, function)
            else:
                # The present function may call ours. Ours must then not pass the call back to it.
                _originals_of_others.setdefault((module, name), function)
        _originals.clear()
        _installed.clear()
