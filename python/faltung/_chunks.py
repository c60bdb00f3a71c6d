"""One chunk of a filtered array: what a task of `faltung.dask` does."""

import numpy as np

from faltung import _halo


class ChunkFilter:
    """A filter of `faltung.ndimage` with its arguments, for arrays that are parts of a larger one.

    An array whose filter does not fit the memory is filtered in strips. The strips have the same results, because each
    is computed from all the values that it depends on.
    """

    def __init__(self, name, arguments, reaches, dtype):
        self.name, self.arguments, self.reaches, self.dtype = name, arguments, reaches, dtype

    def __dask_tokenize__(self):
        return (type(self).__qualname__, self.name, self.arguments, self.reaches, self.dtype)

    def whole(self, image):
        """The filter on an array in one piece."""
        from faltung import ndimage

        return getattr(ndimage, self.name)(image, **self.arguments)

    def __call__(self, image):
        try:
            return self.whole(image)
        except MemoryError:
            axis = self._strip_axis(image.shape)
            if axis is None:
                raise
        # The traceback of the error keeps the memory of the failed call. After the handler it is free.
        return self._in_strips(image, axis)

    def part(self, read, shape, begin, end):
        """The results from `begin` to `end` of a filtered array of `shape`. `read` takes a tuple of slices."""
        windows = [_halo.window(*axis) for axis in zip(begin, end, shape, self.reaches)]
        result = self(read_window(read, [w.ranges for w in windows]))
        return result[tuple(slice(w.first, w.first + b - a) for w, a, b in zip(windows, begin, end))]

    def _strip_axis(self, shape):
        """The axis along which a half with its halo has the fewest values; None if that is not fewer than the whole."""
        best, least = None, 1.0
        for axis, (length, reach) in enumerate(zip(shape, self.reaches)):
            if length > 1:
                share = ((length + 1) // 2 + reach.below + reach.above) / length
                if share < least:
                    best, least = axis, share
        return best

    def _in_strips(self, image, axis):
        result = np.empty_like(image, dtype=self.dtype)
        middle = image.shape[axis] // 2
        for start, stop in ((0, middle), (middle, image.shape[axis])):
            begin, end = [0] * image.ndim, list(image.shape)
            begin[axis], end[axis] = start, stop
            place = tuple(map(slice, begin, end))
            result[place] = self.part(image.__getitem__, image.shape, begin, end)
        return result


def read_window(read, ranges):
    """An array of the `ranges` of each axis, joined where an axis has several."""
    for axis, pieces in enumerate(ranges):
        if len(pieces) > 1:
            parts = [read_window(read, [*ranges[:axis], (piece,), *ranges[axis + 1 :]]) for piece in pieces]
            return np.concatenate(parts, axis=axis)
    return read(tuple(slice(*pieces[0]) for pieces in ranges))


def filter_stored(stored, chunk_filter, block_info=None):
    """The chunk at the place that `block_info` names. The task reads its window from the array `stored`."""
    place = block_info[None]["array-location"]
    return chunk_filter.part(stored.__getitem__, stored.shape, [a for a, _ in place], [b for _, b in place])
