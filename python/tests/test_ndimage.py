"""`faltung.ndimage` against `scipy.ndimage`: random arguments, layouts of memory, outputs, bad input.

What must agree, by the type of the result:

* integers: equal,
* floating point: equal in every bit where both take sums in f64,
* f32 from f32: within 4 * 2^-24 * sum|w*x| of the sum in f64, for each pass of the filter.
"""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

nd = pytest.importorskip("scipy.ndimage")

from faltung import ndimage  # noqa: E402

MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap")
REAL = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split()
COMPLEX = "complex64 complex128".split()
LAYOUTS = "plain fortran negative gaps swapped readonly broadcast transposed unaligned".split()
UNIT = 2.0**-24


def values(shape, dtype, random, special=False):
    """Values whose sums stay in the range of 32 bits, or of 64 bits: beyond, C does not define SciPy's conversion."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        bits = {1: 8, 2: 16, 4: 20, 8: 48}[dtype.itemsize]
        limits = np.iinfo(dtype)
        return random.integers(max(limits.min, -(2**bits)), min(limits.max, 2**bits), shape, dtype, endpoint=True)
    result = random.standard_normal(shape) * 10.0 ** random.integers(-3, 5, shape)
    if dtype.kind == "c":
        result = result + 1j * random.standard_normal(shape)
    result = np.asarray(result, dtype)
    if special and result.size:
        result.reshape(-1)[random.integers(result.size)] = random.choice([np.nan, np.inf, -np.inf])
    return result


def laid_out(image, layout):
    """`image`, with its values at other places in memory."""
    if layout == "fortran":
        return np.asfortranarray(image)
    if layout == "negative":
        turn = (slice(None, None, -1),) * image.ndim
        return np.ascontiguousarray(image[turn])[turn]
    if layout == "gaps":
        room = np.zeros([2 * n + 3 for n in image.shape], image.dtype)
        view = room[tuple(slice(1, 1 + 2 * n, 2) for n in image.shape)]
        view[...] = image
        return view
    if layout == "swapped":
        return image.astype(image.dtype.newbyteorder("S"))
    if layout == "readonly":
        image = image.copy()
        image.flags.writeable = False
        return image
    if layout == "broadcast" and image.shape[0]:
        return np.broadcast_to(image[:1], image.shape)
    if layout == "transposed":
        return np.ascontiguousarray(image.T).T
    if layout == "unaligned":
        memory = np.zeros(image.nbytes + 1, np.uint8)
        view = memory[1:].view(image.dtype).reshape(image.shape)
        view[...] = image
        return view
    return image


@st.composite
def images(draw, dtypes=(*REAL, *COMPLEX), least=0, special=True):
    shape = draw(st.lists(st.integers(least, 8), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from(dtypes))
    with_special = special and draw(st.integers(0, 5)) == 0
    return laid_out(values(shape, dtype, random, with_special), draw(st.sampled_from(LAYOUTS)))


@st.composite
def borders(draw, image, count=1):
    """`mode` and `cval`. `count` above 1: one mode for each axis, or one for all."""
    if count > 1 and draw(st.booleans()):
        mode = draw(st.lists(st.sampled_from(MODES), min_size=count, max_size=count))
    else:
        mode = draw(st.sampled_from(MODES))
    cvals = [0, 0.0, 1, -3.5, 7.25]
    if image.dtype.kind in "fc":
        cvals += [np.nan, np.inf, 1e20]
    if image.dtype.kind == "c":
        cvals += [2 - 1j]
    return {"mode": mode, "cval": draw(st.sampled_from(cvals))}


@st.composite
def axes_for(draw, ndim):
    """None, or some axes in ascending order, also counted from the end; and how many that are.

    In another order SciPy pairs them with origins, modes and sigmas in a way that depends on how many they are.
    """
    if draw(st.booleans()):
        return None, ndim
    chosen = draw(st.lists(st.integers(0, ndim - 1), min_size=1, max_size=ndim, unique=True))
    return tuple(axis - ndim if draw(st.booleans()) else axis for axis in sorted(chosen)), len(chosen)


@st.composite
def masks(draw, count, complex_too=True):
    shape = draw(st.lists(st.integers(1, 6 if count < 3 else 3), min_size=count, max_size=count))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["float", "whole", "symmetric", "sparse"] + ["complex"] * complex_too))
    mask = random.uniform(-3, 3, shape)
    if kind == "whole":
        mask = random.integers(-3, 4, shape)
    elif kind == "symmetric":
        mask = (mask + np.flip(mask)) / 2
    elif kind == "sparse":
        mask[random.random(shape) < 0.6] = 0.0
    elif kind == "complex":
        mask = mask + 1j * random.uniform(-3, 3, shape)
    return mask


def origins(shape, convolves=False):
    """Every origin that SciPy takes for a mask of `shape`."""
    each = []
    for side in shape:
        low, high = -(side // 2), (side - 1) // 2
        if convolves:
            low, high = -high - (side + 1) % 2, -low - (side + 1) % 2
        each.append(st.integers(low, high))
    return st.tuples(*each)


def bits_differ(ours, theirs):
    """Where two arrays differ. A NaN equals any NaN, and 0 equals -0."""
    differ = np.zeros(ours.shape, bool)
    for a, b in [(ours.real, theirs.real), (ours.imag, theirs.imag)]:
        differ |= ~((a == b) | (np.isnan(a) & np.isnan(b)))
    return differ


def compare(name, image, args=(), scale=None, passes=1, output=None, scipy_spreads_nan=False, **options):
    """Our result and SciPy's of the same call. `scale` gives sum|w*x| for sums in f32.

    With `scipy_spreads_nan`, sums in f32 may be numbers where SciPy's are NaN.
    """
    expected_error = theirs = None
    # SciPy gets a copy: it computes wrong borders where a stride is 0.
    original = np.array(image, order="C")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = getattr(nd, name)(original.copy(), *args, output=output, **options)
        except Exception as error:
            expected_error = error
        if expected_error is not None:
            with pytest.raises(type(expected_error)):
                getattr(ndimage, name)(image, *args, output=output, **options)
            return
        ours = getattr(ndimage, name)(image, *args, output=output, **options)
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert np.array_equal(image, original, equal_nan=image.dtype.kind in "fc"), "the input has changed"
        single = image.dtype.newbyteorder("=") in (np.float32, np.complex64) and ours.dtype.char in "fF"
        if not single:
            differ = bits_differ(ours, theirs)
            assert not differ.any(), report(ours, theirs, differ)
            return
        wide = image.astype(np.complex128 if image.dtype.kind == "c" else np.float64)
        exact = getattr(nd, name)(wide, *args, **options)
        bound = 4 * passes * UNIT * scale(np.abs(wide.real) + np.abs(wide.imag))
        error = np.abs(ours.real - exact.real) + np.abs(ours.imag - exact.imag)
        # Subnormal numbers have an absolute error.
        near = error <= 2 * bound + 1e-44
        # Squares overflow before their root does.
        finite = np.isfinite(exact) & np.isfinite(bound) & (np.abs(exact) < 1e38) & np.isfinite(theirs)
        nan, scipy_nan = np.isnan(ours), np.isnan(theirs)
        differ = np.where(finite, ~near, nan & ~scipy_nan if scipy_spreads_nan else nan != scipy_nan)
        assert not differ.any(), report(ours, theirs, differ)


def report(ours, theirs, differ):
    at = tuple(np.argwhere(differ)[0])
    return f"{np.count_nonzero(differ)} of {differ.size} differ; at {at} ours {ours[at]!r}, SciPy's {theirs[at]!r}"


def outputs(image):
    """Types of `output` that SciPy takes for the filters of this image."""
    if image.dtype.kind == "c":
        return st.sampled_from([None, np.complex64, "complex128"])
    types = [None, np.float64, "float32", np.dtype("int32"), "u1", np.int16, np.uint64, "f8"]
    finite = image.dtype.kind not in "fc" or np.isfinite(image).all()
    return st.sampled_from(types if finite else [None, np.float64, "float32"])


def absolute(name, mask, options):
    """The function sum|w*x|, by SciPy."""
    options = {**options, "cval": np.abs(np.real(options["cval"])) + np.abs(np.imag(options["cval"]))}
    mask = np.abs(np.real(mask)) + np.abs(np.imag(mask))
    return lambda size: getattr(nd, name)(size, mask, **options)


@given(st.data())
def test_correlate_and_convolve(data):
    image = data.draw(images())
    axes, count = data.draw(axes_for(image.ndim))
    mask = data.draw(masks(count))
    name = data.draw(st.sampled_from(["correlate", "convolve"]))
    options = data.draw(borders(image))
    options |= {"axes": axes, "origin": data.draw(origins(mask.shape, name == "convolve"))}
    output = None if mask.dtype.kind == "c" and image.dtype.kind != "c" else data.draw(outputs(image))
    if not np.isfinite(options["cval"]) and output is not None and np.dtype(output).kind in "iu":
        output = None
    compare(name, image, (mask,), absolute(name, mask, options), output=output, **options)


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_origins_of_axes_in_any_order(name, dtype):
    image = values((7, 8, 9), dtype, np.random.default_rng(4))
    for count in (2, 3):
        for axes in itertools.permutations(range(-count, 0)):
            mask = np.random.default_rng(5).random((3, 5, 4)[:count])
            for origin in itertools.product((-1, 0, 1), repeat=count):
                compare(name, image, (mask,), axes=axes, origin=origin)
                if count == 2:
                    compare(name, image[0], (mask,), axes=axes, origin=origin)


@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_sigmas_of_axes_in_any_order(dtype):
    image = values((5, 6, 7), dtype, np.random.default_rng(4))
    for count in (1, 2, 3):
        for axes in itertools.permutations(range(-count, 0)):
            sigma, mode = (0.7, 1.1, 2.3)[:count], ["wrap", "nearest", "mirror"][:count]
            for one in (image, image[0]) if count < 3 else (image,):
                compare("gaussian_laplace", one, (sigma,), axes=axes, mode=mode)
                compare("gaussian_filter", one, (sigma,), axes=axes, mode=mode)
                compare("gaussian_gradient_magnitude", one, (sigma,), axes=axes, mode=mode)


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_arrays_without_axes(name, dtype):
    image = np.ones((), dtype)
    for weight in (3.0, 1e-300, np.float32(-2), 1 - 2j):
        for output in (None, np.zeros((), "complex64" if np.iscomplexobj([image, weight]) else "float32")):
            expected = getattr(nd, name)(image, weight, output=None if output is None else output.copy())
            found = getattr(ndimage, name)(image, weight, output=output)
            assert found.shape == () and found.dtype == expected.dtype and found == expected
            assert output is None or found is output


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex128"])
def test_weights_that_differ_by_nan_or_by_nothing(dtype):
    image = values((9, 12), dtype, np.random.default_rng(4))
    nan, inf = np.nan, np.inf
    for weights in (
        [1, 2, nan], [nan, 2, 1], [nan, 1, nan], [1, nan, 1], [1, nan, 2], [3, 1, 2, nan, 4], [3, nan, 1, 2, -3],
        [inf, 1, inf], [inf, 1, -inf], [-inf, 0, -inf], [2, inf, 1, inf, 2], [1e-17, 1, 0], [inf, 1, 2], [nan, nan],
    ):  # fmt: skip
        output = np.float64 if dtype == "int16" else None
        for name in ("correlate1d", "convolve1d"):
            for axis in (0, 1):
                with np.errstate(all="ignore"):
                    expected = getattr(nd, name)(image, weights, axis=axis, output=output)
                found = getattr(ndimage, name)(image, weights, axis=axis, output=output, accuracy="exact")
                assert not bits_differ(found, expected).any(), weights
                found = getattr(ndimage, name)(image, weights, axis=axis, output=output)
                np.testing.assert_allclose(found, expected, 1e-5, 1e-3)


@pytest.mark.parametrize("name", ["correlate", "convolve", "correlate1d", "convolve1d"])
@pytest.mark.parametrize("source", COMPLEX)
@pytest.mark.parametrize("kind", [*COMPLEX, ">c16"])
def test_products_of_complex_numbers_have_the_precision_of_the_input(name, source, kind):
    image = values((12, 13), source, np.random.default_rng(4))
    weights = np.random.default_rng(5).standard_normal((3, 4)) + 1j * np.random.default_rng(6).standard_normal((3, 4))
    weights = weights[0] if name.endswith("1d") else weights
    expected = getattr(nd, name)(image, weights, output=np.dtype(kind).newbyteorder("="))
    for output in (np.dtype(kind), np.zeros(image.shape, kind)):
        found = getattr(ndimage, name)(image, weights, output=output, accuracy="exact")
        assert found.dtype == kind and not bits_differ(found, expected).any()
        if source == "complex128" or np.dtype(kind).itemsize == 16:
            found = getattr(ndimage, name)(image, weights, output=output)
            assert not bits_differ(found, expected).any()


@pytest.mark.parametrize("cval", [1e300, -3.5e38, 10**39, 1e-300, np.float64(1e300)])
def test_values_outside_that_float32_has_no_place_for(cval):
    image = np.ones((6, 7), np.float32)
    for name, args in calls():
        with np.errstate(all="ignore"):
            expected = getattr(nd, name)(image, *args, mode="constant", cval=cval)
            wide = getattr(nd, name)(image.astype(float), *args, mode="constant", cval=cval)
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            if name != "gaussian_gradient_magnitude" and "laplace" not in name:
                getattr(ndimage, name)(image, *args, mode="constant", cval=cval)
        with np.errstate(all="ignore"):
            found = getattr(ndimage, name)(image, *args, mode="constant", cval=cval)
        assert (np.isnan(found) == np.isnan(expected)).all(), name
        if np.abs(cval) > 1:
            assert not bits_differ(found, expected).any(), name
        else:
            np.testing.assert_allclose(found, wide, 1e-5, 1e-5)


@given(st.data())
def test_correlate1d_and_convolve1d(data):
    image = data.draw(images())
    mask = data.draw(masks(1))
    name = data.draw(st.sampled_from(["correlate1d", "convolve1d"]))
    (origin,) = data.draw(origins(mask.shape, name == "convolve1d"))
    axis = data.draw(st.integers(-image.ndim, image.ndim - 1))
    options = {**data.draw(borders(image)), "axis": axis, "origin": origin}
    output = data.draw(outputs(image)) if image.dtype.kind == "c" else None
    compare(name, image, (mask,), absolute(name, mask, options), output=output, **options)


@given(st.data())
def test_uniform_filter(data):
    image = data.draw(images())
    axes, count = data.draw(axes_for(image.ndim))
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
    options = {**data.draw(borders(image, count)), "axes": axes, "origin": data.draw(origins(sizes))}
    # SciPy's running sums have an error that grows along the line. Ours are the same sums.
    # In images of two axes, ours may also be the sum of each window by itself.
    scale = local_maximum(image, 1.0, options)
    compare("uniform_filter", image, (sizes,), scale, 64, scipy_spreads_nan=image.ndim == 2, **options)
    axis = data.draw(st.integers(-image.ndim, image.ndim - 1))
    one = {**data.draw(borders(image)), "axis": axis}
    compare("uniform_filter1d", image, (sizes[0],), local_maximum(image, 1.0, one), 64, **one)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_two_axes_of_a_picture(dtype, seed):
    """Pictures whose two filters take one pass over memory, in several blocks and threads."""
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(60, 700, 2)) + ((3,) if seed % 3 == 0 else ())
    image = values(shape, dtype, random)
    modes = list(random.choice(MODES, 2)) + ["nearest"] * (len(shape) - 2)
    sizes = [int(size) for size in random.integers(2, random.choice([9, 130]), 2)] + [1] * (len(shape) - 2)
    origins = [int(random.integers(-(size // 2), (size - 1) // 2 + 1)) for size in sizes]
    options = {"mode": modes, "cval": float(random.choice([0.0, 3.0, 250.0, -7.0]))}
    bound = local_maximum(image, 1.0, options)
    compare("uniform_filter", image, (sizes,), bound, 64, origin=origins, **options)
    for name in ("sobel", "prewitt"):
        bound = local_maximum(image, 4.0 ** len(shape), options)
        compare(name, image, (), bound, 2 * len(shape), axis=int(random.integers(2)), **options)


def local_maximum(image, gain, options):
    """A bound of sum|w*x|: the largest magnitude of the image and the border, times sum|w|."""

    def scale(size):
        largest = max([abs(options["cval"]), *size[np.isfinite(size)].tolist(), 0.0])
        return np.full(size.shape, gain * largest)

    return scale


@given(st.data())
def test_gaussian_filters(data):
    image = data.draw(images())
    axes, count = data.draw(axes_for(image.ndim))
    sigma = data.draw(st.lists(st.sampled_from([0.0, 0.4, 1.0, 2.7]), min_size=count, max_size=count))
    order = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    options = {**data.draw(borders(image, count)), "axes": axes}
    if data.draw(st.booleans()):
        options["radius"] = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    else:
        options["truncate"] = data.draw(st.sampled_from([4.0, 1.0, 2.5]))
    compare("gaussian_filter", image, (sigma, order), local_maximum(image, 30.0**count, options), 2 * count, **options)
    axis = data.draw(st.integers(-image.ndim, image.ndim - 1))
    one = {**data.draw(borders(image)), "axis": axis}
    compare("gaussian_filter1d", image, (1.3, order[0]), local_maximum(image, 20.0, one), 2, **one)


@given(st.data())
def test_sums_of_gaussian_derivatives(data):
    image = data.draw(images(dtypes=(*REAL, "complex128")))
    axes, count = data.draw(axes_for(image.ndim))
    sigma = data.draw(st.lists(st.sampled_from([0.6, 1.0, 2.2]), min_size=count, max_size=count))
    options = {**data.draw(borders(image, count)), "axes": axes, "truncate": data.draw(st.sampled_from([4.0, 2.0]))}
    name = data.draw(st.sampled_from(["gaussian_laplace", "gaussian_gradient_magnitude"]))
    # Squares of large integers and of derivatives of unsigned ones wrap around. Those of complex numbers are SciPy's.
    gain = 30.0**count
    compare(name, image, (sigma,), local_maximum(image, gain, options), 4 * count, **options)


def test_weights_that_overflow_f32():
    image = np.zeros((8, 8), np.float32)
    found = ndimage.gaussian_filter(image, 1e-10, order=4)  # the weight is 3e40
    np.testing.assert_array_equal(found, nd.gaussian_filter(image, 1e-10, order=4))


def test_squares_that_overflow():
    image = np.array([[1.25]], np.float32)
    options = {"mode": "constant", "cval": 1e20}
    compare("gaussian_gradient_magnitude", image, ([0.6, 0.6],), local_maximum(image, 900.0, options), 8, **options)


@given(st.data())
def test_differences(data):
    image = data.draw(images())
    name = data.draw(st.sampled_from(["sobel", "prewitt", "laplace"]))
    if name == "laplace":
        axes, count = data.draw(axes_for(image.ndim))
        options = {**data.draw(borders(image, count)), "axes": axes}
    else:
        axis = data.draw(st.integers(-image.ndim, image.ndim - 1))
        options = {**data.draw(borders(image, image.ndim)), "axis": axis}
    compare(name, image, (), local_maximum(image, 4.0**image.ndim, options), 2 * image.ndim, **options)


def calls():
    mask = np.arange(6.0).reshape(2, 3) - 2
    yield "correlate", (mask,)
    yield "convolve", (mask,)
    yield "correlate1d", ([1.0, -2.0, 0.5],)
    yield "convolve1d", ([1.0, -2.0, 0.5],)
    yield "gaussian_filter", (1.0,)
    yield "gaussian_filter1d", (1.0,)
    yield "uniform_filter", (4,)
    yield "uniform_filter1d", (4,)
    yield "sobel", ()
    yield "prewitt", ()
    yield "laplace", ()
    yield "gaussian_laplace", (1.0,)
    yield "gaussian_gradient_magnitude", (1.0,)


@pytest.mark.parametrize("name, args", list(calls()))
def test_all_names_are_native(name, args):
    before = ndimage.counts()
    getattr(ndimage, name)(np.ones((5, 6)), *args)
    after = ndimage.counts()
    assert after["native"] > before["native"] and after["fallback"] == before["fallback"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name, args", list(calls()))
def test_output_arrays(name, args, layout):
    image = values((9, 7), np.float64, np.random.default_rng(4))
    expected = getattr(nd, name)(image, *args)
    if layout not in ("readonly", "broadcast"):
        output = laid_out(np.full(image.shape, np.nan), layout)
        result = getattr(ndimage, name)(image, *args, output=output)
        assert result is output
        assert not bits_differ(output, expected).any()
    target = laid_out(np.zeros(image.shape), layout)
    if not target.flags.writeable:
        with pytest.raises(ValueError):
            getattr(ndimage, name)(image, *args, output=target)


@pytest.mark.parametrize("name, args", list(calls()))
def test_output_is_the_input(name, args):
    for dtype in (np.float64, np.int16):
        image = values((9, 7), dtype, np.random.default_rng(4))
        # Filters that add several derivatives overwrite their input with the first, in SciPy. Ours do not.
        expected = getattr(nd, name)(image, *args)
        result = getattr(ndimage, name)(image, *args, output=image)
        assert result is image
        assert not bits_differ(image, expected).any()


def test_output_overlaps_the_input():
    for step in (1, -1):
        memory = values((12, 7), np.float64, np.random.default_rng(4))
        theirs = memory.copy()
        for function, room in ((ndimage.correlate, memory), (nd.correlate, theirs)):
            function(room[1:11][::step], np.ones((3, 3)), output=room[2:12])
        assert not bits_differ(memory, theirs).any()


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_numbers_that_are_not_finite_and_an_output_over_the_input(name, channels):
    random = np.random.default_rng(6)
    weights = random.random((9, 9, 1)[: 2 + len(channels)])
    weights[::2] = 0
    for shift in (0, 1):
        room = random.random((41, 50, *channels)).astype(np.float32)
        room[10, 20], room[30, 40] = np.inf, np.nan
        image, output = room[:40], room[shift : 40 + shift]
        expected = getattr(nd, name)(image, weights)
        getattr(ndimage, name)(image, weights, output=output)
        np.testing.assert_allclose(output, expected, rtol=1e-5)


def test_input_is_the_imaginary_part_of_the_output():
    image = values((6, 40), np.float64, np.random.default_rng(4))
    for name, size in (("uniform_filter1d", 3), ("correlate1d", [1.0, 2.0, -1.0])):
        output = 1j * image
        getattr(ndimage, name)(output.imag, size, output=output)
        assert not bits_differ(output.real, getattr(nd, name)(image, size)).any()
        assert not output.imag.any()


def test_output_in_the_other_byte_order():
    image = values((9, 7), np.float32, np.random.default_rng(4))
    output = np.zeros((9, 7), np.dtype(">f8"))
    ndimage.gaussian_filter(image, 1.0, output=output)
    assert np.array_equal(output, nd.gaussian_filter(image, 1.0, output=np.float64))


@pytest.mark.parametrize("name, args", list(calls()))
def test_empty_arrays(name, args):
    for shape in ((0, 5), (5, 0), (0, 0)):
        compare(name, np.zeros(shape), args)


def test_lists_and_numbers_are_arrays():
    assert np.array_equal(ndimage.laplace([[1, 2], [3, 5]]), nd.laplace([[1, 2], [3, 5]]))
    assert np.array_equal(ndimage.correlate1d((1.0, 2.0, 4.0), (1, 0, -1)), nd.correlate1d([1.0, 2.0, 4.0], [1, 0, -1]))


IMAGE = np.arange(20.0).reshape(4, 5)
BAD = [
    lambda m: m.correlate(IMAGE, np.ones(3)),
    lambda m: m.correlate(IMAGE, np.ones((3, 3, 3))),
    lambda m: m.correlate(IMAGE, np.ones((0, 3))),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), mode="nonsense"),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), mode=7),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), origin=2),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), origin=(0, -2)),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), origin=(0, 0, 0)),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), origin=np.nan),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), origin=0.5),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), axes=(0, 2)),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), axes=(0, 0)),
    lambda m: m.convolve(IMAGE, np.ones((3, 3)), axes=(0, 1, 1)),
    lambda m: m.correlate(IMAGE, np.ones((3, 3)), output=np.zeros((4, 4))),
    lambda m: m.correlate(IMAGE, np.ones((3, 3)), output="nonsense"),
    lambda m: m.correlate(IMAGE, np.array([["a", "b"]])),
    lambda m: m.correlate(IMAGE.astype(object), np.ones((3, 3))),
    lambda m: m.correlate(np.array([["a", "b"]]), np.ones((1, 1))),
    lambda m: m.correlate(IMAGE.astype(np.float16), np.ones((3, 3))),
    lambda m: m.correlate(None, np.ones((3, 3))),
    lambda m: m.correlate1d(IMAGE, np.ones(3), axis=2),
    lambda m: m.correlate1d(IMAGE, np.ones(3), axis=-3),
    lambda m: m.correlate1d(IMAGE, np.ones(0)),
    lambda m: m.correlate1d(IMAGE, np.ones((2, 2))),
    lambda m: m.correlate1d(IMAGE, np.ones(3), origin=-3),
    lambda m: m.correlate1d(IMAGE, 3.0),
    lambda m: m.gaussian_filter(IMAGE, (1.0, 2.0, 3.0)),
    lambda m: m.gaussian_filter(IMAGE, "wide"),
    lambda m: m.gaussian_filter(IMAGE, np.inf),
    lambda m: m.gaussian_filter(IMAGE, 1.0, order=-1),
    lambda m: m.gaussian_filter(IMAGE, 1.0, order=(0, 1, 2)),
    lambda m: m.gaussian_filter(IMAGE, 1.0, radius=-1),
    lambda m: m.gaussian_filter(IMAGE, 1.0, radius=1.5),
    lambda m: m.gaussian_filter(IMAGE, 1.0, mode=("wrap",)),
    lambda m: m.gaussian_filter(IMAGE, 1.0, axes=5),
    lambda m: m.gaussian_filter1d(IMAGE, 1.0, order=-2),
    lambda m: m.uniform_filter(IMAGE, (3, 3, 3)),
    lambda m: m.uniform_filter(IMAGE, 3, origin=4),
    lambda m: m.uniform_filter1d(IMAGE, 0),
    lambda m: m.uniform_filter1d(IMAGE, -2),
    lambda m: m.uniform_filter1d(IMAGE, 3, axis=7),
    lambda m: m.sobel(IMAGE, axis=2),
    lambda m: m.prewitt(IMAGE, axis=-3),
    lambda m: m.laplace(IMAGE, mode=("wrap", "wrap", "wrap")),
    lambda m: m.gaussian_laplace(IMAGE, 1.0, nonsense=1),
    lambda m: m.gaussian_gradient_magnitude(IMAGE, (1.0,)),
    lambda m: m.sobel(),
    lambda m: m.correlate(IMAGE, np.ones((3, 3)), cval=1j),
    lambda m: m.convolve(IMAGE.astype(np.float32), np.ones((3, 3)), mode="constant", cval=1j),
    lambda m: m.convolve(IMAGE.astype(np.uint8), np.ones((3, 3)), output=np.complex64, cval=1j),
    lambda m: m.convolve(IMAGE, 1j * np.ones((3, 3)), cval=1j),
    lambda m: m.correlate1d(IMAGE, np.ones(3), cval=1j),
    lambda m: m.convolve1d(IMAGE, 1j * np.ones(3), cval=1j),
    lambda m: m.gaussian_filter(IMAGE.astype(np.float32), 1.0, mode="constant", cval=1j),
    lambda m: m.gaussian_filter1d(IMAGE, 1.0, cval=1j),
    lambda m: m.gaussian_filter(IMAGE.astype(np.float32), 1.0, cval=1j),
    lambda m: m.correlate(IMAGE.astype(np.float32), np.ones((3, 3)), cval="1"),
    lambda m: m.sobel(IMAGE.astype(np.float32), cval=1j),
    lambda m: m.uniform_filter(IMAGE.astype(np.float32), 3, cval=1j),
    lambda m: m.uniform_filter(IMAGE.astype(np.float32), 3, mode="constant", cval=1j),
    lambda m: m.sobel(IMAGE.astype(np.float32), mode="constant", cval=1j),
    lambda m: m.laplace(IMAGE, cval=1j),
    lambda m: m.gaussian_laplace(IMAGE, 1.0, cval=1j),
    lambda m: m.gaussian_gradient_magnitude(IMAGE, 1.0, cval=1j),
    lambda m: m.gaussian_filter1d(IMAGE, np.nan, radius=1),
    lambda m: m.gaussian_filter1d(IMAGE, np.inf, radius=1),
    lambda m: m.gaussian_filter1d(IMAGE, 1 + 2j, radius=1),
    lambda m: m.gaussian_filter1d(IMAGE, 10**400, radius=1),
    lambda m: m.gaussian_filter(IMAGE, np.inf, radius=1),
    lambda m: m.gaussian_filter(IMAGE, 1 + 2j, radius=1),
    lambda m: m.gaussian_laplace(IMAGE, np.inf, radius=1),
]

# The name of what is wrong, and what it was.
NAMED = [
    ("weights", "'a'", lambda m: m.correlate1d(IMAGE, "a")),
    ("weights", "'a'", lambda m: m.convolve1d(IMAGE, ["a", "b"])),
    ("weights", "'a'", lambda m: m.correlate(IMAGE, [["a", "b"]])),
    ("weights", r"\[\[1, 2\], \[3\]\]", lambda m: m.correlate(IMAGE, [[1, 2], [3]])),
    ("weights", r"\[\[1, 2\], \[3\]\]", lambda m: m.correlate1d(IMAGE, [[1, 2], [3]])),
    ("sigma", "None", lambda m: m.gaussian_filter1d(IMAGE, None, radius=1)),
    ("sigma", "None", lambda m: m.gaussian_filter1d(IMAGE, None)),
    ("sigma", "'a'", lambda m: m.gaussian_filter1d(IMAGE, "a", radius=1)),
    ("sigma", "'1'", lambda m: m.gaussian_filter1d(IMAGE, "1", radius=1)),
    ("sigma", "'a'", lambda m: m.gaussian_filter(IMAGE, "a")),
    ("sigma", "None", lambda m: m.gaussian_filter(IMAGE, (1.0, None))),
    ("sigma", "nan", lambda m: m.gaussian_filter1d(IMAGE, np.nan)),
    ("sigma", "inf", lambda m: m.gaussian_filter1d(IMAGE, np.inf, radius=1)),
    ("sigma", "1.2j", lambda m: m.gaussian_filter1d(IMAGE, 1 + 2j, radius=1)),
    ("sigma", "", lambda m: m.gaussian_filter1d(IMAGE, 10**400, radius=1)),
    ("truncate", "'a'", lambda m: m.gaussian_filter(IMAGE, 1.0, truncate="a")),
    ("truncate", "None", lambda m: m.gaussian_filter1d(IMAGE, 1.0, truncate=None)),
    ("order", "None", lambda m: m.gaussian_filter1d(IMAGE, 1.0, order=None)),
    ("order", "1.5", lambda m: m.gaussian_filter1d(IMAGE, 1.0, order=1.5)),
    ("order", "'x'", lambda m: m.gaussian_filter(IMAGE, 1.0, order=(0, "x"))),
    ("axis", "None", lambda m: m.sobel(IMAGE, None)),
    ("axis", "None", lambda m: m.correlate1d(IMAGE, [1, 2], None)),
    ("axes", "'a'", lambda m: m.laplace(IMAGE, axes=("a",))),
    ("origin", "None", lambda m: m.uniform_filter(IMAGE, 3, origin=None)),
    ("origin", "None", lambda m: m.uniform_filter1d(IMAGE, 3, origin=None)),
    ("origin", "None", lambda m: m.correlate1d(IMAGE, [1, 2, 3], origin=None)),
    ("origin", "None", lambda m: m.convolve1d(IMAGE, [1, 2, 3], origin=None)),
    ("origin", "'a'", lambda m: m.convolve(IMAGE, np.ones((3, 3)), origin=(0, "a"))),
    ("origin", "0.5", lambda m: m.uniform_filter1d(IMAGE, 3, origin=0.5)),
    ("size", "nan", lambda m: m.uniform_filter1d(IMAGE, np.nan)),
    ("size", "2.5", lambda m: m.uniform_filter1d(IMAGE, 2.5)),
    ("size", "None", lambda m: m.uniform_filter1d(IMAGE, None)),
    ("size", "'a'", lambda m: m.uniform_filter(IMAGE, (3, "a"))),
    ("size", "inf", lambda m: m.uniform_filter(IMAGE, np.inf)),
    ("cval", "None", lambda m: m.correlate1d(IMAGE, [1, 2], cval=None)),
    ("cval", "'a'", lambda m: m.correlate(IMAGE.astype("f4"), np.ones((3, 3)), cval="a")),
    ("_exact", "", lambda m: m.sobel(IMAGE, _exact=True)),
]


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_bad_input_is_named(number):
    name, found, call = NAMED[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            call(nd)
        with pytest.raises(type(theirs.value), match=rf"(?s)\b{name}\b.*{found}") as ours:
            call(ndimage)
    assert type(ours.value) is type(theirs.value)
    assert "multiple values" not in str(ours.value)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_raises_what_scipy_raises(number):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            BAD[number](nd)
        with pytest.raises(type(theirs.value)) as ours:
            BAD[number](ndimage)
    assert str(ours.value)


def test_one_wrong_value_is_seen():
    """The comparison itself: it fails for one changed bit, for a shift, and for a NaN."""
    image = values((6, 7), np.float64, np.random.default_rng(1))
    same = image.copy()
    assert not bits_differ(image, same).any()
    same[3, 4] = np.nextafter(same[3, 4], np.inf)
    assert np.argwhere(bits_differ(image, same)).tolist() == [[3, 4]]
    assert bits_differ(image, np.roll(image, 1, 1)).any()
    assert bits_differ(image, np.where(image == image[0, 0], np.nan, image)).any()


@pytest.mark.parametrize("kind", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(1, 3), (3, 3), (13, 13), (31, 31)])
def test_products_with_nan_are_left_out(kind, shape):
    rng = np.random.default_rng(7)
    values = rng.integers(0, 200, (40, 50)).astype(kind)
    weights = rng.integers(-3, 4, shape).astype(float)
    weights[0, 1] = weights[-1, -1] = np.nan
    for function in ("correlate", "convolve"):
        right = getattr(nd, function)(values, weights)
        assert np.isfinite(right).all()
        np.testing.assert_array_equal(getattr(ndimage, function)(values, weights), right)


def test_an_origin_outside_is_named_as_it_was_given():
    for function in (ndimage.correlate, ndimage.convolve):
        with pytest.raises(ValueError, match="it is 3 for a size of 4"):
            function(np.zeros((5, 5)), np.ones((4, 4)), origin=3)
        with pytest.raises(RuntimeError, match=r"each axis must have an element, not the shape \(0, 3\)"):
            function(np.zeros((5, 5)), np.ones((0, 3)))


NUMBERS = np.arange(60.0).reshape(3, 4, 5)
THIRDS = np.full((2, 3), 1 / 3 + 1j / 7)
SAME_AS_SCIPY = {
    "no axes": lambda m: m.correlate(np.float32(3), 2.0),
    "no axes, output": lambda m: m.convolve(np.array(3, "f4"), 2.0, output=np.zeros((), "f4")),
    "sigma for all axes": lambda m: m.gaussian_laplace(NUMBERS[0], [1.0, 2.0], axes=(1, 0)),
    "sigma for some axes": lambda m: m.gaussian_laplace(NUMBERS, [1.0, 2.0], axes=(2, 0)),
    "NaN is symmetric": lambda m: m.correlate1d([1.0, 2, 3], [1, 2, np.nan]),
    "NaN is antisymmetric": lambda m: m.correlate1d(NUMBERS, [1, 3, 0, np.nan, -1], axis=1),
    "infinities are symmetric": lambda m: m.correlate1d([-1.0, 2, -3, 4], [-np.inf, 1, -np.inf]),
    "NaN for integers": lambda m: m.correlate1d(np.array([1, 2, 3], "u1"), [1, 2, np.nan]),
    "complex64 to complex128": lambda m: m.correlate1d(THIRDS.astype("F"), [1.1 + 2j], output="complex128"),
    "complex128 to complex64": lambda m: m.correlate(THIRDS, [[1.1 + 2j]], output="complex64"),
    "cval beyond float32": lambda m: m.correlate(np.ones((4, 4), "f4"), np.ones((3, 3)), mode="constant", cval=1e300),
    "sobel, cval beyond float32": lambda m: m.sobel(np.ones((4, 4), "f4"), mode="constant", cval=1e300),
}


@pytest.mark.parametrize("case", SAME_AS_SCIPY)
def test_bits_are_scipys(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected, found = SAME_AS_SCIPY[case](nd), SAME_AS_SCIPY[case](ndimage)
    assert np.shape(found) == np.shape(expected) and not bits_differ(found, expected).any()


@pytest.mark.parametrize("kind", ["uint8", "float64", "int32"])
def test_correlations_along_short_last_axes(kind):
    shapes = [(70, 80, 1), (300, 1), (1, 300, 1), (90, 70, 2), (40, 1, 30), (1, 1, 200), (5, 200, 3, 1), (1, 1), (70, 3, 3)]
    for seed, shape in enumerate(shapes):
        print("seed", seed)
        random = np.random.default_rng(seed)
        image = random.integers(0, 250, shape).astype(kind)
        for _ in range(6):
            weights = random.standard_normal(random.choice([1, 2, 5], len(shape)))
            # Not "reflect": SciPy reflects masks that are much wider than the array in another way.
            mode = ["mirror", "constant", "nearest", "wrap"][random.integers(4)]
            for array in (image, np.asfortranarray(image), image[::-1]):
                ours = ndimage.correlate(array, weights, mode=mode, cval=3)
                theirs = nd.correlate(array, weights, mode=mode, cval=3)
                np.testing.assert_array_equal(ours, theirs, err_msg=f"{shape}, {weights.shape}, {mode}")


def test_a_window_may_not_fit_memory():
    """Three elements under a window that takes terabytes."""
    for call in (ndimage.uniform_filter1d, ndimage.uniform_filter):
        with pytest.raises(MemoryError, match="lines under a filter"):
            call(np.arange(3.0), 2**40)
