from collections.abc import Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex

from numpy.typing import ArrayLike

# A `dask.array.Array` or a `zarr.Array`. Their stubs are not required.
_Image = Any
# A `dask.array.Array`.
_Array = Any
_Accuracy = Literal["exact", "bounded", "normwise"]
_Mode = Literal[
    "reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"
]
_Modes = _Mode | Sequence[_Mode]
_Origins = SupportsIndex | Sequence[SupportsIndex]
_Axes = SupportsIndex | Sequence[SupportsIndex] | None
_Numbers = SupportsFloat | Sequence[SupportsFloat]
_Sizes = SupportsIndex | Sequence[SupportsIndex]
_Radii = SupportsIndex | Sequence[SupportsIndex | None] | None

def convolve(
    image: _Image,
    weights: ArrayLike,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: _Origins = 0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def correlate(
    image: _Image,
    weights: ArrayLike,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: _Origins = 0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def gaussian(
    image: _Image,
    sigma: _Numbers,
    order: _Sizes = 0,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    **options: Any,
) -> _Array: ...
def gaussian_filter(
    image: _Image,
    sigma: _Numbers,
    order: _Sizes = 0,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: _Radii = None,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def gaussian_gradient_magnitude(
    image: _Image,
    sigma: _Numbers,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: _Radii = None,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def gaussian_laplace(
    image: _Image,
    sigma: _Numbers,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: _Radii = None,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def laplace(
    image: _Image,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def prewitt(
    image: _Image,
    axis: SupportsIndex = -1,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def sobel(
    image: _Image,
    axis: SupportsIndex = -1,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
def uniform_filter(
    image: _Image,
    size: _Numbers = 3,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    origin: _Origins = 0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = "exact",
) -> _Array: ...
