"""Arrays of other libraries on CUDA devices, as the filters handle them."""

import numpy as np

from faltung import _device, _native


class OnDevice:
    """An array of CuPy, PyTorch, Numba or another library: the object, and its description for the kernels."""

    __slots__ = ("array", "dtype", "ndim", "object", "shape")

    def __init__(self, object, array):
        self.object = object
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape
        self.ndim = len(array.shape)

    def empty(self, dtype, shape=None):
        """A new array of the same library, and of the same shape or another."""
        object = _device.empty(self.array, self.shape if shape is None else shape, dtype)
        return OnDevice(object, _device.wrap(object))

    def __getitem__(self, index):
        """A view. Arrays of the module have none."""
        view = self.object[index]
        return OnDevice(view, _device.wrap(view))

    def copy(self):
        """A copy without gaps."""
        copy = self.empty(self.dtype)
        copy.assign(self)
        return copy

    def has_dense_rows(self):
        """Whether an image of 2 axes, or of 3 with the channels last, has gaps between its rows at most."""
        rows, columns, channels = (*self.shape, 1)[:3]
        item, strides = self.dtype.itemsize, self.array.strides
        pixel = channels * item
        # The stride of an axis of length 1 means nothing.
        return (
            (channels == 1 or strides[2] == item)
            and (columns == 1 or strides[1] == pixel)
            and (rows == 1 or strides[0] >= columns * pixel)
        )

    def overlaps(self, other):
        """Whether both may have a byte in common."""
        return _native.device_overlap(self.array, other.array)

    def assign(self, other):
        """Copies the values of another array of the same shape and library, converted as NumPy converts."""
        if self.array.library not in ("cupy", "torch"):
            raise NotImplementedError(f"this result on an array of {self.array.library} needs an output of its own")
        self.object[...] = other.object

    def add(self, other):
        """Adds another array."""
        self._arithmetic()
        self.object += other.object

    def square(self):
        """Squares each value."""
        self._arithmetic()
        self.object *= self.object

    def root(self):
        """Takes the square root of each value, in the array's type."""
        self._arithmetic()
        if self.array.library == "cupy":
            import cupy

            cupy.sqrt(self.object, self.object, casting="unsafe")
        elif self.dtype.kind == "f":
            self.object.sqrt_()
        else:
            self.object.copy_(self.object.double().sqrt())

    def _arithmetic(self):
        if self.array.library not in ("cupy", "torch"):
            raise NotImplementedError(
                f"sums of arrays of {self.array.library} are not supported: pass the array as one of CuPy or PyTorch"
            )


def wrap(object):
    """The object as an `OnDevice`; None if it is on no CUDA device."""
    array = _device.wrap(object)
    return None if array is None else OnDevice(object, array)


def output(output, like):
    """The array for results: `output` itself, or a new array if `output` is a type or None."""
    if output is None:
        return like.empty(like.dtype)
    if isinstance(output, (type, np.dtype, str)):
        return like.empty(np.dtype(output))
    result = wrap(output)
    if result is None:
        raise TypeError(f"output must be a type, or an array on the input's device, not {type(output).__name__}")
    if result.shape != like.shape:
        raise RuntimeError(f"output shape not correct: it must be {like.shape}, and is {result.shape}")
    return result
