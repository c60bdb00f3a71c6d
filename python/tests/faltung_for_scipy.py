"""A pytest plugin: SciPy's own tests of `scipy.ndimage` run against `faltung.ndimage`, unchanged.

    cd python/tests && python -m pytest -p faltung_for_scipy --pyargs scipy.ndimage.tests.test_filters -q

Before the tests are collected, each linear filter of `scipy.ndimage` is replaced by ours of the same name. Our
functions keep SciPy's, for calls that they do not compute themselves: `faltung.ndimage` takes them when it is imported,
or from the module `scipy_ndimage_original`. The last line of the report says how many calls were native.
`python -m scipy_suite` runs all of it, and fails if too few are.
"""

import os
import sys
import types

import scipy.ndimage as nd
from scipy._lib import _array_api

NAMES = (
    "correlate convolve correlate1d convolve1d gaussian_filter gaussian_filter1d uniform_filter uniform_filter1d "
    "sobel prewitt laplace gaussian_laplace gaussian_gradient_magnitude"
).split()

original = types.ModuleType("scipy_ndimage_original")
original.__dict__.update({name: getattr(nd, name) for name in dir(nd) if not name.startswith("__")})
sys.modules.setdefault("scipy_ndimage_original", original)

from faltung import ndimage as ours  # noqa: E402

missing = [name for name in NAMES if not hasattr(ours, name)]


def put(name):
    function, theirs = getattr(ours, name), getattr(nd, name)
    # SciPy's tests look up in this table which kinds of array a function takes.
    capabilities = _array_api.xp_capabilities_table
    if theirs in capabilities:
        try:
            capabilities[function] = capabilities[theirs]
        except TypeError:
            # The table holds weak references, which a built-in function does not have.
            native = function

            def function(*args, **options):
                return native(*args, **options)

            capabilities[function] = capabilities[theirs]
    setattr(nd, name, function)


for each in NAMES:
    if each not in missing:
        put(each)


def pytest_terminal_summary(terminalreporter):
    counts = ours.counts()
    native, fallback = counts["native"], counts["fallback"]
    share = 100 * native / (native + fallback) if native + fallback else 0.0
    terminalreporter.write_line(
        f"faltung: {native} native calls, {fallback} fallback calls, {share:.1f} % native; "
        f"not offered: {' '.join(missing) or 'none'}"
    )


def pytest_sessionfinish(session, exitstatus):
    """Fails a run whose share of native calls is below the percentage in FALTUNG_NATIVE."""
    counts = ours.counts()
    least = float(os.environ.get("FALTUNG_NATIVE", "0"))
    calls = counts["native"] + counts["fallback"]
    if exitstatus == 0 and (missing or 100 * counts["native"] < least * calls or not calls):
        session.exitstatus = 1
