"""`faltung.dask` against `faltung.ndimage` on the whole array: equal in every bit, and of the same type.

`exact` has the functions of `faltung.ndimage` with `accuracy="exact"`, which is the default of `faltung.dask`.
"""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
from faltung import _halo, ndimage  # noqa: E402
from faltung import dask as fd  # noqa: E402

MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap")
TYPES = (bool, np.uint8, np.int16, np.uint32, np.int64, np.float32, np.float64, np.complex64, np.complex128)
CHUNKS = ((7, 6), ((1, 6, 2, 4), (17,)), ((13,), (3, 14)), ((4, 9), (8, 1, 8)))
SHAPE = (13, 17)


class Exact:
    def __getattr__(self, name):
        return lambda *args, **options: getattr(ndimage, name)(*args, **{"accuracy": "exact", **options})


exact = Exact()


def values(shape, dtype, seed=1, special=False):
    """Random values over much of the range of `dtype`; with NaN and infinity if `special`."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    result = (random.standard_normal(shape) * 10.0 ** random.integers(-4, 9, shape)).astype(dtype)
    if dtype.kind == "c":
        result = (result + 1j * random.standard_normal(shape)).astype(dtype)
    if special and result.size > 3:
        flat = result.reshape(-1)
        flat[random.integers(flat.size)] = np.nan
        flat[random.integers(flat.size)] = np.inf
    return result


def assert_bits(result, expected):
    """All bits are equal. A NaN equals any NaN."""
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    for a, b in [(result.real, expected.real), (result.imag, expected.imag)]:
        equal = (a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == "f" else a == b
        if a.dtype.kind == "f":
            equal |= np.isnan(a) & np.isnan(b)
        assert equal.all(), f"{np.count_nonzero(~equal)} of {equal.size} differ, first at {np.argwhere(~equal)[0]}"


def check(name, image, chunks, *args, **options):
    lazy = da.from_array(image, chunks=chunks)
    result = getattr(fd, name)(lazy, *args, **options)
    expected = getattr(exact, name)(image, *args, **options)
    assert result.chunks == lazy.chunks
    assert result.dtype == expected.dtype
    assert_bits(result.compute(scheduler="sync"), expected)


def cases(seed=3):
    """Each filter with some arguments: masks that are even, shifted and larger than chunks."""
    random = np.random.default_rng(seed)
    for side in ((3, 5), (4, 2), (1, 1), (2, 13)):
        mask = random.standard_normal(side)
        yield "convolve", (mask,), {}
        yield "correlate", (mask,), {}
    yield "convolve", (mask,), {"origin": (-1, 6)}
    yield "correlate", (mask,), {"origin": (0, -6)}
    yield "correlate", (mask[0],), {"axes": 0}
    yield "convolve", (np.array([[1, 2j], [3, 4]]),), {}
    yield "gaussian_filter", (1.3,), {}
    yield "gaussian_filter", ((0.0, 2.5),), {"truncate": 3.0, "order": (0, 1)}
    yield "gaussian_filter", (2.0,), {"radius": (2, 9)}
    yield "gaussian_filter", (2.0,), {"axes": (1,)}
    yield "gaussian", (1.0,), {}
    yield "gaussian_laplace", (1.2,), {}
    yield "gaussian_laplace", ((1.0, 0.7),), {"truncate": 2.0}
    yield "gaussian_laplace", ((0.5, 3.0),), {"axes": (1, 0)}
    yield "gaussian_gradient_magnitude", (1.5,), {}
    yield "laplace", (), {}
    yield "laplace", (), {"axes": 1}
    yield "prewitt", (), {}
    yield "prewitt", (0,), {}
    yield "sobel", (), {}
    yield "sobel", (-2,), {}
    yield "uniform_filter", (), {}
    yield "uniform_filter", ((4, 13),), {"origin": (-2, 5)}
    yield "uniform_filter", (9,), {"axes": 1}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_equals_one_array(dtype, mode):
    image = values(SHAPE, dtype)
    chunkings = itertools.cycle(CHUNKS)
    # A third of the cases for each pair: over the modes every type has all of them.
    turn = (MODES.index(mode) + TYPES.index(dtype)) % 3
    for name, args, options in list(cases())[turn::3]:
        if np.iscomplexobj(image) and name == "gaussian_gradient_magnitude":
            continue
        cval = 2.5 if mode == "constant" else 7
        target = "gaussian_filter" if name == "gaussian" else name
        lazy = da.from_array(image, chunks=next(chunkings))
        result = getattr(fd, name)(lazy, *args, mode=mode, cval=cval, **options)
        expected = getattr(exact, target)(image, *args, mode=mode, cval=cval, **options)
        assert result.chunks == lazy.chunks
        assert result.dtype == expected.dtype
        assert_bits(result.compute(scheduler="sync"), expected)


@pytest.mark.parametrize("mode", MODES)
def test_reach_beyond_the_image(mode):
    image = values((5, 6), np.float64)
    check("gaussian_filter", image, 2, 3.0, mode=mode)
    check("correlate", image, (2, 3), values((17, 14), np.float64), mode=mode)
    check("convolve", image, (1, 4), values((4, 19), np.float64), mode=mode, origin=(1, -9))
    check("uniform_filter", image.astype(np.int32), 2, 11, mode=mode, cval=3)


@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.complex128))
def test_nan_and_infinity(dtype):
    image = values((24, 25), dtype, special=True)
    for name, args, options in [("uniform_filter", (5,), {}), ("correlate", (np.ones((3, 4)),), {})]:
        check(name, image, (7, 6), *args, **options)
    check("gaussian_filter", image, (7, 6), 1.0, mode="constant", cval=np.nan)


def test_per_axis_modes():
    image = values((13, 9, 11), np.int16)
    for modes in itertools.product(("constant", "wrap", "mirror"), repeat=3):
        check("gaussian_filter", image, (4, 9, 3), (1.0, 0.6, 1.4), mode=modes, cval=4)
        check("uniform_filter", image, (5, 4, 3), (3, 4, 5), mode=modes, cval=4)
    check("sobel", image, (4, 2, 3), mode=("wrap", "nearest", "constant"))
    check("laplace", image, (4, 2, 3), mode=("wrap", "nearest"), axes=(2, 0))


@pytest.mark.parametrize("accuracy", (None, "bounded", "normwise"))
def test_other_accuracies_keep_their_bound(accuracy):
    """Integers are equal; the others are within 64 units of sum|w*x|, which is the result of |x| here."""
    for dtype in (np.uint8, np.int32, np.float32, np.float64):
        image = np.abs(values((70, 80), dtype).astype(np.float64)).astype(dtype)
        for name, args in [("gaussian_filter", (2.0,)), ("uniform_filter", (7,)), ("correlate", (np.ones((9, 8)),))]:
            result = getattr(fd, name)(da.from_array(image, chunks=(30, 27)), *args, accuracy=accuracy)
            result, expected = result.compute(scheduler="sync"), getattr(exact, name)(image, *args)
            assert result.dtype == expected.dtype
            if result.dtype.kind == "f":
                # SciPy's running sums have an error relative to the largest value of the line.
                scale = image.max() if name == "uniform_filter" else expected
                assert (np.abs(result - expected) <= 64 * 2.0 ** (-24 if dtype == np.float32 else -53) * scale).all()
            else:
                assert np.array_equal(result, expected)


def test_mirror_reaches_a_value_deeper_than_the_filter():
    image = values((12,), np.float64)
    for origin in (1, -2):
        check("correlate", image, 3, [1.0, 2.0, 4.0, 8.0], mode="mirror", origin=origin)


def test_axes_in_any_order():
    image = values((9, 10, 11), np.float64)
    for axes in itertools.chain(itertools.permutations(range(3)), itertools.permutations(range(-3, 0), 2)):
        count = len(axes)
        options = {"axes": axes, "mode": "mirror"}
        for name in ("correlate", "convolve"):
            shape, origin = (1, 4, 7)[:count], (0, 0, 0)
            check(name, image, (2, 3, 4), values(shape, np.float64), origin=origin[:count], **options)
        check("gaussian_filter", image, (2, 3, 4), (0.3, 0.8, 1.5)[:count], **options)
        options["origin"] = (-1, 1, 2)[:count]
        check("uniform_filter", image.astype(np.int32), (2, 3, 4), (2, 3, 6)[:count], **options)
        mask = values((4, 5, 7)[:count], np.float64)
        for origin in ((-2, 0, 1), (1, 1, -1)):
            check("correlate", image, (2, 3, 4), mask, axes=axes, origin=origin[:count])
    check("correlate", image, (2, 3, 4), values((3, 7), np.float64), axes=(2, 0), origin=(-1, 1))


@pytest.mark.parametrize("name", ["gaussian_laplace", "gaussian_gradient_magnitude"])
@pytest.mark.parametrize("mode", ["mirror", "wrap"])
def test_derivatives_along_some_axes(name, mode):
    image = values((40, 50), np.float64)
    for axes in ((0,), 1, (-1, 0), ()):
        check(name, image, (9, 12), 1.2, axes=axes, mode=mode)
    check(name, image, (9, 12), 1.2, axes=1, radius=(2, 7), mode=mode)


@pytest.mark.parametrize("name", ["gaussian_laplace", "gaussian_gradient_magnitude"])
def test_derivatives_with_several_modes(name, tmp_path):
    zarr = pytest.importorskip("zarr")
    image = values((40, 50), np.float64)
    stored = zarr.create_array(store=tmp_path / "image.zarr", shape=image.shape, chunks=(9, 12), dtype=image.dtype)
    stored[:] = image
    for modes in itertools.permutations(("nearest", "wrap", "grid-wrap", "constant"), 2):
        check(name, image, (9, 12), 1.2, mode=modes)
        check(name, image, (9, 12), (1.2, 0), mode=modes)
        check(name, image, (9, 12), (1.2, 0.7), mode=modes, axes=(1, 0))
        result = getattr(fd, name)(da.from_zarr(stored), 1.2, mode=modes)
        assert_bits(result.compute(scheduler="sync"), getattr(exact, name)(image, 1.2, mode=modes))


def test_numbers_of_other_types():
    """What `faltung.ndimage` takes, `faltung.dask` takes."""
    for dtype in (np.float64, np.uint8):
        image = values((40, 50), dtype)
        check("gaussian_filter", image, (9, 12), np.array(1.0))
        check("gaussian_filter", image, (9, 12), 1.0, radius=[None, 3])
        check("gaussian_filter", image, (9, 12), (1.0, 0.0), radius=[5, None])
        check("gaussian_laplace", image, (9, 12), np.array(1.0), radius=[None, 3])
        check("gaussian_gradient_magnitude", image, (9, 12), np.array(1.0), radius=[None, 3])
        for size in (np.array(3), np.array(3.0), 3.0, (3.7, 2), [True, 2.5], 0, -1):
            check("uniform_filter", image, (9, 12), size)
        check("uniform_filter", image, (9, 12), 3, origin=np.array(1))
        check("correlate", image, (9, 12), np.ones((3, 4)), origin=np.array(1))
        check("convolve", image, (9, 12), np.ones((3, 4)), origin=np.array(-1))


@st.composite
def problems(draw):
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    chunks = tuple(tuple(draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))) for n in shape)
    # A partition of each axis: sizes are taken until the axis is full.
    parts = []
    for n, sizes in zip(shape, chunks):
        part = []
        for size in sizes:
            if sum(part) < n:
                part.append(min(size, n - sum(part)))
        parts.append(tuple(part))
    count = len(shape)
    modes = draw(st.lists(st.sampled_from(MODES), min_size=count, max_size=count))
    dtype = draw(st.sampled_from(TYPES))
    cval = draw(st.sampled_from([0, 3, -2.5, 1e9]))
    name = draw(st.sampled_from(["correlate", "convolve", "gaussian_filter", "uniform_filter", "sobel"]))
    sizes = draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    origins = [draw(st.integers(-(size // 2), (size - 1) // 2)) for size in sizes]
    seed = draw(st.integers(0, 2**31))
    if name in ("correlate", "convolve"):
        modes = modes[0]
        options = {"weights": values(sizes, np.float64, seed), "origin": origins}
        if name == "convolve":
            # SciPy turns the mask around, and moves a mask of an even side by one.
            options["origin"] = [-o - (size + 1) % 2 for o, size in zip(origins, sizes)]
    elif name == "gaussian_filter":
        options = {"sigma": [s / 4 for s in sizes]}
    elif name == "uniform_filter":
        options = {"size": sizes, "origin": origins}
    else:
        options = {"axis": draw(st.integers(-count, count - 1))}
    return name, values(shape, dtype, seed), tuple(parts), {"mode": modes, "cval": cval, **options}


@settings(max_examples=min(150, settings().max_examples))
@given(problems())
def test_random_problems(problem):
    name, image, chunks, options = problem
    check(name, image, chunks, **options)


def border_index(i, length, mode):
    """The index that position `i` reads, by following the border step by step; None for a constant."""
    if mode == "constant":
        return i if 0 <= i < length else None
    if mode == "nearest":
        return min(max(i, 0), length - 1)
    if mode == "wrap":
        return i % length
    period = list(range(length)) + list(range(length - 1, -1, -1))
    if mode == "mirror":
        period = list(range(length)) + list(range(length - 2, 0, -1))
    return period[i % len(period)]


@pytest.mark.parametrize("mode", ("reflect", "mirror", "nearest", "constant", "wrap"))
def test_window_of_every_small_part(mode):
    for length, below, above in itertools.product(range(1, 7), range(8), range(8)):
        reach = _halo.Reach(below, above, mode == "wrap")
        for start, stop in itertools.combinations(range(length + 1), 2):
            ranges, first = _halo.window(start, stop, length, reach)
            indices = [i for a, b in ranges for i in range(a, b)]
            assert indices[first : first + stop - start] == list(range(start, stop))
            for i, step in itertools.product(range(start, stop), range(-below, above + 1)):
                inside = border_index(first + i - start + step, len(indices), mode)
                got = None if inside is None else indices[inside]
                assert got == border_index(i + step, length, mode), (length, reach, start, stop, i, step)


def test_windows_are_no_larger_than_the_reach():
    assert _halo.window(10, 20, 100, _halo.Reach(3, 2, False)) == (((7, 22),), 3)
    assert _halo.window(0, 20, 100, _halo.Reach(3, 2, False)) == (((0, 22),), 0)
    assert _halo.window(90, 100, 100, _halo.Reach(3, 2, True)) == (((87, 100), (0, 2)), 3)


def test_arguments_are_those_of_dask_image():
    import inspect

    expected = {
        "convolve": "image weights mode cval origin",
        "correlate": "image weights mode cval origin",
        "gaussian": "image sigma order mode cval truncate",
        "gaussian_filter": "image sigma order mode cval truncate",
        "gaussian_gradient_magnitude": "image sigma mode cval truncate",
        "gaussian_laplace": "image sigma mode cval truncate",
        "laplace": "image mode cval",
        "prewitt": "image axis mode cval",
        "sobel": "image axis mode cval",
        "uniform_filter": "image size mode cval origin",
    }
    assert sorted(expected) == sorted(fd.__all__)
    for name, arguments in expected.items():
        parameters = inspect.signature(getattr(fd, name)).parameters.values()
        assert " ".join(p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD) == arguments


def test_functions_are_lazy():
    def never(block):
        raise AssertionError("computed")

    image = da.map_blocks(never, da.zeros((8, 8), chunks=4), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    for name, args, options in cases():
        getattr(fd, name)(image, *args, **options)


def test_empty_array():
    image = da.zeros((0, 5), chunks=(0, 2), dtype=np.float32)
    for name in ("laplace", "sobel", "uniform_filter"):
        assert getattr(fd, name)(image).compute(scheduler="sync").shape == (0, 5)


# Zarr


@pytest.fixture
def store(tmp_path):
    zarr = pytest.importorskip("zarr")
    image = values((50, 61), np.float32)
    stored = zarr.create_array(store=tmp_path / "image.zarr", shape=image.shape, chunks=(12, 10), dtype=image.dtype)
    stored[:] = image
    return stored, image


def exchanges(array):
    """How often a task of the graph takes the result of another task."""
    graph = dict(array.dask)
    return sum(isinstance(key, tuple) for task in graph.values() for key in getattr(task, "dependencies", ()))


@pytest.mark.parametrize("mode", MODES)
def test_zarr_equals_one_array(store, mode):
    stored, image = store
    for name, args, options in [case for case in cases() if case[0] != "gaussian"][MODES.index(mode) % 3 :: 3]:
        expected = getattr(exact, name)(image, *args, mode=mode, **options)
        for source in (stored, da.from_zarr(stored), da.from_zarr(stored, chunks=(17, 61))):
            result = getattr(fd, name)(source, *args, mode=mode, **options)
            assert_bits(result.compute(scheduler="sync"), expected)


def test_zarr_tasks_exchange_nothing(store):
    stored, image = store
    chunked = {"array.chunk-size": f"{12 * 10 * 4}B"}
    for source in (stored, da.from_zarr(stored)):
        with dask.config.set(chunked):
            result = fd.gaussian_filter(source, 2.0, mode="wrap")
        assert result.numblocks == (5, 7)
        assert len(dict(result.dask)) == 5 * 7
        assert exchanges(result) == 0
    assert exchanges(fd.gaussian_filter(da.from_array(image, chunks=(12, 10)), 2.0)) > 5 * 7


def test_zarr_tasks_read_only_their_window(store, monkeypatch):
    stored, image = store
    reads, mask, get = [], values((3, 5), np.float64), type(stored).__getitem__

    def counting(self, key):
        reads.append(key)
        return get(self, key)

    monkeypatch.setattr(type(stored), "__getitem__", counting)
    chunk = fd.correlate(da.from_zarr(stored), mask).blocks[1, 2]
    reads.clear()
    assert_bits(chunk.compute(scheduler="sync"), exact.correlate(image, mask)[12:24, 20:30])
    assert reads == [(slice(11, 25), slice(18, 32))]


def test_changed_zarr_arrays_are_not_taken_for_the_source(store):
    stored, image = store
    lazy = da.from_zarr(stored)
    for derived, expected in [(lazy[3:, ::2], image[3:, ::2]), (lazy + 1, image + 1), (lazy.T, image.T)]:
        result = fd.laplace(derived).compute(scheduler="sync")
        assert_bits(result, exact.laplace(expected))


# Little memory


class Limited:
    """`faltung.ndimage`'s function `name`, which raises MemoryError for more than `limit` values."""

    def __init__(self, monkeypatch, name, limit):
        self.function, self.limit, self.sizes = getattr(ndimage, name), limit, []
        monkeypatch.setattr(ndimage, name, self)

    def __call__(self, image, *args, **options):
        self.sizes.append(image.size)
        if image.size > self.limit:
            raise MemoryError("a planted limit")
        return self.function(image, *args, **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name, args", [("gaussian_filter", (1.0,)), ("sobel", ()), ("uniform_filter", (5,))])
def test_strips(monkeypatch, name, args, mode):
    image = values((64, 70), np.float32)
    expected = getattr(exact, name)(image, *args, mode=mode)
    limited = Limited(monkeypatch, "uniform_filter1d" if name == "uniform_filter" else name, 1000)
    result = getattr(fd, name)(da.from_array(image, chunks=(64, 70)), *args, mode=mode)
    assert_bits(result.compute(scheduler="sync"), expected)
    assert sum(size <= 1000 for size in limited.sizes) >= 8


def test_memory_error_where_strips_do_not_help(monkeypatch):
    Limited(monkeypatch, "gaussian_filter", 20)
    image = da.from_array(values((10, 10), np.float32), chunks=10)
    with pytest.raises(MemoryError, match="planted"):
        fd.gaussian_filter(image, 5.0).compute(scheduler="sync")


# A cluster of processes


def test_cluster_of_processes(store):
    distributed = pytest.importorskip("distributed")
    stored, image = store
    cluster = distributed.LocalCluster(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        processes = set(client.run(os.getpid).values())
        assert len(processes) == 2 and os.getpid() not in processes
        for source in (stored, da.from_zarr(stored), da.from_array(image, chunks=(9, 20))):
            for name, args in [
                ("gaussian_filter", (2.0,)),
                ("convolve", (values((5, 4), np.float64),)),
                ("uniform_filter", (7,)),
            ]:
                result = getattr(fd, name)(source, *args, mode="mirror").compute()
                assert_bits(result, getattr(exact, name)(image, *args, mode="mirror"))


# Device arrays


def test_cupy_chunks():
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    image = values((80, 90), np.float32)
    lazy = da.from_array(cupy.asarray(image), chunks=(30, 20), asarray=False)
    result = fd.gaussian_filter(lazy, 2.0)
    assert isinstance(result._meta, cupy.ndarray)
    computed = result.compute(scheduler="sync")
    assert isinstance(computed, cupy.ndarray)
    expected = exact.gaussian_filter(cupy.asarray(image), 2.0)
    assert_bits(computed.get(), expected.get())


# Bad input


def test_other_images_are_refused():
    for image in (np.zeros((3, 3)), [[1.0]], None):
        with pytest.raises(TypeError, match="image: a dask.array.Array"):
            fd.laplace(image)
    with pytest.raises(TypeError, match="image"):
        fd.uniform_filter(np.zeros((3, 3)))


def test_chunks_of_unknown_size_are_refused():
    image = da.from_array(np.arange(9.0), chunks=3)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        fd.laplace(image[image > 2])


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f.correlate(x, np.ones(3)),
        lambda f, x: f.correlate(x, np.ones((3, 3)), mode="nonsense"),
        lambda f, x: f.correlate(x, np.ones((3, 3)), origin=2),
        lambda f, x: f.convolve(x, np.ones((0, 3))),
        lambda f, x: f.gaussian_filter(x, (1.0, 2.0, 3.0)),
        lambda f, x: f.gaussian_filter(x, 1.0, order=-1),
        lambda f, x: f.gaussian_filter(x, 1.0, radius=-2),
        lambda f, x: f.gaussian_filter(x, 1.0, axes=3),
        lambda f, x: f.uniform_filter(x, 3, origin=5),
        lambda f, x: f.sobel(x, axis=2),
        lambda f, x: f.laplace(x, mode=("reflect",)),
    ],
)
def test_bad_arguments_are_refused_at_once(call):
    whole = np.zeros((4, 4))
    with pytest.raises(Exception) as expected:
        call(ndimage, whole)
    for image in (da.from_array(whole, chunks=2), da.from_array(whole.astype(np.uint8), chunks=2)):
        with pytest.raises(type(expected.value)):
            call(fd, image)
