"""The linear filters of ``scipy.ndimage``: same names, same arguments, same results, in less time.

On x86-64, integer and ``float64`` results are bit-exact with SciPy's, with three exceptions:

- masks more than 5 times as wide as the array with ``mode="reflect"`` or ``"grid-mirror"``,
- arrays of which every stride is zero,
- a sum of zero along a line, which is 0.0; SciPy's may be -0.0.

``float32`` arrays with ``float32`` results are summed in ``float32``. Their last bits may depend on the memory layout
of input and output. ``accuracy="exact"`` sums them in ``float64``, as SciPy does. The library computes ``bool``,
integers, ``float32``, ``float64``, ``complex64`` and ``complex128``, with any number of axes and any strides. It passes
a call with another type to SciPy, which raises SciPy's own exception.

Arrays of CuPy, PyTorch, Numba and others on a CUDA device are filtered on that device. The work is enqueued on the
current stream of their library, and the call does not wait for it. The result is an array of the same library. The
device takes real types and up to four axes. Other arrays of CuPy are passed to `cupyx.scipy.ndimage`. On a device, two
results may differ from SciPy's: means of floating-point numbers, and ``float32`` weights of 0 over NaN.
"""

from faltung import _filters, _native
from faltung._public import public as _public

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "counts",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
]


def counts():
    """How many calls the library has computed, and how many it has passed to SciPy.

    Returns
    -------
    dict
        ``{"native": int, "fallback": int}``, counted since the module was imported.

    Examples
    --------
    >>> import faltung.ndimage
    >>> sorted(faltung.ndimage.counts())
    ['fallback', 'native']
    """
    native, fallback = _native.counts()
    return {"native": native, "fallback": fallback}


@_public
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, _exact=False):
    """Correlate the lines along one axis with weights.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    weights : array_like
        One-dimensional sequence of numbers, at least one.
    axis : int
        The axis; negative numbers count from the last one.
    output : array or dtype, optional
        Array of the input's shape to be written, or the type of the result. It may be the input.
    mode : str
        The values outside of the array: ``"reflect"``, ``"constant"``, ``"nearest"``, ``"mirror"``, ``"wrap"``,
        ``"grid-mirror"``, ``"grid-constant"`` or ``"grid-wrap"``, as in SciPy.
    cval : scalar
        The value outside, with ``mode="constant"`` and ``"grid-constant"``.
    origin : int
        Shift of the filter: 0 is the middle, positive numbers shift it to the left.
    accuracy : {None, "exact", "bounded", "normwise"}
        ``"exact"`` sums ``float32`` arrays in ``float64``. ``"bounded"`` and ``"normwise"`` change nothing.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError
        No weights, an output of another shape, an unknown mode.
    ValueError
        The origin is out of range, or the output is read-only.

    Examples
    --------
    >>> from faltung.ndimage import correlate1d
    >>> correlate1d([2, 8, 0, 4, 1, 9, 9, 0], weights=[1, 3])
    array([ 8, 26,  8, 12,  7, 28, 36,  9])
    """
    return _filters.correlate1d(input, weights, axis, output, mode, cval, origin, _exact)


@_public
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, _exact=False):
    """Convolve the lines along one axis with weights: `correlate1d` with the weights reversed.

    Parameters, results and errors are those of `correlate1d`.

    Examples
    --------
    >>> from faltung.ndimage import convolve1d
    >>> convolve1d([2, 8, 0, 4, 1, 9, 9, 0], weights=[1, 3])
    array([14, 24,  4, 13, 12, 36, 27,  0])
    """
    return _filters.convolve1d(input, weights, axis, output, mode, cval, origin, _exact)


@_public
def gaussian_filter1d(
    input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, _exact=False
):
    """Blur along one axis by a Gaussian, or apply a derivative of one.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    sigma : scalar
        Standard deviation, in elements.
    order : int
        0 is the Gaussian, 1 its first derivative, and so on.
    truncate : float
        Where the Gaussian ends, in standard deviations.
    radius : int, optional
        Where it ends, in elements. It takes the place of `truncate`.
    axis, output, mode, cval, accuracy
        As in `correlate1d`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    ValueError
        A negative order or radius.
    RuntimeError
        As in `correlate1d`.

    Examples
    --------
    >>> from faltung.ndimage import gaussian_filter1d
    >>> gaussian_filter1d([1.0, 2.0, 3.0, 4.0, 5.0], 1).round(2)
    array([1.43, 2.07, 3.  , 3.93, 4.57])
    """
    return _filters.gaussian1d(input, sigma, axis, order, output, mode, cval, truncate, radius, _exact)


@_public
def gaussian_filter(
    input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None, _exact=False
):
    """Blur by a Gaussian along each axis, or apply derivatives of it.

    The axes are filtered one after the other, in the type of the result: integers lose their fraction after each one,
    as in SciPy. Ask for a floating-point `output` where that matters.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    sigma : scalar or sequence of scalars
        Standard deviation, in elements, for all axes or for each one.
    order, mode, radius : value or sequence of values
        For all axes or for each one; as in `gaussian_filter1d`.
    axes : tuple of int, optional
        The axes to be filtered; all by default. Sequences have a value for each of these.
    output, cval, truncate, accuracy
        As in `gaussian_filter1d`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError
        A sequence has another length than `axes`, or an error of `correlate1d`.
    ValueError
        An axis is out of range or named twice, or an error of `gaussian_filter1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import gaussian_filter
    >>> image = np.arange(50, step=2).reshape(5, 5)
    >>> gaussian_filter(image, sigma=1)
    array([[ 4,  6,  8,  9, 11],
           [10, 12, 14, 15, 17],
           [20, 22, 24, 25, 27],
           [29, 31, 33, 34, 36],
           [35, 37, 39, 40, 42]])
    """
    return _filters.gaussian(input, sigma, order, output, mode, cval, truncate, radius, axes, _exact)


@_public
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, _exact=False):
    """The mean of neighbours along one axis.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    size : int
        How many neighbours, at least 1.
    axis, output, mode, cval, origin, accuracy
        As in `correlate1d`. The sums are ``float64`` with any `accuracy`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError
        The size is below 1, or an error of `correlate1d`.
    ValueError
        The origin is out of range.

    Examples
    --------
    >>> from faltung.ndimage import uniform_filter1d
    >>> uniform_filter1d([2, 8, 0, 4, 1, 9, 9, 0], size=3)
    array([4, 3, 4, 1, 4, 6, 6, 3])
    """
    return _filters.uniform1d(input, size, axis, output, mode, cval, origin)


@_public
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, _exact=False):
    """The mean of a box of neighbours.

    The axes are filtered one after the other, in the type of the result, as in `gaussian_filter`.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    size, mode, origin : value or sequence of values
        For all axes or for each one; as in `uniform_filter1d`.
    output, cval, axes, accuracy
        As in `gaussian_filter`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError, ValueError
        As in `gaussian_filter` and `uniform_filter1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import uniform_filter
    >>> uniform_filter(np.arange(16.0).reshape(4, 4), size=3)[1]
    array([4.33333333, 5.        , 6.        , 6.66666667])
    """
    return _filters.uniform(input, size, output, mode, cval, origin, axes, _exact)


@_public
def sobel(input, axis=-1, output=None, mode="reflect", cval=0.0, *, _exact=False):
    """Sobel's derivative along one axis: ``[-1, 0, 1]`` along it, ``[1, 2, 1]`` along the others.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type. The derivative of unsigned integers wraps around: ask for
        a signed `output`.
    mode : str or sequence of str
        For all axes or for each one.
    axis, output, cval, accuracy
        As in `correlate1d`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError, ValueError
        As in `correlate1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import sobel
    >>> sobel(np.array([[1, 2, 4], [1, 2, 4], [1, 2, 4]]))
    array([[ 4, 12,  8],
           [ 4, 12,  8],
           [ 4, 12,  8]])
    """
    return _filters.smoothed_difference(input, axis, output, mode, cval, _filters.SOBEL, _exact)


@_public
def prewitt(input, axis=-1, output=None, mode="reflect", cval=0.0, *, _exact=False):
    """Prewitt's derivative along one axis: ``[-1, 0, 1]`` along it, ``[1, 1, 1]`` along the others.

    Parameters, results and errors are those of `sobel`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import prewitt
    >>> prewitt(np.array([[1, 2, 4], [1, 2, 4], [1, 2, 4]]))
    array([[3, 9, 6],
           [3, 9, 6],
           [3, 9, 6]])
    """
    return _filters.smoothed_difference(input, axis, output, mode, cval, _filters.PREWITT, _exact)


@_public
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None, _exact=False):
    """The sum of the second differences ``[1, -2, 1]`` along each axis.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    mode : str or sequence of str
        For all axes or for each one.
    axes : tuple of int, optional
        The axes; all by default.
    output, cval, accuracy
        As in `correlate1d`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError, ValueError
        As in `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import laplace
    >>> laplace(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]))
    array([[ 0,  1,  0],
           [ 1, -4,  1],
           [ 0,  1,  0]])
    """
    return _filters.laplace(input, output, mode, cval, axes, _exact)


@_public
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, _exact=False, **kwargs):
    """The Laplacian of a Gaussian blur: the sum of the Gaussian's second derivatives along each axis.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    sigma : scalar or sequence of scalars
        Standard deviation, in elements, for all axes or for each one.
    truncate, radius
        As in `gaussian_filter`.
    output, mode, cval, axes, accuracy
        As in `laplace`.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError, ValueError
        As in `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import gaussian_laplace
    >>> image = np.zeros((5, 5)); image[2, 2] = 1
    >>> gaussian_laplace(image, sigma=1)[2].round(3)
    array([ 0.055, -0.096, -0.318, -0.096,  0.055])
    """
    return _filters.gaussian_laplace(input, sigma, output, mode, cval, axes, kwargs, _exact)


@_public
def gaussian_gradient_magnitude(
    input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, _exact=False, **kwargs
):
    """The length of the gradient of a Gaussian blur: the root of the sum of the squared first derivatives.

    Parameters, results and errors are those of `gaussian_laplace`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import gaussian_gradient_magnitude
    >>> gaussian_gradient_magnitude(np.tile(np.arange(0.0, 10.0, 2.0), (5, 1)), sigma=0.5)[2].round(3)
    array([0.856, 1.716, 1.72 , 1.716, 0.856])
    """
    return _filters.gaussian_gradient_magnitude(input, sigma, output, mode, cval, axes, kwargs, _exact)


@_public
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, _exact=False):
    """Correlate an array with weights of as many axes.

    Parameters
    ----------
    input : array_like
        Array of any shape and of any real or complex type.
    weights : array_like
        As many axes as `input`, or as `axes` names.
    output : array or dtype, optional
        Array of the input's shape to be written, or the type of the result. It may be the input.
    mode : str
        As in `correlate1d`.
    cval : scalar
        The value outside, with ``mode="constant"``.
    origin : int or sequence of int
        Shift of the weights, for all axes or for each one.
    axes : tuple of int, optional
        The axes to be filtered; all by default.
    accuracy : {None, "exact", "bounded", "normwise"}
        ``"exact"`` sums ``float32`` arrays in ``float64``. ``"bounded"`` and ``"normwise"`` change nothing.

    Returns
    -------
    array
        Of the input's shape.

    Raises
    ------
    RuntimeError
        Weights of another number of axes, an output of another shape, an unknown mode.
    ValueError
        An origin or an axis is out of range, or the output is read-only.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import correlate
    >>> correlate(np.arange(9).reshape(3, 3), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    array([[ 4,  7, 10],
           [13, 16, 19],
           [22, 25, 28]])
    """
    return _filters.correlate_or_convolve(input, weights, output, mode, cval, origin, False, axes, _exact)


@_public
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, _exact=False):
    """Convolve an array with weights of as many axes: `correlate` with the weights reversed along each axis.

    Parameters, results and errors are those of `correlate`.

    Examples
    --------
    >>> import numpy as np
    >>> from faltung.ndimage import convolve
    >>> convolve(np.arange(9).reshape(3, 3), [[1, 2], [3, 4]], mode="constant")
    array([[13, 23, 18],
           [43, 53, 36],
           [45, 52, 32]])
    """
    return _filters.correlate_or_convolve(input, weights, output, mode, cval, origin, True, axes, _exact)
