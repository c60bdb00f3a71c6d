from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from faltung import ndimage as ndimage

__version__: str

# An array of any library: the result is of the library of the image.
_Array = Any
_Accuracy = Literal["exact", "bounded", "normwise"]
_Pair = tuple[SupportsIndex, SupportsIndex] | Sequence[SupportsIndex]
_Depth = SupportsIndex | str | type[np.generic] | type[float] | np.dtype[Any]

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
def install(accuracy: _Accuracy | None = None) -> list[str]: ...
def uninstall() -> None: ...
def installed(accuracy: _Accuracy | None = None) -> AbstractContextManager[list[str]]: ...
def filter2D(
    src: _Array,
    ddepth: _Depth,
    kernel: ArrayLike,
    dst: _Array | None = None,
    anchor: _Pair | None = (-1, -1),
    delta: SupportsFloat = 0,
    borderType: SupportsIndex | str = 4,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def sepFilter2D(
    src: _Array,
    ddepth: _Depth,
    kernelX: ArrayLike,
    kernelY: ArrayLike,
    dst: _Array | None = None,
    anchor: _Pair | None = (-1, -1),
    delta: SupportsFloat = 0,
    borderType: SupportsIndex | str = 4,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def GaussianBlur(
    src: _Array,
    ksize: _Pair,
    sigmaX: SupportsFloat,
    dst: _Array | None = None,
    sigmaY: SupportsFloat = 0,
    borderType: SupportsIndex | str = 4,
    hint: int = 0,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
def blur(
    src: _Array,
    ksize: _Pair,
    dst: _Array | None = None,
    anchor: _Pair | None = (-1, -1),
    borderType: SupportsIndex | str = 4,
    *,
    accuracy: _Accuracy | None = None,
) -> _Array: ...
