from collections.abc import Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex

from numpy.typing import ArrayLike, DTypeLike

# An array of any library: the result is of the library of the input.
Array = Any
Accuracy = Literal["exact", "bounded", "normwise"]
Mode = Literal[
    "reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"
]
Modes = Mode | Sequence[Mode]
Origins = SupportsIndex | Sequence[SupportsIndex]
Axes = SupportsIndex | Sequence[SupportsIndex] | None
Numbers = SupportsFloat | Sequence[SupportsFloat]
Sizes = SupportsIndex | Sequence[SupportsIndex]
# The array for the result, or its type.
Output = Array | DTypeLike | None

def counts() -> dict[str, int]: ...
def correlate(
    input: Array,
    weights: ArrayLike,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
) -> Array: ...
def convolve(
    input: Array,
    weights: ArrayLike,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
) -> Array: ...
def correlate1d(
    input: Array,
    weights: ArrayLike,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: Mode = "reflect",
    cval: complex = 0.0,
    origin: SupportsIndex = 0,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def convolve1d(
    input: Array,
    weights: ArrayLike,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: Mode = "reflect",
    cval: complex = 0.0,
    origin: SupportsIndex = 0,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def gaussian_filter(
    input: Array,
    sigma: Numbers,
    order: Sizes = 0,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: Sizes | None = None,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
) -> Array: ...
def gaussian_filter1d(
    input: Array,
    sigma: SupportsFloat,
    axis: SupportsIndex = -1,
    order: SupportsIndex = 0,
    output: Output = None,
    mode: Mode = "reflect",
    cval: complex = 0.0,
    truncate: SupportsFloat = 4.0,
    *,
    radius: SupportsIndex | None = None,
    accuracy: Accuracy | None = None,
) -> Array: ...
def uniform_filter(
    input: Array,
    size: Sizes = 3,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
) -> Array: ...
def uniform_filter1d(
    input: Array,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: Mode = "reflect",
    cval: complex = 0.0,
    origin: SupportsIndex = 0,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def sobel(
    input: Array,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def prewitt(
    input: Array,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def laplace(
    input: Array,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
) -> Array: ...
def gaussian_laplace(
    input: Array,
    sigma: Numbers,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
    **kwargs: Any,
) -> Array: ...
def gaussian_gradient_magnitude(
    input: Array,
    sigma: Numbers,
    output: Output = None,
    mode: Modes = "reflect",
    cval: complex = 0.0,
    *,
    axes: Axes = None,
    accuracy: Accuracy | None = None,
    **kwargs: Any,
) -> Array: ...
