"""The arguments of OpenCV's functions: their types, their numbers and names, and what they stand for."""

import math
import operator
from functools import lru_cache

import numpy as np

from faltung import _on_device

# OpenCV's numbers of depths.
DEPTHS = {0: np.uint8, 2: np.uint16, 3: np.int16, 4: np.int32, 5: np.float32, 6: np.float64}
DEPTHS = {number: np.dtype(kind) for number, kind in DEPTHS.items()}
U8, U16, I16, I32, F32, F64 = DEPTHS.values()

# OpenCV's number of a border, and the library's name.
_BORDERS = {0: "zero", 1: "clamp", 2: "reflect", 3: "wrap", 4: "mirror"}
_BORDER_NAMES = {
    "constant": 0,
    "replicate": 1,
    "reflect": 2,
    "wrap": 3,
    "reflect101": 4,
    "reflect_101": 4,
    "default": 4,
}
_ISOLATED = 16

# More columns or rows than any window has.
_MOST_SIZE = 1 << 30

# Gaussians of these sizes have fixed coefficients where no sigma is given.
_SMALL_GAUSSIANS = {
    1: (1,),
    3: (64, 128),
    5: (16, 64, 96),
    7: (8, 28, 56, 72),
    9: (4, 13, 30, 51, 60),
}


def image(src):
    """The image as an array in native byte order; one of NumPy without an axis of one channel."""
    image = src
    if type(src) is not np.ndarray:
        image = _on_device.wrap(src)
        if image is None:
            image = _array("src", src)
            if image.ndim == 0 and image.dtype.kind not in "buifc":
                # Such as None, which `cv2.imread` returns for a file that is not there.
                raise TypeError(f"src: an array is required, not {type(src).__name__}")
    if image.ndim not in (2, 3):
        raise ValueError(f"src: the shape (rows, columns) or (rows, columns, channels) is required, not {image.shape}")
    if 0 in image.shape:
        raise ValueError(f"src: at least 1 pixel is required, the shape is {image.shape}")
    if type(image) is np.ndarray:
        image = without_single_channel(image)
        if not image.dtype.isnative:
            image = image.astype(image.dtype.newbyteorder("="))
    return image


def _array(name, value):
    try:
        return np.asarray(value)
    except ValueError as error:
        found = type(value).__name__
        raise ValueError(f"{name}: an array of numbers is required, not this {found}: {error}") from None


def without_single_channel(image):
    return image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image


def depth(ddepth, source, results):
    """The type of the result."""
    possible = results.get(source)
    if possible is None:
        raise TypeError(f"src: an image of {names(results)} is required, not of {source}")
    try:
        if isinstance(ddepth, (str, type, np.dtype)):
            kind = np.dtype(ddepth)
        else:
            number = operator.index(ddepth)
            kind = source if number < 0 else DEPTHS.get(number)
    except TypeError:
        raise TypeError(f"ddepth: a type of NumPy or a number of OpenCV is required, not {ddepth!r}") from None
    # NumPy takes None for float64.
    if kind is None or kind not in possible:
        found = ddepth if kind is None else kind
        raise ValueError(f"ddepth: an image of {source} gives {names(possible)}, not {found}")
    return kind


def names(kinds):
    *most, last = (kind.name for kind in kinds)
    return f"{', '.join(most)} or {last}" if most else last


def index(name, value):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: an integer is required, not {value!r}") from None


def pair(name, value):
    try:
        if isinstance(value, (set, frozenset, dict)):
            raise TypeError("these have no order")
        first, second = value
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a pair of integers is required, not {value!r}") from None
    return index(name, first), index(name, second)


def size(ksize):
    """Columns and rows of a window."""
    columns, rows = pair("ksize", ksize)
    if max(columns, rows) > _MOST_SIZE:
        raise ValueError(f"ksize: at most {_MOST_SIZE} columns and rows are required, not {(columns, rows)}")
    return columns, rows


def number(name, value):
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError("text")
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name}: a finite number is required, not an integer beyond float64") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a number is required, not {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name}: a finite number is required, not {number}")
    return number


def coefficients(name, kernel):
    mask = _array(name, kernel)
    if mask.dtype.kind not in "buif":
        raise TypeError(f"{name}: real numbers are required, not {mask.dtype}")
    return mask.astype(np.float64, copy=False)


def line(name, kernel):
    line = coefficients(name, kernel)
    if line.size == 0 or line.ndim not in (1, 2) or max(line.shape) != line.size:
        raise ValueError(f"{name}: the shape (n,), (n, 1) or (1, n) is required, not {line.shape}")
    return line.ravel()


@lru_cache(maxsize=64)
def ones(size):
    return np.ones(size).tobytes()


def gaussian_size(name, size, sigma, kind):
    if size <= 0 and sigma > 0:
        size = sigma * (3 if kind == U8 else 4) * 2 + 1
        if size > _MOST_SIZE:
            raise ValueError(f"ksize: at most {_MOST_SIZE} {name} are required, and a sigma of {sigma} takes more")
        size = round(size) | 1
    if size <= 0 or size % 2 == 0:
        raise ValueError(f"ksize: an odd number of {name} is required, or 0 with a sigma above 0, not {size}")
    return size


@lru_cache(maxsize=64)
def gaussian(size, sigma):
    """The coefficients of a normalised Gaussian, as bytes."""
    if sigma <= 0 and size in _SMALL_GAUSSIANS:
        half = _SMALL_GAUSSIANS[size]
        values = np.array(half + half[-2::-1], np.float64)
    else:
        sigma = sigma if sigma > 0 else ((size - 1) * 0.5 - 1) * 0.3 + 0.8
        values = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / sigma) ** 2)
    return (values / values.sum()).tobytes()


def border(border):
    """The library's name of a border."""
    if isinstance(border, str):
        number = _BORDER_NAMES.get(border.lower().removeprefix("border_"))
    else:
        number = index("borderType", border) & ~_ISOLATED
    name = _BORDERS.get(number)
    if name is None:
        required = "a number of OpenCV's from 0 to 4, or constant, replicate, reflect, reflect101 or wrap,"
        raise ValueError(f"borderType: {required} is required, not {border!r}")
    return name


def anchor(anchor, mask):
    """Row and column of the mask that stand over the output pixel."""
    x, y = (-1, -1) if anchor is None else pair("anchor", anchor)
    rows, columns = mask
    place = (rows // 2 if y == -1 else y, columns // 2 if x == -1 else x)
    if not (0 <= place[0] < rows and 0 <= place[1] < columns):
        size = f"{columns} columns and {rows} rows"
        raise ValueError(f"anchor: column and row within the {size} of the kernel are required, or -1, not {(x, y)}")
    return place
