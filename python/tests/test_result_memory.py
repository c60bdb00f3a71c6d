"""The memory of large results, which the module keeps."""

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import faltung
from faltung import _memory, ndimage

LARGE = faltung._native.LARGE

# Arrays need their allocator until they are freed.
KEPT_ALIVE = []

keeps = pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes back pages that are kept")


def address(array):
    return array.__array_interface__["data"][0]


def allocator(array):
    try:
        from numpy._core.multiarray import get_handler_name
    except ImportError:
        from numpy.core.multiarray import get_handler_name
    return get_handler_name(array)


def large(scale=1.0):
    return np.full((LARGE // 1000 // 4 + 1, 1000), scale, np.float32)


@keeps
def test_memory_is_used_again():
    expected = ndimage.uniform_filter(large(3.0), 5).copy()
    result = ndimage.uniform_filter(large(3.0), 5)
    assert allocator(result) == "faltung" and result.flags.owndata and result.flags.writeable
    first = address(result)
    result.fill(np.nan)
    del result
    result = ndimage.uniform_filter(large(3.0), 5)
    assert address(result) == first
    assert np.array_equal(result, expected)
    # A second one lives beside it, and a view holds its memory.
    view = result[::2]
    del result
    other = ndimage.uniform_filter(large(5.0), 5)
    assert not np.may_share_memory(view, other)
    assert np.array_equal(view, expected[::2])


def test_all_functions_take_it():
    image = large()
    results = [
        ndimage.correlate(image, np.ones((3, 3))),
        ndimage.gaussian_filter(image, 1.0),
        ndimage.sobel(image, output=np.float64),
        faltung.blur(image, (3, 3)),
        faltung.filter2D(image, -1, np.ones((3, 3))),
    ]
    assert {allocator(result) for result in results} == {"faltung"}
    assert allocator(ndimage.correlate(image[:10], np.ones((3, 3)))) == "default_allocator"
    # NumPy's own arrays are as before.
    assert allocator(np.empty(LARGE)) == "default_allocator"


def test_results_can_be_resized():
    for shape in [(3000, 1000), (10, 1000), (1, 1), (0, 3), (20_000, 1000)]:
        result = ndimage.correlate(large(2.0), np.ones((1, 1)))
        result.resize(shape, refcheck=False)
        assert result.shape == shape
        assert np.all(result[: min(2000, shape[0])] == 2.0)
        assert shape[0] <= 3000 or result[-1, -1] == 0.0


def test_empty_refuses_what_numpy_refuses():
    with pytest.raises(MemoryError):
        _memory.empty((1 << 24, 1 << 24), np.float64)
    with pytest.raises(ValueError, match="negative|maximum allowed"):
        faltung._native.empty_large((-1, 3), np.dtype("f8"))
    with pytest.raises(ValueError, match="too big"):
        _memory.empty((1 << 40, 1 << 40), np.float64)
    # The allocator is NumPy's again.
    assert allocator(np.empty(3)) == "default_allocator"


def test_an_allocator_of_the_user_is_respected():
    """The allocator is NumPy's own by another name."""
    try:
        from numpy._core import _multiarray_umath as internal
    except ImportError:
        from numpy.core import _multiarray_umath as internal
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    table = ctypes.cast(api.PyCapsule_GetPointer(internal._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[304])
    default = ctypes.cast(table[306], ctypes.POINTER(ctypes.py_object))[0]
    size = 128 + 5 * ctypes.sizeof(ctypes.c_void_p)
    original = ctypes.string_at(api.PyCapsule_GetPointer(default, b"mem_handler"), size)
    handler = ctypes.create_string_buffer(original, size)
    handler[:5] = b"mine\0"
    KEPT_ALIVE.append(handler)
    before = set_handler(api.PyCapsule_New(ctypes.addressof(handler), b"mem_handler", None))
    try:
        results = [ndimage.correlate(large(), np.ones((1, 1))), np.empty(3)]
    finally:
        set_handler(before)
    assert [allocator(result) for result in results] == ["mine", "mine"]
    assert allocator(_memory.empty((LARGE,), np.uint8)) == "faltung"


@keeps
def test_not_too_much_is_kept():
    shape = (16384, 8192)  # 128 MiB of bytes, which nobody touches
    arrays = [_memory.empty(shape, np.uint8) for _ in range(6)]
    addresses = [address(array) for array in arrays]
    # The last four that are freed are kept: 512 MiB. The last one is taken first.
    while arrays:
        del arrays[0]
    again = [_memory.empty(shape, np.uint8) for _ in range(4)]
    assert [address(array) for array in again] == addresses[:1:-1]


def test_several_threads():
    images = [large(number) for number in range(1, 5)]

    def work(image):
        for _ in range(8):
            result = ndimage.correlate1d(image, [0, 1, 0])
            assert np.all(result == image[0, 0])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, images))


def run(program):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


@keeps
def test_nothing_is_kept_in_a_limited_address_space():
    run("""
        import resource
        import numpy as np
        from faltung._memory import empty
        def mapped():
            return int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1])
        kept, array = empty((1 << 27,), np.uint8), empty((1 << 28,), np.uint8)
        with_both = mapped()
        del kept
        assert mapped() == with_both
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        del array
        assert mapped() <= with_both - (3 << 17), (mapped(), with_both)
    """)


@keeps
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_memory_of_its_own():
    run("""
        import os
        import numpy as np
        from faltung._memory import empty
        kept = empty((1 << 26,), np.uint8)
        kept[:] = 1
        address = kept.ctypes.data
        del kept
        child = os.fork()
        array = empty((1 << 26,), np.uint8)
        assert array.ctypes.data == address
        array[:] = 2 if child else 3
        if child == 0:
            os._exit(0 if (array == 3).all() else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0 and (array == 2).all()
    """)


def test_arrays_of_other_owners_stay():
    result = ndimage.correlate(large(4.0), np.ones((1, 1)))
    moved = np.frombuffer(memoryview(result).cast("B"), np.float32)
    del result
    gc.collect()
    assert np.all(ndimage.correlate1d(large(9.0), [0, 1, 0]) == 9.0)
    assert np.all(moved == 4.0)
