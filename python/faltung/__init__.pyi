from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from faltung import ndimage as ndimage

__version__: str

# An array of any library: the result is of the library of the image.
Array = Any
Accuracy = Literal["exact", "bounded", "normwise"]
Pair = tuple[SupportsIndex, SupportsIndex] | Sequence[SupportsIndex]

class Device:
    def __init__(self, name: str) -> None: ...
    @property
    def kind(self) -> Literal["cpu", "cuda"]: ...
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def compute_capability(self) -> tuple[int, int] | None: ...

class DeviceArray:
    @property
    def device(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def pointer(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def library(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

def describe_cpu() -> str: ...
def devices() -> list[Device]: ...
def info() -> dict[str, Any]: ...
def install(accuracy: Accuracy | None = None) -> list[str]: ...
def uninstall() -> None: ...
def installed(accuracy: Accuracy | None = None) -> AbstractContextManager[list[str]]: ...
def filter2D(
    src: Array,
    ddepth: SupportsIndex | str | type[np.generic] | np.dtype[Any],
    kernel: ArrayLike,
    dst: Array | None = None,
    anchor: Pair = (-1, -1),
    delta: SupportsFloat = 0,
    borderType: SupportsIndex | str = 4,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def sepFilter2D(
    src: Array,
    ddepth: SupportsIndex | str | type[np.generic] | np.dtype[Any],
    kernelX: ArrayLike,
    kernelY: ArrayLike,
    dst: Array | None = None,
    anchor: Pair = (-1, -1),
    delta: SupportsFloat = 0,
    borderType: SupportsIndex | str = 4,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def GaussianBlur(
    src: Array,
    ksize: Pair,
    sigmaX: SupportsFloat,
    dst: Array | None = None,
    sigmaY: SupportsFloat = 0,
    borderType: SupportsIndex | str = 4,
    hint: int = 0,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
def blur(
    src: Array,
    ksize: Pair,
    dst: Array | None = None,
    anchor: Pair = (-1, -1),
    borderType: SupportsIndex | str = 4,
    *,
    accuracy: Accuracy | None = None,
) -> Array: ...
