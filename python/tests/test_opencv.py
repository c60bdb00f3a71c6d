"""`filter2D`, `sepFilter2D`, `GaussianBlur` and `blur` against OpenCV, and against sums written with NumPy."""

import array
import threading

import cv2
import faltung
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

DEPTHS = {"uint8": 0, "uint16": 2, "int16": 3, "int32": 4, "float32": 5, "float64": 6}
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT,
    "reflect101": cv2.BORDER_REFLECT_101,
    "wrap": cv2.BORDER_WRAP,
}
# OpenCV refuses to wrap, except for some Gaussians.
OF_OPENCV = [name for name in BORDERS if name != "wrap"]
FILTERED = ["uint8", "uint16", "int16", "float32", "float64"]
# What OpenCV computes from images of a type with `filter2D`.
RESULTS = {
    "uint8": ["uint8", "uint16", "int16", "float32", "float64"],
    "uint16": ["uint16", "float32", "float64"],
    "int16": ["int16", "float32", "float64"],
    "float32": ["float32"],
    "float64": ["float64"],
}
SIZES = [(1, 1), (1, 9), (8, 1), (2, 2), (3, 17), (17, 3), (33, 40), (65, 130)]


def picture(shape, kind, seed=0):
    random = np.random.default_rng(seed)
    if np.dtype(kind).kind == "f":
        return random.standard_normal(shape).astype(kind)
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, shape, kind, endpoint=True)


def outside(position, length, border):
    place = cv2.borderInterpolate(position, length, BORDERS[border])
    return length if place < 0 else place


def exact_sums(image, mask, anchor=(-1, -1), border="reflect101", magnitudes=False):
    """The sums in float64, one product of the mask after the other."""
    image, mask = image.astype(np.float64), np.asarray(mask, np.float64)
    if magnitudes:
        image, mask = np.abs(image), np.abs(mask)
    (rows, columns), (height, width) = mask.shape, image.shape[:2]
    x, y = (size // 2 if place == -1 else place for place, size in zip(anchor, (columns, rows)))
    # A row and a column of zeros behind the image stand for a constant border.
    padded = np.pad(image, [(0, 1), (0, 1), (0, 0)][: image.ndim])
    sums = np.zeros(image.shape)
    for k in range(rows):
        source = padded[[outside(i + k - y, height, border) for i in range(height)]]
        for l in range(columns):
            sums += mask[k, l] * source[:, [outside(j + l - x, width, border) for j in range(width)]]
    return sums


def rounded(sums, kind):
    if np.dtype(kind).kind == "f":
        return sums.astype(kind)
    limits = np.iinfo(kind)
    return np.clip(np.rint(sums), limits.min, limits.max).astype(kind)


def check(result, sums, sizes, terms, unit=2.0**-24):
    """Compare with exact sums. `sizes` are the sums of magnitudes, `terms` the additions of a sum."""
    bound = 2 * (terms + 4) * unit * sizes + 1e-30
    if result.dtype.kind == "f":
        assert np.all(np.abs(result - sums) <= bound)
        return
    expected = rounded(sums, result.dtype).astype(np.int64)
    difference = np.abs(result.astype(np.int64) - expected)
    from_tie = np.abs(sums - np.floor(sums) - 0.5)
    assert np.all((difference == 0) | ((difference == 1) & (from_tie <= bound)))


def small_integers(shape, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


# Sums of small integers are exact in any arithmetic. So every bit must agree.


@pytest.mark.parametrize("border", OF_OPENCV)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("source", FILTERED)
def test_filter2d_has_opencvs_bits(source, shape, border):
    for number, (mask, channels) in enumerate([((3, 3), 1), ((2, 5), 3), ((7, 4), 4), ((1, 1), 2), ((5, 1), 5)]):
        image = picture((*shape, channels) if channels > 1 else shape, source, number)
        if image.dtype.kind == "f":
            image = np.rint(8 * image)
        kernel = small_integers(mask, number)
        anchor = [(-1, -1), (0, 0), (mask[1] - 1, mask[0] - 1)][number % 3]
        for result in RESULTS[source]:
            arguments = {"anchor": anchor, "delta": 3, "borderType": BORDERS[border]}
            expected = cv2.filter2D(image, DEPTHS[result], kernel, **arguments)
            ours = faltung.filter2D(image, DEPTHS[result], kernel, **arguments)
            assert ours.dtype == expected.dtype
            np.testing.assert_array_equal(ours, expected, err_msg=f"{mask}, {channels} channels, {result}")


@pytest.mark.parametrize("border", OF_OPENCV)
@pytest.mark.parametrize("source", FILTERED)
def test_sepfilter2d_has_opencvs_bits(source, border):
    for number, (rows, columns) in enumerate([(3, 3), (1, 6), (4, 1), (5, 2), (9, 7)]):
        image = picture((31, 45), source, number)
        if image.dtype.kind == "f":
            image = np.rint(8 * image)
        # Odd kernels that are no blurs: OpenCV rounds the coefficients of blurs.
        x, y = small_integers(columns, number), small_integers(rows, number + 100)
        x[0], y[0] = 4, -4
        for result in FILTERED:
            if (source, result) == ("float64", "float32"):
                continue
            expected = cv2.sepFilter2D(image, DEPTHS[result], x, y, delta=-7, borderType=BORDERS[border])
            ours = faltung.sepFilter2D(image, result, x[:, None], y[None], delta=-7, borderType=border)
            np.testing.assert_array_equal(ours, expected, err_msg=f"{rows} x {columns}, {result}")


@st.composite
def problems(draw):
    source = draw(st.sampled_from(FILTERED))
    shape = (draw(st.integers(1, 40)), draw(st.integers(1, 70)))
    channels = draw(st.integers(1, 6))
    size = (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    anchor = (draw(st.integers(-1, size[1] - 1)), draw(st.integers(-1, size[0] - 1)))
    border = draw(st.sampled_from(sorted(BORDERS)))
    seed = draw(st.integers(0, 2**32 - 1))
    image = picture((*shape, channels) if channels > 1 else shape, source, seed)
    return image, size, anchor, border, np.random.default_rng(seed)


@settings(deadline=None)
@given(problems(), st.booleans(), st.floats(-100, 100))
def test_any_filter(problem, is_separable, delta):
    image, (rows, columns), anchor, border, random = problem
    delta = np.float32(delta)
    for result in RESULTS[image.dtype.name]:
        arguments = {"anchor": anchor, "delta": delta, "borderType": border}
        if is_separable:
            x, y = random.standard_normal(columns), random.standard_normal(rows)
            mask = np.outer(y, x)
            ours = faltung.sepFilter2D(image, result, x, y, **arguments)
        else:
            mask = random.standard_normal((rows, columns))
            ours = faltung.filter2D(image, result, mask, **arguments)
        sums = exact_sums(image, mask, anchor, border) + delta
        sizes = exact_sums(image, mask, anchor, border, magnitudes=True) + abs(delta)
        is_double = "float64" in (result, image.dtype.name) or "int16" in (result, image.dtype.name)
        assert ours.dtype == result
        check(ours, sums, sizes, rows * columns, 2.0**-53 if is_double and result != "float32" else 2.0**-24)
        if border != "wrap":
            kernel = mask.astype(np.float64 if "float64" in (result, image.dtype.name) else np.float32)
            theirs = cv2.filter2D(image, DEPTHS[result], kernel, **arguments | {"borderType": BORDERS[border]})
            # OpenCV has its own rounding errors of float32. It applies large masks by a Fourier transform, whose errors
            # are relative to the largest sum.
            pairs = {("float32", "float32"), ("uint8", "uint8"), ("uint8", "int16")}
            large = 130 if (image.dtype.name, result) in pairs else 50
            scale = sizes.max() if rows * columns >= large else sizes
            slack = 4 * (rows * columns + 4) * 2.0**-24 * scale + (1 if ours.dtype.kind != "f" else 0)
            assert np.all(np.abs(ours.astype(np.float64) - theirs) <= slack)


@pytest.mark.parametrize("shape", [(1, 8), (8, 1), (1, 1), (1, 8, 3)])
@pytest.mark.parametrize("ksize", [(3, 2), (2, 3), (3, 0), (0, 3), (2, 2), (3, -4), (0, 0), (3, 5)])
def test_gaussian_blur_of_one_row_or_column(shape, ksize):
    image = picture(shape, "float32")
    for border in OF_OPENCV:
        for sigma in (0, 1.2):
            arguments = (image, ksize, sigma)
            try:
                theirs = cv2.GaussianBlur(*arguments, borderType=BORDERS[border])
            except cv2.error:
                with pytest.raises(ValueError, match="ksize: "):
                    faltung.GaussianBlur(*arguments, borderType=border)
                continue
            ours = faltung.GaussianBlur(*arguments, borderType=border)
            np.testing.assert_allclose(ours, theirs.reshape(ours.shape), 1e-5, 1e-6)


@settings(deadline=None)
@given(
    st.sampled_from(FILTERED),
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.sampled_from([0, 1, 3, 5, 7, 9, 11, 21]),
    st.sampled_from([0, 1, 3, 5, 7, 9, 13]),
    st.floats(0.3, 6),
    st.sampled_from([0.0, 0.7, 2.5]),
    st.sampled_from(OF_OPENCV),
    st.integers(0, 2**32 - 1),
)
def test_gaussian_blur(kind, shape, columns, rows, sigma_x, sigma_y, border, seed):
    image = picture(shape, kind, seed)
    if columns and rows and seed % 2:
        sigma_x = sigma_y = 0  # of the sizes
    ours = faltung.GaussianBlur(image, (columns, rows), sigma_x, sigmaY=sigma_y, borderType=border)
    theirs = cv2.GaussianBlur(image, (columns, rows), sigma_x, sigmaY=sigma_y, borderType=BORDERS[border])
    sigma_y = sigma_y or sigma_x
    reach = 6 if kind == "uint8" else 8
    columns, rows = columns or round(reach * sigma_x + 1) | 1, rows or round(reach * sigma_y + 1) | 1
    mask = cv2.getGaussianKernel(rows, sigma_y) @ cv2.getGaussianKernel(columns, sigma_x).T
    sums, sizes = (exact_sums(image, mask, border=border, magnitudes=of) for of in (False, True))
    check(ours, sums, sizes, rows + columns, 2.0**-24 if kind in ("uint8", "float32") else 2.0**-51)
    # OpenCV rounds the coefficients for uint8 to multiples of 2^-8, and for uint16 of 2^-16.
    most = {"uint8": 6, "uint16": 8, "int16": 1}.get(kind, 40 * 2.0**-24 * sizes)
    assert np.all(np.abs(ours.astype(np.float64) - theirs) <= most)


@pytest.mark.parametrize("border", OF_OPENCV)
@pytest.mark.parametrize("kind", [*FILTERED, "int32"])
def test_blur(kind, border):
    sizes = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 3), (4, 6), (5, 1), (16, 16), (7, 40), (60, 3)]
    for number, (columns, rows) in enumerate(sizes):
        image = picture((29, 43), kind, number)
        if kind == "int32":
            image //= 4096  # OpenCV's sums of int32 are int32
        anchor = [(-1, -1), (0, 0), (columns - 1, rows - 1)][number % 3]
        ours = faltung.blur(image, (columns, rows), anchor=anchor, borderType=border)
        theirs = cv2.blur(image, (columns, rows), anchor=anchor, borderType=BORDERS[border])
        sums, sizes = (exact_sums(image, np.ones((rows, columns)), anchor, border, of) for of in (False, True))
        area = rows * columns
        if image.dtype.kind == "f":
            unit = 2.0**-24 if kind == "float32" else 2.0**-50
            # The sums run along lines, and keep the rounding errors of what has left the window.
            check(ours, sums / area, sizes.max() / area, 29 + 43, unit)
            assert np.all(np.abs(ours - theirs) <= 2 * area * unit * sizes / area + unit)
        else:
            np.testing.assert_array_equal(ours, rounded(sums / area, kind), err_msg=f"{columns} x {rows}")
            difference = np.abs(ours.astype(np.int64) - theirs)
            # OpenCV 5.0 rounds some means of uint8 up to 256, and stores 0.
            assert np.all((difference <= 1) | (kind == "uint8") & (ours == 255) & (theirs == 0))
            from_tie = np.abs(sums / area - np.floor(sums / area) - 0.5)
            if kind in ("uint16", "int16"):
                # OpenCV multiplies by a rounded reciprocal.
                assert np.all((difference == 0) | (from_tie < 1e-4))


def test_ties_are_rounded_to_even():
    image = np.arange(256, dtype=np.uint8)[None]
    halves = faltung.filter2D(image, -1, [[0.5]], borderType="constant")
    assert halves[0, :6].tolist() == [0, 0, 1, 2, 2, 2]
    np.testing.assert_array_equal(halves, np.rint(image / 2))
    pairs = faltung.blur(np.array([[0, 1, 2, 3, 4]], np.int16), (2, 1), borderType="replicate")
    assert pairs.tolist() == [[0, 0, 2, 2, 4]]


def test_tiny_and_huge_coefficients_count():
    image = picture((9, 9), "float64")
    kernel = np.array([[1e-30, -2e-30, 3e-30]])
    np.testing.assert_allclose(faltung.filter2D(image, -1, kernel), 1e-30 * faltung.filter2D(image, -1, kernel / 1e-30))
    np.testing.assert_allclose(
        faltung.sepFilter2D(image, -1, kernel, [1e200]), exact_sums(image, kernel * 1e200), rtol=1e-12
    )


def test_a_very_large_gaussian_takes_two_passes():
    image = picture((70, 90), "uint8")
    ours = faltung.GaussianBlur(image, (2301, 2101), 400)
    theirs = cv2.GaussianBlur(image.astype(np.float64), (2301, 2101), 400)
    assert np.all(np.abs(ours - theirs) <= 0.5001)
    ours = faltung.GaussianBlur(image.astype(np.float32), (2301, 2101), 400)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("columns, rows", [(257, 257), (300, 256), (2000, 41), (3, 40000)])
def test_means_of_large_windows_are_exact(columns, rows):
    image = picture((300, 290), "uint8")
    ours = faltung.blur(image, (columns, rows), borderType="replicate")
    sums = np.pad(image, [(rows // 2, rows - 1 - rows // 2), (columns // 2, columns - 1 - columns // 2)], "edge")
    for size in (rows, columns):
        lines = np.cumsum(sums, axis=0, dtype=np.int64)
        lines[size:] -= lines[:-size].copy()
        sums = lines[size - 1 :].T
    area = rows * columns
    whole, rest = np.divmod(sums, area)
    whole += (2 * rest > area) | ((2 * rest == area) & (whole % 2 == 1))
    np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize("depth", ["uint8", "uint16"])
def test_large_separable_masks_round_sums_of_float64(depth):
    image = picture((200, 210), "uint8")
    line = cv2.getGaussianKernel(121, 20).ravel()
    sums = exact_sums(exact_sums(image, line[:, None]), line[None])
    expected = np.rint(sums)
    is_clear = np.abs(sums - np.floor(sums) - 0.5) > 1e-10
    for accuracy in ("exact", "bounded"):
        ours = faltung.sepFilter2D(image, depth, line, line, accuracy=accuracy)
        np.testing.assert_array_equal(ours[is_clear], expected[is_clear])
    if depth == "uint8":
        np.testing.assert_array_equal(faltung.GaussianBlur(image, (121, 121), 20), ours)


@pytest.mark.parametrize("source, depth", [("int16", "int16"), ("uint8", "int16"), ("int16", "float32")])
@pytest.mark.parametrize("seed", range(3))
def test_large_dense_masks_of_integers_are_exact(source, depth, seed):
    """Masks of whole numbers and of halves: sums round nothing, and have ties."""
    print("seed", seed)
    random = np.random.default_rng(seed)
    image, size = picture((150, 170), source, seed), tuple(random.integers(25, 40, 2))
    image[:60] = 3
    mask = random.integers(-3, 4, size) / [1, 2, 64][seed]
    expected = rounded(exact_sums(image, mask, border="reflect") + 0.5, depth)
    for accuracy in ("exact", "bounded"):
        ours = faltung.filter2D(image, depth, mask, delta=0.5, borderType="reflect", accuracy=accuracy)
        np.testing.assert_array_equal(ours, expected)
    # A mean of an even number of pixels has ties, too. OpenCV's transform does not tell them.
    mean = np.full((26, 20), 1 / 520)
    ours, sums = faltung.filter2D(image, depth, mean), exact_sums(image, mean)
    check(ours, sums, np.abs(sums) + 1, 520, 2.0**-53 if depth == "int16" else 2.0**-24)
    assert np.all(np.abs(ours - cv2.filter2D(image, DEPTHS[depth], mean).astype(np.float64)) <= 1)


@pytest.mark.parametrize("source, depth", [("float64", "float64"), ("int16", "float64"), ("int16", "float32")])
def test_large_dense_masks_of_floats_keep_their_bound(source, depth):
    image = picture((150, 170), source, 1)
    random = np.random.default_rng(2)
    mask = random.standard_normal((33, 29))
    sums, sizes = (exact_sums(image, mask, magnitudes=of) for of in (False, True))
    for accuracy in ("exact", "bounded", "normwise"):
        ours = faltung.filter2D(image, depth, mask, accuracy=accuracy)
        unit = 2.0**-53 if (depth, accuracy) == ("float64", "exact") else 2.0**-24
        assert np.all(np.abs(ours - sums) <= 2 * mask.size * unit * sizes)
        # In fact the transforms are as accurate as OpenCV's.
        assert np.all(np.abs(ours - sums) <= (1e-12 if depth == "float64" else 2.0**-23) * sizes.max())
    if source == "float64":
        image[70, 80] = np.nan
        ours = faltung.filter2D(image, depth, mask)
        assert np.count_nonzero(np.isnan(ours)) == mask.size
        np.testing.assert_allclose(ours[~np.isnan(ours)], sums[~np.isnan(ours)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("depth", ["uint8", "uint16", "int16"])
@pytest.mark.parametrize("size", [9, 31])
def test_separable_masks_round_sums_of_float64(depth, size):
    image = 200 * picture((90, 130, 5), "float32", size)
    line = cv2.getGaussianKernel(size, size / 5).ravel()
    sums = exact_sums(exact_sums(image, line[:, None]), line[None])
    expected = rounded(sums, depth)
    is_clear = np.abs(sums - np.floor(sums) - 0.5) > 1e-10
    for source in ("float32", "float64"):
        ours = faltung.sepFilter2D(image.astype(source), depth, line, line)
        np.testing.assert_array_equal(ours[is_clear], expected[is_clear])
    theirs = cv2.sepFilter2D(image, DEPTHS[depth], line, line)
    assert np.all(np.abs(ours.astype(np.int64) - theirs) <= 1)


@pytest.mark.parametrize("kind", ["uint8", "float32", "int16"])
def test_views(kind):
    whole = np.rint(8 * picture((50, 64, 3), kind)) if kind == "float32" else picture((50, 64, 3), kind)
    kernel = small_integers((3, 5), 1)
    views = {
        "rows with gaps": whole[:, 10:40],
        "every other row": whole[::2],
        "every other column": whole[:, ::2],
        "reversed rows": whole[::-1],
        "reversed columns": whole[:, ::-1],
        "one channel": whole[:, :, 1],
        "one row": whole[3:4, :, 0],
        "one column": whole[:, 5:6, 0],
        "transposed": whole.transpose(1, 0, 2),
        "Fortran": np.asfortranarray(whole),
        "other byte order": whole.astype(whole.dtype.newbyteorder()),
        "repeated rows": np.broadcast_to(whole[:1], whole.shape),
        "one axis more": whole[:, :, :1],
        "subclass": whole.view(np.matrix) if whole.ndim == 2 else whole[:, :, 0].view(np.recarray),
        "read-only": np.frombuffer(whole.tobytes(), kind).reshape(whole.shape),
    }
    if kind != "int16":
        views["unaligned"] = np.frombuffer(b"x" + whole.tobytes(), kind, whole.size, 1).reshape(whole.shape)
    for name, view in views.items():
        expected = cv2.filter2D(np.array(view, kind, order="C"), -1, kernel)
        np.testing.assert_array_equal(faltung.filter2D(view, -1, kernel), expected, err_msg=name)


def test_other_objects():
    rows = [[0, 4], [8, 12]]
    image = np.array(rows, np.uint8)
    expected = faltung.blur(image, (2, 2))
    np.testing.assert_array_equal(faltung.blur(memoryview(image), (2, 2)), expected)
    flat = memoryview(array.array("B", [0, 4, 8, 12])).cast("B", (2, 2))
    np.testing.assert_array_equal(faltung.blur(flat, (2, 2)), expected)
    np.testing.assert_array_equal(faltung.blur(image, np.array([2, 2])), expected)


def test_blur_with_a_window_larger_than_the_image():
    # With the border, the window covers the image many times.
    image = picture((100, 90), "float64")
    found = faltung.blur(image, (1501, 1601), borderType="reflect")
    np.testing.assert_allclose(found, cv2.blur(image, (1501, 1601), borderType=cv2.BORDER_REFLECT), atol=1e-9)


@pytest.mark.parametrize("kind", ["uint8", "float32", "int16"])
def test_dst(kind):
    image = picture((20, 30), kind)
    expected = faltung.blur(image, (3, 3))
    room = np.zeros((20, 30), kind)
    assert faltung.blur(image, (3, 3), room) is room
    np.testing.assert_array_equal(room, expected)
    for part in (np.s_[:, 4:34], np.s_[:, 63:33:-1]):
        wide = np.zeros((20, 64), kind)
        faltung.blur(image, (3, 3), dst=wide[part])
        np.testing.assert_array_equal(wide[part], expected)
        assert np.count_nonzero(wide) == np.count_nonzero(expected)
    own = image.copy()
    assert faltung.blur(own, (3, 3), dst=own) is own
    np.testing.assert_array_equal(own, expected)
    both = np.zeros((21, 30), kind)
    both[:-1] = image
    faltung.blur(both[:-1], (3, 3), dst=both[1:])
    np.testing.assert_array_equal(both[1:], expected)
    deep = np.zeros((20, 30, 1), kind)
    assert faltung.blur(image, (3, 3), dst=deep) is deep
    np.testing.assert_array_equal(deep[:, :, 0], expected)


IMAGE = np.zeros((6, 7), np.uint8)
KERNEL = np.ones((3, 3))
BAD = {
    "an image of int64": (TypeError, "src: .*uint8.*not of int64", lambda: faltung.blur(IMAGE.astype("i8"), (3, 3))),
    "an image of objects": (TypeError, "src: .*object", lambda: faltung.blur(IMAGE.astype("O"), (3, 3))),
    "one axis": (ValueError, r"src: .*not \(7,\)", lambda: faltung.blur(IMAGE[0], (3, 3))),
    "four axes": (ValueError, "src: ", lambda: faltung.blur(IMAGE[None, None], (3, 3))),
    "no rows": (ValueError, "src: at least 1 pixel", lambda: faltung.blur(IMAGE[:0], (3, 3))),
    "no channels": (ValueError, "src: at least 1 pixel", lambda: faltung.blur(np.zeros((3, 3, 0), "u1"), (3, 3))),
    "depth": (ValueError, "ddepth: .*not int32", lambda: faltung.filter2D(IMAGE, 4, KERNEL)),
    "depth of a narrower type": (
        ValueError,
        "ddepth: an image of float32 gives float32, not uint8",
        lambda: faltung.filter2D(IMAGE.astype("f4"), 0, KERNEL),
    ),
    "unknown depth": (ValueError, "ddepth: .*, not 7", lambda: faltung.filter2D(IMAGE, 7, KERNEL)),
    "unknown depth of float64": (ValueError, "ddepth: .*, not 99", lambda: faltung.filter2D(IMAGE.astype(float), 99, KERNEL)),
    "depth of an unknown name": (TypeError, "ddepth: .*'foo'", lambda: faltung.filter2D(IMAGE, "foo", KERNEL)),
    "huge window": (ValueError, "ksize: at most", lambda: faltung.GaussianBlur(IMAGE, (2**63 - 1, 3), 1)),
    "huge window of a mean": (ValueError, "ksize: at most", lambda: faltung.blur(IMAGE, (3, 2**40))),
    "huge window of a sigma": (ValueError, "ksize: .*1e\\+300", lambda: faltung.GaussianBlur(IMAGE, (0, 0), 1e300)),
    "huge sigma": (ValueError, "ksize: .*columns", lambda: faltung.GaussianBlur(IMAGE, (0, 3), 1.7e308)),
    "huge sigmaY": (ValueError, "ksize: .*rows", lambda: faltung.GaussianBlur(IMAGE, (3, 0), 1, sigmaY=1e30)),
    "depth that is no number": (TypeError, "ddepth: a type of NumPy", lambda: faltung.filter2D(IMAGE, None, KERNEL)),
    "picture that could not be read": (TypeError, "src: .*not NoneType", lambda: faltung.blur(None, (3, 3))),
    "delta beyond float32": (ValueError, "delta: ", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta=1e39)),
    "kernel of text": (TypeError, "kernel: real numbers", lambda: faltung.filter2D(IMAGE, -1, [["a"]])),
    "complex kernel": (TypeError, "kernel: real numbers", lambda: faltung.filter2D(IMAGE, -1, KERNEL * 1j)),
    "empty kernel": (ValueError, r"kernel: .*\(0, 3\)", lambda: faltung.filter2D(IMAGE, -1, KERNEL[:0])),
    "kernel of 3 axes": (ValueError, "kernel: ", lambda: faltung.filter2D(IMAGE, -1, KERNEL[None])),
    "square kernelX": (ValueError, r"kernelX: .*\(3, 3\)", lambda: faltung.sepFilter2D(IMAGE, -1, KERNEL, [1])),
    "empty kernelY": (ValueError, "kernelY: ", lambda: faltung.sepFilter2D(IMAGE, -1, [1], [])),
    "anchor": (ValueError, r"anchor: .*\(3, 0\)", lambda: faltung.filter2D(IMAGE, -1, KERNEL, anchor=(3, 0))),
    "negative anchor": (ValueError, "anchor: ", lambda: faltung.filter2D(IMAGE, -1, KERNEL, anchor=(0, -2))),
    "anchor of 3": (TypeError, "anchor: ", lambda: faltung.filter2D(IMAGE, -1, KERNEL, anchor=(0, 0, 0))),
    "delta NaN": (ValueError, "delta: .*nan", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta=float("nan"))),
    "delta of text": (TypeError, "delta: ", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta="one")),
    "border": (ValueError, "borderType: .*'mirror'", lambda: faltung.blur(IMAGE, (3, 3), borderType="mirror")),
    "transparent": (ValueError, "borderType: .*5", lambda: faltung.blur(IMAGE, (3, 3), borderType=5)),
    "border of float": (TypeError, "borderType: ", lambda: faltung.blur(IMAGE, (3, 3), borderType=1.0)),
    "accuracy": (ValueError, "accuracy: .*'good'", lambda: faltung.blur(IMAGE, (3, 3), accuracy="good")),
    "even Gaussian": (ValueError, "ksize: an odd number of columns", lambda: faltung.GaussianBlur(IMAGE, (4, 3), 1)),
    "no Gaussian": (ValueError, "ksize: ", lambda: faltung.GaussianBlur(IMAGE, (0, 0), 0)),
    "sigma NaN": (ValueError, "sigmaX: ", lambda: faltung.GaussianBlur(IMAGE, (3, 3), float("nan"))),
    "sigma infinite": (ValueError, "sigmaY: ", lambda: faltung.GaussianBlur(IMAGE, (3, 3), 1, sigmaY=float("inf"))),
    "size 0": (ValueError, r"ksize: .*\(3, 0\)", lambda: faltung.blur(IMAGE, (3, 0))),
    "one size": (TypeError, "ksize: ", lambda: faltung.blur(IMAGE, 3)),
    "sizes of float": (TypeError, "ksize: ", lambda: faltung.blur(IMAGE, (3.0, 3.0))),
    "list for the result": (TypeError, "dst: ", lambda: faltung.blur(IMAGE, (3, 3), [[0]])),
    "result whose rows are one row": (
        ValueError,
        "dst: .*overlap",
        lambda: faltung.blur(IMAGE, (3, 3), np.lib.stride_tricks.as_strided(IMAGE.copy(), IMAGE.shape, (0, 1))),
    ),
    "result of another type": (ValueError, "dst: .*uint8", lambda: faltung.blur(IMAGE, (3, 3), IMAGE.astype("f4"))),
    "result of another shape": (
        ValueError,
        r"dst: .*\(5, 7\)",
        lambda: faltung.blur(IMAGE, (3, 3), np.zeros((5, 7), "u1")),
    ),
    "huge delta": (ValueError, "delta: a finite", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta=10**400)),
    "huger delta": (ValueError, "delta: a finite", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta=10**5000)),
    "delta as text": (TypeError, "delta: a number .*not '1'", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta="1")),
    "delta as bytes": (TypeError, "delta: a number .*not b'1'", lambda: faltung.filter2D(IMAGE, -1, KERNEL, delta=b"1")),
    "sigma as text": (TypeError, "sigmaX: a number .*not '1'", lambda: faltung.GaussianBlur(IMAGE, (3, 3), "1")),
    "sizes in a set": (TypeError, r"ksize: a pair .*not \{3, 5\}", lambda: faltung.blur(IMAGE, {3, 5})),
    "sizes in a dict": (TypeError, r"ksize: a pair .*not \{3: 1", lambda: faltung.GaussianBlur(IMAGE, {3: 1, 5: 1}, 1)),
    "hint": (TypeError, "hint: an integer .*not 'foo'", lambda: faltung.GaussianBlur(IMAGE, (3, 3), 1, hint="foo")),
    "ragged kernel": (ValueError, "kernel: an array of numbers", lambda: faltung.filter2D(IMAGE, -1, [[1, 2], [3]])),
    "ragged kernelX": (ValueError, "kernelX: ", lambda: faltung.sepFilter2D(IMAGE, -1, [[1, 2], [3]], [1])),
    "ragged image": (ValueError, "src: an array of numbers", lambda: faltung.blur([[1, 2], [3]], (3, 3))),
    "read-only result": (
        ValueError,
        "dst: .*read-only",
        lambda: faltung.blur(IMAGE, (3, 3), np.broadcast_to(np.uint8(0), (6, 7))),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    kind, text, call = BAD[case]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("anchor", [(-1, -1), (1, 0), (-1, 2)])
def test_types_of_anchors(anchor):
    image, kernel = picture((9, 9), "uint8"), small_integers((3, 5), 1)
    expected = faltung.filter2D(image, -1, kernel, anchor=anchor)
    for same in (list(anchor), np.array(anchor), np.array(anchor, np.int8)):
        np.testing.assert_array_equal(faltung.filter2D(image, -1, kernel, anchor=same), expected)
    np.testing.assert_array_equal(faltung.filter2D(image, -1, kernel, anchor=None), cv2.filter2D(image, -1, kernel))


@pytest.mark.parametrize("kind", FILTERED)
def test_a_negative_depth_is_that_of_the_image(kind):
    image, line = picture((9, 9), kind), np.ones(3)
    for depth in (-1, -2, -100):
        assert faltung.filter2D(image, depth, KERNEL).dtype == cv2.filter2D(image, depth, KERNEL).dtype == kind
        assert faltung.sepFilter2D(image, depth, line, line).dtype == cv2.sepFilter2D(image, depth, line, line).dtype


def test_names_and_numbers_of_borders():
    image = picture((9, 9), "uint8")
    for name, number in BORDERS.items():
        expected = faltung.blur(image, (5, 5), borderType=name)
        for same in (number, number | cv2.BORDER_ISOLATED, name.upper(), f"BORDER_{name}", np.int32(number)):
            np.testing.assert_array_equal(faltung.blur(image, (5, 5), borderType=same), expected)
    np.testing.assert_array_equal(faltung.blur(image, (5, 5)), faltung.blur(image, (5, 5), borderType="reflect_101"))


def test_numbers_that_are_not_finite():
    image = np.array([[0, np.nan, 1, 2, np.inf, 3, 4, 5]], np.float32)
    for result in (image, image.astype(np.float64)):
        blurred = faltung.filter2D(result, -1, [[1, 1, 1]], borderType="constant")
        np.testing.assert_array_equal(blurred, [[np.nan, np.nan, np.nan, np.inf, np.inf, np.inf, 12, 9]])


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_mean_of_nan_is_nan(kind):
    image = picture((90, 80), kind)
    expected = faltung.blur(image, (41, 33))
    image[45, 30] = np.nan
    blurred = faltung.blur(image, (41, 33))
    windows = np.zeros(image.shape, bool)
    windows[45 - 16 : 45 + 17, 30 - 20 : 30 + 21] = True
    np.testing.assert_array_equal(np.isnan(blurred), windows)
    np.testing.assert_array_equal(blurred[~windows], expected[~windows])


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int16", "int32", "float32", "float64"])
def test_means_of_many_channels(kind):
    image = picture((70, 60, 7), kind)
    for size, anchor in (((3, 5), (-1, -1)), ((40, 90), (0, 80))):
        for border in (cv2.BORDER_REFLECT_101, cv2.BORDER_CONSTANT):
            found = faltung.blur(image[::-1, ::2], size, anchor=anchor, borderType=border)
            # OpenCV's means of small windows of bytes are rounded half up.
            exact = cv2.boxFilter(image[::-1, ::2].astype(np.float64), -1, size, anchor=anchor, borderType=border)
            expected = np.rint(exact).astype(kind) if np.dtype(kind).kind in "iu" else exact
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_threads():
    images = [picture((300, 200 + number), "uint8", number) for number in range(6)]
    expected = [cv2.filter2D(image, -1, KERNEL / 16) for image in images]
    failed = []

    def work(number):
        for _ in range(30):
            if not np.array_equal(faltung.filter2D(images[number], -1, KERNEL / 16), expected[number]):
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32"])
def test_each_of_many_channels_is_filtered_alone(kind):
    wide = picture((11, 303, 70), kind)
    mask = np.random.default_rng(1).standard_normal((4, 3)) / 8
    for image in (wide, wide[:, 1:301], wide[:, :5, :9]):
        for result in ("float32", kind):
            found = faltung.filter2D(image, result, mask, accuracy="exact")
            for channel in (0, 3, 4, 8, 15, 16, 31, 63, 64, 69):
                if channel < image.shape[2]:
                    alone = faltung.filter2D(image[:, :, channel], result, mask, accuracy="exact")
                    np.testing.assert_array_equal(found[:, :, channel], alone, err_msg=f"{image.shape}, {channel}")
