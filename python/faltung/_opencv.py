"""``filter2D``, ``sepFilter2D``, ``GaussianBlur`` and ``blur`` with the arguments and the rounding of OpenCV.

Images are arrays of NumPy, or device arrays. Inside this module a device array is an `OnDevice`.
"""

import numpy as np

from faltung import _native, _on_device
from faltung import _opencv_arguments as arguments
from faltung._arguments import ACCURACIES, fits_f32
from faltung._dispatch import assign
from faltung._memory import empty
from faltung._on_device import OnDevice
from faltung._opencv_arguments import F32, F64, I16, I32, U8, U16

# What the library computes, in and out.
_NATIVE = (U8, U16, F32)

# The results that OpenCV computes from images of a type.
_FILTER_RESULTS = {
    U8: (U8, U16, I16, F32, F64),
    U16: (U16, F32, F64),
    I16: (I16, F32, F64),
    F32: (F32,),
    F64: (F64,),
}
_SEPARABLE_RESULTS = {
    U8: (U8, U16, I16, F32, F64),
    U16: (U8, U16, I16, F32, F64),
    I16: (U8, U16, I16, F32, F64),
    F32: (U8, U16, I16, F32, F64),
    F64: (U8, U16, I16, F64),
}
_GAUSSIAN_RESULTS = {kind: (kind,) for kind in (U8, U16, I16, F32, F64)}
_BLUR_RESULTS = {kind: (kind,) for kind in (U8, U16, I16, I32, F32, F64)}

# A mask of more coefficients is computed in two passes.
_MOST_COEFFICIENTS = 1 << 22

# Sums of float32 leave more results near a half, which are computed again, the larger the mask. Above this number of
# coefficients, sums of float64 take less time.
_MOST_RECOMPUTED = 1 << 13

# From this number of coefficients on, both passes of a separable mask with sums of float64 take less time than all
# products of float32.
_MOST_DENSE = 80

# Up to this number of pixels in a window, means of bytes have sums of float32. These are exact.
_MOST_BYTES = (1 << 24) // 255

# Up to this sum of both sides of a window, means of float32 have sums of float32, which take less time.
_MOST_SIDES = 100


def filter2D(src, ddepth, kernel, dst=None, anchor=(-1, -1), delta=0, borderType=4, *, accuracy=None):
    """Correlate an image with a mask, as ``cv2.filter2D`` does.

    ``dst[y, x] = sum(kernel[i, j] * src[y + i - anchor_y, x + j - anchor_x]) + delta`` for each channel. Integer
    results are rounded, half to even, and saturate.

    Parameters
    ----------
    src : array of shape (rows, columns) or (rows, columns, channels)
        An image of uint8, uint16, int16, float32 or float64. A device array, such as CuPy's or PyTorch's, is filtered
        on its device. There, image and result are of uint8, uint16 or float32.
    ddepth : int, dtype or str
        The type of the result: OpenCV's number (``cv2.CV_32F`` is 5) or a NumPy type. Negative numbers such as -1 are
        the type of `src`. An image of uint8 gives any type listed for `src`. Images of uint16 and int16 give their own
        type, float32 or float64. Images of float32 and float64 give their own type only. This is as in OpenCV for
        kernels of fewer than 50 coefficients. For larger kernels OpenCV gives more types.
    kernel : array of shape (rows, columns) or (columns,)
        The coefficients. They are rounded to float32, unless the image or the result is int16 or float64.
    dst : array, optional
        The array for the result. It has the shape of `src` and the type of `ddepth`. It may be `src`. For a device
        array it is on the same device.
    anchor : (int, int)
        Column and row of the kernel that stand over the output pixel. -1 is the middle, ``size // 2``.
    delta : float
        The number that is added to each sum.
    borderType : int or str
        OpenCV's number, or one of "constant" (zeros), "replicate", "reflect", "reflect101" and "wrap". A name may have
        OpenCV's form, such as "BORDER_REFLECT_101". The bit ``cv2.BORDER_ISOLATED`` changes nothing, because an array
        has no surroundings. OpenCV refuses "wrap" in most cases. Here it is always possible.
    accuracy : "exact", "bounded" or "normwise", optional
        How accurate results must be: "bounded" by default. Integer results are the same with "exact" and "bounded".
        With "normwise", large masks are faster. An integer is then a sum within the error bound of that class, rounded.

    Returns
    -------
    array of shape (rows, columns) or (rows, columns, channels)
        `dst` if it was given. As in OpenCV, the result for a shape of (rows, columns, 1) is (rows, columns). For a
        device array it is a new array of the same library. The work is enqueued on that library's current stream, and
        not waited for.

    Raises
    ------
    TypeError
        An argument has a type that is not possible, such as an image of int64.
    ValueError
        An argument has a value that is not possible: an empty image, a kernel without coefficients, an anchor outside
        of the kernel, a `dst` of another shape or type. OpenCV would leave such a `dst` alone.

    Examples
    --------
    >>> import faltung, numpy as np
    >>> image = np.array([[0, 0, 8, 8]], np.uint8)
    >>> faltung.filter2D(image, -1, np.array([[0.25, 0.5, 0.25]]))
    array([[0, 2, 6, 8]], dtype=uint8)
    >>> faltung.filter2D(image, "float32", [[-1, 0, 1]], borderType="replicate")
    array([[0., 8., 8., 0.]], dtype=float32)
    """
    image = arguments.image(src)
    kind = arguments.depth(ddepth, image.dtype, _FILTER_RESULTS)
    mask = arguments.coefficients("kernel", kernel)
    if mask.ndim == 1:
        mask = mask[None]
    if mask.ndim != 2 or mask.size == 0:
        raise ValueError(f"kernel: at least 1 x 1 coefficients in 1 or 2 dimensions are required, not {mask.shape}")
    return _correlate(image, kind, mask.tobytes(), None, mask.shape, dst, anchor, 1.0, delta, borderType, accuracy)


def sepFilter2D(
    src, ddepth, kernelX, kernelY, dst=None, anchor=(-1, -1), delta=0, borderType=4, *, accuracy=None
):
    """Correlate an image with a row and a column, as ``cv2.sepFilter2D`` does.

    The kernel of `filter2D` is ``outer(kernelY, kernelX)``. If image and result are uint8, OpenCV rounds the
    coefficients of some kernels to multiples of 1/256. This function does not. So the results may differ by 1, and by
    more with large kernels.

    Parameters
    ----------
    src : array of shape (rows, columns) or (rows, columns, channels)
        An image of uint8, uint16, int16, float32 or float64.
    ddepth : int, dtype or str
        The type of the result, given as for `filter2D`: any of the types of `src`. As in OpenCV, an image of float64
        cannot give float32.
    kernelX, kernelY : array of shape (n,), (n, 1) or (1, n)
        The coefficients along a row, and those along a column.
    dst, anchor, delta, borderType, accuracy
        As for `filter2D`.

    Returns
    -------
    array
        As for `filter2D`.

    Raises
    ------
    TypeError, ValueError
        As for `filter2D`.

    Examples
    --------
    >>> import faltung, numpy as np
    >>> image = np.zeros((3, 4), np.float32)
    >>> image[1, 1] = 4
    >>> faltung.sepFilter2D(image, -1, [-1, 0, 1], [0.25, 0.5, 0.25], borderType="constant")
    array([[ 1.,  0., -1.,  0.],
           [ 2.,  0., -2.,  0.],
           [ 1.,  0., -1.,  0.]], dtype=float32)
    """
    image = arguments.image(src)
    kind = arguments.depth(ddepth, image.dtype, _SEPARABLE_RESULTS)
    row, column = arguments.line("kernelX", kernelX), arguments.line("kernelY", kernelY)
    shape = (column.size, row.size)
    return _correlate(
        image, kind, column.tobytes(), row.tobytes(), shape, dst, anchor, 1.0, delta, borderType, accuracy
    )


def GaussianBlur(src, ksize, sigmaX, dst=None, sigmaY=0, borderType=4, hint=0, *, accuracy=None):
    """Blur an image with a Gaussian, as ``cv2.GaussianBlur`` does.

    The coefficients are those of ``cv2.getGaussianKernel``. OpenCV rounds them for images of uint8 and uint16. This
    function does not: it computes the Gaussian's sum, and rounds it half to even. So the results may differ by 1 from
    OpenCV's. Differences of up to 10 were found where a window is small or large for its sigma.

    Parameters
    ----------
    src : array of shape (rows, columns) or (rows, columns, channels)
        An image of uint8, uint16, int16, float32 or float64.
    ksize : (int, int)
        Columns and rows of the window, both odd. 0 takes the size from sigma: 3 sigma to each side for uint8, 4 sigma
        for the other types. As in OpenCV, the size along an axis of one pixel is 1, unless the border is "constant".
    sigmaX : float
        The standard deviation along a row, in pixels. 0 takes it from `ksize`: ``0.3 * ((ksize - 1) * 0.5 - 1) + 0.8``.
        Sizes up to 9 have fixed coefficients instead.
    dst : array, optional
        As for `filter2D`.
    sigmaY : float
        The standard deviation along a column. 0 is `sigmaX`.
    borderType : int or str
        As for `filter2D`.
    hint : int
        Any integer, which changes nothing: there is one algorithm.
    accuracy : str, optional
        As for `filter2D`.

    Returns
    -------
    array
        Of the type of `src`; the shape is that of `filter2D`.

    Raises
    ------
    TypeError, ValueError
        As for `filter2D`; a size is even, or 0 where sigma is 0.

    Examples
    --------
    >>> import faltung, numpy as np
    >>> image = np.zeros((3, 3), np.uint8)
    >>> image[1, 1] = 160
    >>> faltung.GaussianBlur(image, (3, 3), 0, borderType="constant")
    array([[10, 20, 10],
           [20, 40, 20],
           [10, 20, 10]], dtype=uint8)
    """
    image = arguments.image(src)
    kind = arguments.depth(-1, image.dtype, _GAUSSIAN_RESULTS)
    arguments.index("hint", hint)
    columns, rows = arguments.size(ksize)
    sigma_x, sigma_y = arguments.number("sigmaX", sigmaX), arguments.number("sigmaY", sigmaY)
    if sigma_y <= 0:
        sigma_y = sigma_x
    if 1 in image.shape[:2] and arguments.border(borderType) != "zero":
        # As in OpenCV: a border repeats the one row or column, which is the result along that axis.
        rows = 1 if image.shape[0] == 1 else rows
        columns = 1 if image.shape[1] == 1 else columns
    columns = arguments.gaussian_size("columns", columns, sigma_x, kind)
    rows = arguments.gaussian_size("rows", rows, sigma_y, kind)
    column, row = arguments.gaussian(rows, max(sigma_y, 0.0)), arguments.gaussian(columns, max(sigma_x, 0.0))
    return _correlate(image, kind, column, row, (rows, columns), dst, (-1, -1), 1.0, 0.0, borderType, accuracy)


def blur(src, ksize, dst=None, anchor=(-1, -1), borderType=4, *, accuracy=None):
    """Take the mean of a window at each pixel, as ``cv2.blur`` does.

    Integer results are rounded, half to even. For images of uint8 and windows of at most 256 pixels, OpenCV rounds half
    up, and sometimes also a value near a half. So the results differ by at most 1, with one exception: OpenCV may give
    0 for a mean of 255.

    Parameters
    ----------
    src : array of shape (rows, columns) or (rows, columns, channels)
        An image of uint8, uint16, int16, int32, float32 or float64.
    ksize : (int, int)
        Columns and rows of the window.
    dst, anchor, borderType, accuracy
        As for `filter2D`. Pixels outside of the image, as `borderType` defines them, count in the mean.

    Returns
    -------
    array
        Of the type of `src`; the shape is that of `filter2D`.

    Raises
    ------
    TypeError, ValueError
        As for `filter2D`; a size is less than 1.

    Examples
    --------
    >>> import faltung, numpy as np
    >>> faltung.blur(np.array([[0, 3, 6, 9]], np.uint8), (3, 1))
    array([[2, 3, 6, 7]], dtype=uint8)
    """
    image = arguments.image(src)
    kind = arguments.depth(-1, image.dtype, _BLUR_RESULTS)
    columns, rows = arguments.size(ksize)
    if columns < 1 or rows < 1:
        raise ValueError(f"ksize: at least 1 column and 1 row are required, not {(columns, rows)}")
    column, row, shape = arguments.ones(rows), arguments.ones(columns), (rows, columns)
    scale = 1.0 / (rows * columns)
    return _correlate(image, kind, column, row, shape, dst, anchor, scale, 0.0, borderType, accuracy)


def _result(image, kind, dst):
    """The array for the result, and the array that is computed, which is apart from the image."""
    shape = _shape_of_result(image)
    is_on_device = type(image) is OnDevice
    if dst is None:
        result = image.empty(kind, shape) if is_on_device else empty(shape, kind)
        return result, result
    if is_on_device:
        dst = _on_device.wrap(dst)
        if dst is None:
            raise TypeError("dst: an array on the device of src is required")
    elif not isinstance(dst, np.ndarray):
        raise TypeError(f"dst: a NumPy array is required, not {type(dst).__name__}")
    if dst.dtype != kind:
        raise ValueError(f"dst: the type {kind} is required, not {dst.dtype}")
    if dst.ndim not in (2, 3) or _shape_of_result(dst) != shape:
        raise ValueError(f"dst: the shape {shape} of src is required, not {dst.shape}")
    # The library writes rows without gaps, to other memory than it reads.
    if is_on_device:
        is_direct = dst.has_dense_rows() and not dst.overlaps(image)
        return dst, dst if is_direct else image.empty(kind, dst.shape)
    if not dst.flags.writeable:
        raise ValueError("dst: a writable array is required, this one is read-only")
    values = arguments.without_single_channel(dst)
    is_direct = values.flags.c_contiguous and values.dtype.isnative and not np.may_share_memory(values, image)
    if not is_direct and _native.has_overlap(dst.itemsize, dst.shape, dst.strides):
        raise ValueError("dst: elements that do not overlap in memory are required")
    return dst, values if is_direct else empty(shape, kind)


def _shape_of_result(image):
    """The image's shape without an axis of one channel."""
    return image.shape[:2] if image.shape[2:] == (1,) else image.shape


def _empty_like(image, kind, channels=None):
    """A new array of the image's rows and columns, with as many channels or others."""
    shape = image.shape if channels is None else (*image.shape[:2], channels)
    return image.empty(kind, shape) if type(image) is OnDevice else empty(shape, kind)


def _correlate(image, kind, column, row, mask, dst, anchor, scale, delta, border, accuracy):
    """``sum * scale + delta``, for each channel alone."""
    place = arguments.anchor(anchor, mask)
    delta = arguments.number("delta", delta)
    border = arguments.border(border)
    if accuracy is None:
        accuracy = "bounded"
    elif accuracy not in ACCURACIES:
        raise ValueError(f"accuracy: {', '.join(ACCURACIES)} or None is required, not {accuracy!r}")
    is_on_device = type(image) is OnDevice
    if is_on_device and not (image.dtype in _NATIVE and kind in _NATIVE):
        required = f"on a device, images and results of {arguments.names(_NATIVE)}"
        raise TypeError(f"src: {required} are required, not {image.dtype} and {kind}")
    result, values = _result(image, kind, dst)
    is_mean = scale != 1.0
    if is_mean:
        takes_f32 = _means_take_f32(image, mask, accuracy)
    else:
        takes_f32 = _takes_f32(image, kind, mask, row is not None, accuracy)
    if is_on_device or takes_f32:
        if not fits_f32(delta):
            raise ValueError(f"delta: a number of float32 is required, because the sums are of float32, not {delta}")
        _compute_f32(image, values, (column, row, mask, place, scale, delta, border, accuracy))
    elif is_mean:
        _native.blur_array(image if _has_dense_rows(image) else image.copy(), values, mask, place, border)
    else:
        _native.correlate_array(image, values, column, row, mask, place, delta, border, accuracy)
    if result is not values:
        assign(arguments.without_single_channel(result) if values.ndim < result.ndim else result, values)
    return result.object if is_on_device else result


def _takes_f32(image, kind, mask, is_separable, accuracy):
    """Whether sums of float32 are accurate enough for the types and the mask, and take less time."""
    source = image.dtype
    if source not in _NATIVE or kind not in _NATIVE:
        return False
    if kind == F32 or not is_separable:
        return True
    if source == F32:
        # The library computes integers from float32 by all products of the mask.
        return mask[0] * mask[1] <= _MOST_DENSE
    if source == U16:
        # The library computes images of uint16 with integer results by all products of the mask.
        return False
    return accuracy == "normwise" or mask[0] * mask[1] <= _MOST_RECOMPUTED


def _means_take_f32(image, mask, accuracy):
    """Whether means are computed with sums of float32: as `filter2D` would, or because it takes less time."""
    if image.dtype == F32 and accuracy == "exact":
        return True
    if image.dtype == U8 and image.ndim == 3 and image.shape[2] > 4:
        # To cut such an image into parts takes more time than that saves.
        return False
    if image.dtype == U8:
        return mask[0] * mask[1] <= _MOST_BYTES
    return image.dtype == F32 and mask[0] + mask[1] <= _MOST_SIDES


def _compute_f32(image, values, problem):
    """Compute with sums of float32. On a device the library takes images of up to 4 channels."""
    if type(image) is OnDevice and image.ndim == 3 and image.shape[2] > 4:
        for first in range(0, image.shape[2], 4):
            channels = slice(first, first + 4)
            part = _empty_like(image, values.dtype, min(4, image.shape[2] - first))
            _compute_f32(image[:, :, channels], part, problem)
            assign(values[:, :, channels], part)
        return
    if not _has_dense_rows(image):
        image = image.copy()
    column, row, mask, place, scale, delta, border, accuracy = problem
    if row is not None and mask[0] * mask[1] > _MOST_COEFFICIENTS:
        lines = _empty_like(image, F32)
        _native_f32(image, lines, (row, None, (1, mask[1]), (0, place[1]), 1.0, 0.0, border, accuracy))
        _native_f32(lines, values, (column, None, (mask[0], 1), (place[0], 0), scale, delta, border, accuracy))
    else:
        _native_f32(image, values, problem)


def _native_f32(image, values, problem):
    if type(image) is OnDevice:
        _native.device_correlate_image(image.array, values.array, problem)
    else:
        _native.correlate_image(image, values, problem)


def _has_dense_rows(image):
    """Whether an image has gaps between its rows at most. The library takes such an image without a copy."""
    if type(image) is OnDevice:
        return image.has_dense_rows()
    item = image.itemsize
    inner = (item,) if image.ndim == 2 else (image.shape[2] * item, item)
    is_dense = image.strides[1:] == inner and image.strides[0] >= image.shape[1] * inner[0]
    return is_dense and image.strides[0] % item == 0 and image.flags.aligned
