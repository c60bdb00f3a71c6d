"""`faltung.install()`: the functions are there, and leave without a trace."""

import inspect
import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

nd = pytest.importorskip("scipy.ndimage")

import faltung  # noqa: E402
from faltung import _install, ndimage  # noqa: E402

BEFORE = dict(vars(nd))


@pytest.fixture(autouse=True)
def clean():
    yield
    faltung.uninstall()
    changed = [name for name in BEFORE if getattr(nd, name) is not BEFORE[name]]
    assert not changed


def is_installed():
    ours = [getattr(nd, name) is getattr(ndimage, name) for name in _install.NAMES]
    assert all(ours) or not any(ours)
    return ours[0]


def test_the_names_are_those_of_the_module():
    assert len(_install.NAMES) == 13
    assert all(callable(getattr(ndimage, name)) for name in _install.NAMES)


def test_install_and_uninstall():
    assert not is_installed()
    assert faltung.install()[0] == "scipy.ndimage"
    assert is_installed()
    faltung.install()
    assert is_installed()
    others = [name for name in BEFORE if name not in _install.NAMES]
    assert all(getattr(nd, name) is BEFORE[name] for name in others)
    faltung.uninstall()
    assert not is_installed()
    faltung.uninstall()
    assert not is_installed()


def test_the_accuracy_of_what_is_installed():
    image = (1e6 + np.random.default_rng(0).standard_normal((60, 70))).astype(np.float32)
    expected = nd.gaussian_gradient_magnitude(image, 2)
    with faltung.installed(accuracy="exact"):
        assert nd.sobel.__name__ == "sobel" and nd.sobel.__doc__ == ndimage.sobel.__doc__
        np.testing.assert_array_equal(nd.gaussian_gradient_magnitude(image, 2), expected)
        assert (nd.gaussian_gradient_magnitude(image, 2, accuracy="bounded") != expected).any()
        with pytest.raises(RuntimeError, match="installed with accuracy='exact', not None"):
            faltung.install()
        assert faltung.install("exact") == faltung.install("exact")
    assert nd.sobel is not BEFORE["sobel"]
    faltung.uninstall()
    with faltung.installed():
        assert (nd.gaussian_gradient_magnitude(image, 2) != expected).any()
    with pytest.raises(ValueError, match="accuracy must be"):
        faltung.install("precise")
    assert not is_installed()


def test_installed_functions_can_be_pickled():
    image = (1e6 + np.random.default_rng(0).standard_normal((60, 70))).astype(np.float32)
    for accuracy in (None, "exact"):
        with faltung.installed(accuracy):
            for name in _install.NAMES:
                function = getattr(nd, name)
                copied = pickle.loads(pickle.dumps(function))
                assert inspect.signature(copied) == inspect.signature(function)
                assert inspect.signature(function).parameters["accuracy"].default == accuracy
                assert copied.__name__ == name and copied.__doc__ == getattr(ndimage, name).__doc__
            expected, found = nd.sobel(image), pickle.loads(pickle.dumps(nd.sobel))
        np.testing.assert_array_equal(found(image), expected)


def test_installed_functions_in_other_processes():
    image = np.arange(30, dtype=np.float32).reshape(5, 6)
    with faltung.installed("exact"), multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.map(nd.sobel, [image])[0], nd.sobel(image))


def test_a_call_of_scipy_reaches_ours():
    image = np.arange(30.0).reshape(5, 6)
    expected = nd.gaussian_filter(image, 1.0)
    before = ndimage.counts()["native"]
    with faltung.installed():
        assert np.allclose(nd.gaussian_filter(image, 1.0), expected)
    assert ndimage.counts()["native"] > before


def test_what_is_not_native_still_reaches_scipy():
    # `faltung.ndimage` does not compute this type, and SciPy refuses it in its own words.
    image = np.zeros((4, 4), dtype=np.float16)
    with pytest.raises(RuntimeError) as expected:
        nd.gaussian_filter(image, 1.0)
    before = ndimage.counts()["fallback"]
    with faltung.installed(), pytest.raises(RuntimeError) as found:
        nd.gaussian_filter(image, 1.0)
    assert str(found.value) == str(expected.value)
    assert ndimage.counts()["fallback"] == before + 1


def test_a_name_imported_before_stays():
    from scipy.ndimage import sobel

    with faltung.installed():
        assert sobel is BEFORE["sobel"] and nd.sobel is ndimage.sobel


def test_the_original_is_found_at_any_time():
    for _ in range(2):
        assert _install.original("scipy.ndimage", "sobel") is BEFORE["sobel"]
        faltung.install()


def test_blocks_nest_and_end_with_an_exception():
    with pytest.raises(KeyError), faltung.installed():
        with faltung.installed():
            assert is_installed()
        assert is_installed()
        raise KeyError
    assert not is_installed()


def test_a_block_leaves_an_installation_in_place():
    faltung.install()
    with faltung.installed():
        pass
    assert is_installed()


def test_uninstall_inside_a_block_waits_for_its_end():
    faltung.install()
    with faltung.installed():
        faltung.uninstall()
        assert is_installed()
    assert not is_installed()


def test_blocks_of_threads_overlap():
    entered, may_leave = threading.Event(), threading.Event()

    def other():
        with faltung.installed():
            entered.set()
            may_leave.wait(30)

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(other)
        with faltung.installed():
            assert entered.wait(30)
        assert is_installed()
        may_leave.set()
        task.result()
    assert not is_installed()


def test_many_threads():
    def work(_):
        for _ in range(50):
            with faltung.installed():
                assert is_installed()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not is_installed()


def test_a_patch_of_somebody_else_stays():
    def patch(input):
        return ours(input) + 1

    for _ in range(2):
        faltung.install()
        ours = nd.sobel
        nd.sobel = patch
        faltung.uninstall()
        assert nd.sobel is patch and nd.laplace is BEFORE["laplace"]
        # What ours passes to SciPy does not come back to the patch.
        image = np.zeros((4, 4), dtype=np.float16)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="float16|not supported"):
                nd.sobel(image)
            assert _install.original("scipy.ndimage", "sobel") is BEFORE["sobel"]
            faltung.install()
            assert nd.sobel is ndimage.sobel
            faltung.uninstall()
            assert nd.sobel is patch
        # The other one takes its patch back.
        nd.sobel = ours
        assert (nd.sobel(np.eye(4)) == BEFORE["sobel"](np.eye(4))).all()
        faltung.install()
        faltung.uninstall()
        assert nd.sobel is BEFORE["sobel"]


@pytest.mark.parametrize("accuracy", [None, "exact"])
def test_a_block_may_be_entered_again(accuracy):
    block = faltung.installed(accuracy)
    for _ in range(2):
        with block as modules:
            assert modules[0] == "scipy.ndimage" and nd.sobel is not BEFORE["sobel"]
            with block:
                pass
            assert nd.sobel is not BEFORE["sobel"]
        assert nd.sobel is BEFORE["sobel"]

    @block
    def decorated():
        return nd.sobel

    assert decorated() is not BEFORE["sobel"] and nd.sobel is BEFORE["sobel"]
    with pytest.raises(ValueError, match="accuracy must be"), faltung.installed("precise"):
        pass


def test_cupyx(monkeypatch):
    """A stand-in for `cupyx`: the module's attributes are replaced and come back."""
    import sys
    import types

    pieces = {name: types.ModuleType(name) for name in ("cupyx", "cupyx.scipy", "cupyx.scipy.ndimage")}
    pieces["cupyx.scipy.ndimage"].sobel = stand_in = object()
    for name, module in pieces.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert faltung.install() == ["scipy.ndimage", "cupyx.scipy.ndimage"]
    assert pieces["cupyx.scipy.ndimage"].sobel is ndimage.sobel
    assert _install.original("cupyx.scipy.ndimage", "sobel") is stand_in
    faltung.uninstall()
    assert vars(pieces["cupyx.scipy.ndimage"])["sobel"] is stand_in
    assert not hasattr(pieces["cupyx.scipy.ndimage"], "laplace")
