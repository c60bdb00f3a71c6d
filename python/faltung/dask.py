"""The linear filters of `faltung.ndimage` on arrays of `dask.array`, chunk by chunk.

The functions have the names and the arguments of `dask_image.ndfilters`, and more of SciPy's arguments: `axes`,
`radius` and modes for each axis. They are lazy. They return a `dask.array.Array` with the shape and the chunks of
`image`.

`image` is one of these:

* A `dask.array.Array` of NumPy or CuPy arrays. Each task gets its chunk and its halo (`dask.array.map_overlap`). The
  halo is exactly the values around a chunk that its results depend on. Chunks that are narrower than the halo are
  merged for the computation.
* A `zarr.Array`, or an array made by `dask.array.from_zarr`. Each task reads its chunk and its halo from the store.
  Tasks exchange nothing, so each can run anywhere at any time.

**The same answer as on one array.** With `accuracy="exact"`, the default, a result is bit-exact with `faltung.ndimage`
and `accuracy="exact"` on the whole array. On NumPy arrays it is also bit-exact with SciPy. With another `accuracy`,
each chunk of `float32` uses the fastest method. It can depend on the size and the place of the chunk. Results of
floating-point type then differ by rounding, within the error bound of that accuracy. Results of integer type are the
same.

**Memory.** A chunk whose filter raises `MemoryError` is filtered in strips, with the same results. CuPy's
`OutOfMemoryError` is a `MemoryError`.

Errors: `TypeError` for an `image` of another type, `ValueError` for chunks of unknown size. Other arguments are checked
when the function is called, not when the result is computed, and raise what `faltung.ndimage` raises.
"""

import numpy as np

try:
    import dask.array as da
    from dask.base import tokenize
except ImportError as error:
    raise ImportError("faltung.dask needs Dask: pip install 'dask[array]'") from error

from faltung import _halo
from faltung._chunks import ChunkFilter, filter_stored

__all__ = [
    "convolve",
    "correlate",
    "gaussian",
    "gaussian_filter",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
]


def convolve(image, weights, mode="reflect", cval=0.0, origin=0, *, axes=None, accuracy="exact"):
    """Convolution with a mask of as many axes as `image` (or as `axes` has entries).

    `weights` is an array of real or complex numbers. `mode`, `cval`, `origin` and `axes` are those of
    `scipy.ndimage.convolve`. The result has the type of `image`; it is complex if `weights` or `image` are.

    >>> import dask.array as da, numpy as np
    >>> from faltung.dask import convolve
    >>> image = da.from_array(np.arange(6.0), chunks=3)
    >>> convolve(image, [1.0, 0.0, -1.0]).compute()
    array([1., 2., 2., 2., 2., 1.])
    """
    return _mask_filter("convolve", image, weights, mode, cval, origin, axes, accuracy)


def correlate(image, weights, mode="reflect", cval=0.0, origin=0, *, axes=None, accuracy="exact"):
    """Correlation with a mask of as many axes as `image` (or as `axes` has entries).

    The arguments and the result are those of `convolve`. The mask is not mirrored.

    >>> import dask.array as da, numpy as np
    >>> from faltung.dask import correlate
    >>> image = da.from_array(np.arange(6.0), chunks=3)
    >>> correlate(image, [1.0, 0.0, -1.0]).compute()
    array([-1., -2., -2., -2., -2., -1.])
    """
    return _mask_filter("correlate", image, weights, mode, cval, origin, axes, accuracy)


def gaussian_filter(
    image, sigma, order=0, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None, accuracy="exact"
):
    """Gaussian filter, or a derivative of one where `order` is above 0.

    `sigma` is in pixels: one number, or one for each axis. `order`, `mode` and `radius` work alike. `truncate` is the
    radius of the Gaussian in units of `sigma`. `radius` is the radius in pixels, and replaces `truncate`. The result
    has the type of `image`.

    >>> import dask.array as da
    >>> from faltung.dask import gaussian_filter
    >>> image = da.ones((8, 8), chunks=4)
    >>> float(gaussian_filter(image, 1.0, mode="constant").compute()[4, 4]) < 1.0
    True
    """
    arguments = dict(sigma=sigma, order=order, mode=mode, cval=cval, truncate=truncate, radius=radius, axes=axes)

    def values(axes):
        return _halo.of_gaussian(sigma, truncate, radius, axes)

    return _filtered("gaussian_filter", image, arguments, values, accuracy)


def gaussian(image, sigma, order=0, mode="reflect", cval=0.0, truncate=4.0, **options):
    """Another name of `gaussian_filter`.

    >>> import dask.array as da
    >>> from faltung.dask import gaussian
    >>> gaussian(da.ones((8, 8), chunks=4), 1.0).chunks
    ((4, 4), (4, 4))
    """
    return gaussian_filter(image, sigma, order, mode, cval, truncate, **options)


def gaussian_laplace(
    image, sigma, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None, accuracy="exact"
):
    """Sum of the second derivatives of a Gaussian along all axes.

    The arguments and the result are those of `gaussian_filter`.

    >>> import dask.array as da
    >>> from faltung.dask import gaussian_laplace
    >>> gaussian_laplace(da.ones((8, 6), chunks=4), 1.0).shape
    (8, 6)
    """
    return _gaussian_derivatives("gaussian_laplace", image, sigma, mode, cval, truncate, radius, axes, accuracy)


def gaussian_gradient_magnitude(
    image, sigma, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None, accuracy="exact"
):
    """Length of the gradient, from first derivatives of a Gaussian along all axes.

    The arguments and the result are those of `gaussian_filter`.

    >>> import dask.array as da
    >>> from faltung.dask import gaussian_gradient_magnitude
    >>> float(gaussian_gradient_magnitude(da.ones((8, 6), chunks=4), 1.0).max().compute()) < 1e-15
    True
    """
    name = "gaussian_gradient_magnitude"
    return _gaussian_derivatives(name, image, sigma, mode, cval, truncate, radius, axes, accuracy)


def laplace(image, mode="reflect", cval=0.0, *, axes=None, accuracy="exact"):
    """Sum of the second differences along all axes, or along `axes`.

    `mode` is one name, or one for each axis. The result has the type of `image`.

    >>> import dask.array as da, numpy as np
    >>> from faltung.dask import laplace
    >>> laplace(da.from_array(np.arange(6.0) ** 2, chunks=3)).compute()
    array([ 1.,  2.,  2.,  2.,  2., -9.])
    """
    arguments = dict(mode=mode, cval=cval, axes=axes)
    return _filtered("laplace", image, arguments, lambda axes: [(1, 1)] * len(axes), accuracy)


def prewitt(image, axis=-1, mode="reflect", cval=0.0, *, accuracy="exact"):
    """Prewitt's derivative along `axis`, with sums of three along all other axes.

    `mode` is one name, or one for each axis. The result has the type of `image`.

    >>> import dask.array as da, numpy as np
    >>> from faltung.dask import prewitt
    >>> image = da.from_array(np.tile(np.arange(6.0), (3, 1)), chunks=3)
    >>> prewitt(image).compute()[0]
    array([3., 6., 6., 6., 6., 3.])
    """
    arguments = dict(axis=axis, mode=mode, cval=cval)
    return _filtered("prewitt", image, arguments, lambda axes: [(1, 1)] * len(axes), accuracy)


def sobel(image, axis=-1, mode="reflect", cval=0.0, *, accuracy="exact"):
    """Sobel's derivative along `axis`, with weights 1, 2, 1 along all other axes.

    `mode` is one name, or one for each axis. The result has the type of `image`.

    >>> import dask.array as da, numpy as np
    >>> from faltung.dask import sobel
    >>> image = da.from_array(np.tile(np.arange(6.0), (3, 1)), chunks=3)
    >>> sobel(image).compute()[0]
    array([4., 8., 8., 8., 8., 4.])
    """
    arguments = dict(axis=axis, mode=mode, cval=cval)
    return _filtered("sobel", image, arguments, lambda axes: [(1, 1)] * len(axes), accuracy)


def uniform_filter(image, size=3, mode="reflect", cval=0.0, origin=0, *, axes=None, accuracy="exact"):
    """Mean of the `size` values around each position, axis by axis.

    `size`, `mode` and `origin` are one value, or one for each axis. The result has the type of `image`.

    SciPy computes running sums along a whole line: each sum is the previous one, plus a value, minus a value. So the
    rounding of every result depends on all values before it, and a NaN reaches the end of its line. To be bit-exact,
    each line of floating-point, complex or 64-bit integer values must lie in one chunk. So the array is rechunked for
    each axis, which moves all of it. With another `accuracy` the sums restart in each chunk instead.

    >>> import dask.array as da, numpy as np
    >>> from faltung.dask import uniform_filter
    >>> uniform_filter(da.from_array(np.array([0, 3, 6, 9, 12, 15]), chunks=3)).compute()
    array([ 1,  3,  6,  9, 12, 14])
    """
    arguments = dict(size=size, mode=mode, cval=cval, origin=origin, axes=axes)

    def values(axes):
        return _halo.of_window(size, origin, axes)

    if accuracy != "exact" or _running_sums_are_exact(_source(image), size, mode, cval):
        return _filtered("uniform_filter", image, arguments, values, accuracy)
    return _uniform_filter_of_lines(image, arguments, accuracy)


def _mask_filter(name, image, weights, mode, cval, origin, axes, accuracy):
    weights = np.asarray(weights)
    arguments = dict(weights=weights, mode=mode, cval=cval, origin=origin, axes=axes)

    def values(axes):
        return _halo.of_mask(weights.shape, origin, axes, image.ndim, reverse=name == "convolve")

    return _filtered(name, image, arguments, values, accuracy)


def _gaussian_derivatives(name, image, sigma, mode, cval, truncate, radius, axes, accuracy):
    arguments = dict(sigma=sigma, mode=mode, cval=cval, truncate=truncate, radius=radius, axes=axes)

    def reaches(axes, shape):
        smooths_all = name == "gaussian_gradient_magnitude"
        return _halo.of_gaussian_derivatives(shape, axes, sigma, truncate, radius, mode, smooths_all)

    return _filtered_by_reaches(name, image, arguments, reaches, accuracy)


def _filtered(name, image, arguments, values, accuracy):
    """The filter `name` on `image`. `values` gives the reach below and above for each of some axes."""

    def reaches(axes, shape):
        return _halo.reaches(len(shape), axes, values(axes), arguments["mode"])

    return _filtered_by_reaches(name, image, arguments, reaches, accuracy)


def _filtered_by_reaches(name, image, arguments, reaches, accuracy):
    """The filter `name` on `image`. ``reaches(axes, shape)`` gives the reach along every axis."""
    image = _source(image)
    arguments = {**arguments, "accuracy": accuracy}
    dtype = _result_type(name, image, arguments)
    axes = _halo.axes_of(arguments.get("axes"), image.ndim)
    reaches = reaches(axes, image.shape)
    chunk_filter = ChunkFilter(name, arguments, reaches, dtype)
    stored = _stored_array(image)
    if stored is not None:
        chunks = image.chunks if isinstance(image, da.Array) else _stored_chunks(image)
        return da.map_blocks(
            filter_stored,
            stored=stored,
            chunk_filter=chunk_filter,
            chunks=chunks,
            dtype=dtype,
            meta=np.empty((0,) * image.ndim, dtype),
            name=f"{name}-{tokenize(stored, chunk_filter, chunks)}",
        )
    return _overlapped(image, chunk_filter).rechunk(image.chunks)


def _overlapped(image, chunk_filter):
    """The filter on a Dask array by `map_overlap`. The result can have larger chunks."""
    depth, boundary, chunks = {}, {}, {}
    for axis, (below, above, wraps) in enumerate(chunk_filter.reaches):
        # A border reaches one value deeper than the filter, with the mode `mirror`.
        chunks[axis] = _merged(image.chunks[axis], max(below, above) + 1 if below or above else 0)
        if len(chunks[axis]) == 1 or not (below or above):
            depth[axis], boundary[axis] = 0, "none"
        elif wraps:
            depth[axis], boundary[axis] = max(below, above), "periodic"
        else:
            depth[axis], boundary[axis] = (below, above), "none"
    return da.map_overlap(
        chunk_filter,
        image.rechunk(chunks),
        depth=depth,
        boundary=boundary,
        dtype=chunk_filter.dtype,
        meta=image._meta.astype(chunk_filter.dtype),
        name=f"{chunk_filter.name}-{tokenize(image, chunk_filter)}",
    )


def _merged(chunks, least):
    """Merges neighbouring chunks to at least `least` values each. If all are too few, one chunk is left."""
    if least == 0 or all(chunk >= least for chunk in chunks):
        return chunks
    merged = [0]
    for chunk in chunks:
        if merged[-1] >= least:
            merged.append(0)
        merged[-1] += chunk
    if merged[-1] < least and len(merged) > 1:
        last = merged.pop()
        merged[-1] += last
    return tuple(merged)


def _source(image):
    """`image`, if it is something to filter."""
    if isinstance(image, da.Array):
        if any(chunk != chunk for chunks in image.chunks for chunk in chunks):
            raise ValueError("image: its chunks must have known sizes; call image.compute_chunk_sizes() first")
        return image
    if _is_zarr(image):
        return image
    kind = f"{type(image).__module__}.{type(image).__qualname__}"
    raise TypeError(f"image: a dask.array.Array or a zarr.Array is required, not {kind}; faltung.ndimage takes others")


def _is_zarr(image):
    """Whether `image` is an array of zarr, without an import of zarr."""
    return any(
        base.__qualname__ == "Array" and base.__module__.partition(".")[0] == "zarr" for base in type(image).__mro__
    )


def _stored_array(image):
    """The Zarr array behind `image`, if `image` is that array or its unchanged chunks; else None."""
    if not isinstance(image, da.Array):
        return image
    layers = dict(image.dask.layers)
    if len(layers) != 2 or layers.pop(image.name, None) is None:
        return None
    (layer,) = layers.values()
    objects = list(layer.values()) if len(layer) == 1 else []
    # Dask wraps objects in graphs; `value` is the object.
    stored = getattr(objects[0], "value", objects[0]) if objects else None
    if not _is_zarr(stored) or stored.shape != image.shape or stored.dtype != image.dtype:
        return None
    return stored if isinstance(image._meta, np.ndarray) else None


def _stored_chunks(stored):
    """Chunks of the size that Dask is configured for, each of whole chunks of the store."""
    return da.core.normalize_chunks("auto", stored.shape, dtype=stored.dtype, previous_chunks=stored.chunks)


def _result_type(name, image, arguments):
    """The type of the results. The filter runs on one value, which also checks the arguments."""
    return ChunkFilter(name, arguments, [], None).whole(np.zeros((1,) * image.ndim, image.dtype)).dtype


def _running_sums_are_exact(image, size, mode, cval):
    """Whether all sums of `uniform_filter` are integers that f64 holds, so that their order does not matter."""
    limit = 2.0**53
    if image.dtype.kind not in "biu" or image.dtype.itemsize > 4:
        return False
    largest = max([abs(float(value)) for value in _extremes(image.dtype)])
    if "constant" in str(mode):
        if not float(np.real(cval)).is_integer() or np.imag(cval) != 0:
            return False
        largest = max(largest, abs(float(np.real(cval))))
    sides = [float(side) for side in _halo.per_axis(size, 1)]
    return all(side * largest < limit for side in sides)


def _extremes(dtype):
    return (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _uniform_filter_of_lines(image, arguments, accuracy):
    """`uniform_filter` with each line in one chunk, one axis after the other."""
    image = _source(image)
    _result_type("uniform_filter", image, {**arguments, "accuracy": accuracy})
    result = image if isinstance(image, da.Array) else da.from_zarr(image, chunks=_stored_chunks(image))
    chunks = result.chunks
    axes = _halo.axes_of(arguments["axes"], result.ndim)
    each = [_halo.per_axis(arguments[name], len(axes)) for name in ("size", "mode", "origin")]
    for axis, size, mode, origin in zip(axes, *each):
        if size > 1:
            one_axis = dict(
                size=int(size), axis=axis, mode=mode, cval=arguments["cval"], origin=origin, accuracy=accuracy
            )
            if len(result.chunks[axis]) > 1:
                result = result.rechunk({other: -1 if other == axis else "auto" for other in range(result.ndim)})
            reaches = _halo.reaches(result.ndim, [axis], [(result.shape[axis], result.shape[axis])], mode)
            chunk_filter = ChunkFilter("uniform_filter1d", one_axis, reaches, result.dtype)
            result = result.map_blocks(
                chunk_filter,
                dtype=result.dtype,
                meta=result._meta,
                name=f"uniform_filter-{tokenize(result, chunk_filter)}",
            )
    return result.rechunk(chunks)
