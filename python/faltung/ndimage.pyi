from collections.abc import Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex

from numpy.typing import ArrayLike, DTypeLike

# An array of any library: the result is of the library of the input.
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
# The array for the result, or its type.
_Output = _Array | DTypeLike | None

def counts() -> dict[str, int]: ...
def correlate(
    input: _Array,
    weights: ArrayLike,
    output: _Output = None,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: _Origins = 0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def convolve(
    input: _Array,
    weights: ArrayLike,
    output: _Output = None,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: _Origins = 0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def correlate1d(
    input: _Array,
    weights: ArrayLike,
    axis: SupportsIndex = -1,
    output: _Output = None,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: SupportsIndex = 0,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def convolve1d(
    input: _Array,
    weights: ArrayLike,
    axis: SupportsIndex = -1,
    output: _Output = None,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: SupportsIndex = 0,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def gaussian_filter(
    input: _Array,
    sigma: _Numbers,
    order: _Sizes = 0,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: _Radii = None,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def gaussian_filter1d(
    input: _Array,
    sigma: SupportsFloat,
    axis: SupportsIndex = -1,
    order: SupportsIndex = 0,
    output: _Output = None,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: SupportsIndex | None = None,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def uniform_filter(
    input: _Array,
    size: _Numbers = 3,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    origin: _Origins = 0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def uniform_filter1d(
    input: _Array,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    output: _Output = None,
    mode: _Mode = "reflect",
    cval: complex = 0.0,
    origin: SupportsIndex = 0,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def sobel(
    input: _Array,
    axis: SupportsIndex = -1,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def prewitt(
    input: _Array,
    axis: SupportsIndex = -1,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def laplace(
    input: _Array,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def gaussian_laplace(
    input: _Array,
    sigma: _Numbers,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
    **kwargs: Any,
) -> _Array: ...
def gaussian_gradient_magnitude(
    input: _Array,
    sigma: _Numbers,
    output: _Output = None,
    mode: _Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: _Axes = None,
    accuracy: _Accuracy | None = None,
    **kwargs: Any,
) -> _Array: ...
