"""Tensors by DLPack, from others and to others, and the arrays of the module."""

import ctypes as c
import gc
import threading
import weakref

import dlpack_by_hand as dl
import numpy as np
import pytest

from faltung import _device

from device_by_hand import LEGACY, WEIGHTS, Array, Memory, calls, close, correlate, image, new_stream, numpy_of, own, read


def producer(values, memory=None, **keys):
    """Values on the device, of which the default stream has a copy enqueued."""
    memory = memory or Memory(values.nbytes)
    memory.write(values.tobytes(), LEGACY)
    keep = keys.pop("keep", None)
    return dl.Producer(memory.address, values.shape, kind=values.dtype.kind, bits=values.itemsize * 8, keep=(memory, keep), **keys)


@pytest.mark.parametrize(
    "keys, asked",
    [
        ({}, [{"stream": 1, "max_version": (1, 0)}]),
        ({"version": (1, 3)}, [{"stream": 1, "max_version": (1, 0)}]),
        ({"version": None}, [{"stream": 1, "max_version": (1, 0)}]),
        ({"takes_max_version": False}, [{"stream": 1, "max_version": (1, 0)}, {"stream": 1}]),
    ],
)
def test_tensors(keys, asked):
    values = image(9, 16)
    tensor = producer(values, **keys)
    wrapped = _device.wrap(tensor)
    assert tensor.calls == asked
    used = dl.USED_VERSIONED if tensor.name == dl.NAME_VERSIONED else dl.USED
    assert dl.API.PyCapsule_GetName(tensor.capsules[0]) == used
    assert (wrapped.shape, wrapped.strides, wrapped.dtype) == ((9, 16), (64, 4), np.dtype("f4"))
    assert (wrapped.device, wrapped.stream, wrapped.library) == (0, LEGACY, "other")
    output = correlate(wrapped, WEIGHTS)
    del wrapped
    gc.collect()
    assert tensor.deleted == 0, "the kernel has not begun"
    close(numpy_of(output), values, WEIGHTS)
    _device.release_finished()
    gc.collect()
    assert tensor.deleted == 1
    tensor.capsules.clear()
    gc.collect()
    assert tensor.deleted == 1


def test_tensors_with_strides_and_offsets():
    values = image(9, 16)
    tensor = producer(values, strides=(16, 1), byte_offset=64)
    tensor.numbers[0][0] = 8
    wrapped = _device.wrap(tensor)
    assert wrapped.shape == (8, 16) and wrapped.strides == (64, 4)
    assert wrapped.pointer == tensor.keep[0].address + 64
    close(numpy_of(correlate(wrapped, WEIGHTS)), values[1:], WEIGHTS)
    assert _device.wrap(producer(values, read_only=True)).read_only is True
    for dtype in ["?", "i1", "u2", "i4", "u8", "f2", "f8", "c8", "c16"]:
        assert _device.wrap(producer(np.ones((2, 3), dtype))).dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "keys, error, words",
    [
        ({"version": (2, 0)}, BufferError, "DLPack 1 is required, the tensor is of version 2.0"),
        ({"code": 4, "bits": 16}, TypeError, "code 4, 16 bits"),
        ({"lanes": 4}, TypeError, "4 lanes"),
        ({"bits": 12}, TypeError, "12 bits"),
        ({"device": (dl.CUDA, 1), "says": (dl.CUDA, 0)}, ValueError, "says cuda:0"),
        ({"device": (dl.CPU, 0), "says": (dl.CUDA, 0)}, ValueError, "gives the CPU"),
        ({"byte_offset": 2}, ValueError, "multiples of 4"),
    ],
)
def test_tensors_that_are_refused_are_given_back(keys, error, words):
    values = image(4, 4)
    memory = Memory(values.nbytes)
    keys = {"kind": "f", "bits": 32} | keys
    tensor = dl.Producer(memory.address, (4, 4), **keys)
    with pytest.raises(error, match=words) as caught:
        _device.wrap(tensor)
    del caught
    gc.collect()
    assert tensor.deleted == 1


def test_a_tensor_without_memory_and_on_no_device():
    tensor = dl.Producer(None, (2, 2))
    with pytest.raises(ValueError, match="null"):
        _device.wrap(tensor)
    assert tensor.deleted == 1
    tensor = dl.Producer(4096, (2, 2), device=(dl.CUDA, 7))
    with pytest.raises(RuntimeError, match="device 7"):
        _device.wrap(tensor)
    assert tensor.calls == []
    tensor = dl.Producer(4096, (2, 2), device=(dl.CUDA, -1))
    with pytest.raises(ValueError, match="0 or more, not -1"):
        _device.wrap(tensor)


def test_producers_that_give_something_else():
    class Wrong:
        def __init__(self, value):
            self.value = value

        def __dlpack_device__(self):
            return (dl.CUDA, 0)

        def __dlpack__(self, **arguments):
            if isinstance(self.value, Exception):
                raise self.value
            return self.value

    for value, error in [(5, BufferError), (None, BufferError), (KeyError("mine"), KeyError), (TypeError("no"), TypeError)]:
        with pytest.raises(error):
            _device.wrap(Wrong(value))
    # A capsule that was taken before.
    tensor = producer(image(4, 4))
    first = _device.wrap(tensor)
    with pytest.raises(BufferError, match="nobody has taken"):
        _device.wrap(Wrong(tensor.capsules[0]))
    del first
    gc.collect()
    assert tensor.deleted == 1

def test_new_arrays():
    like = _device.wrap(Array(image(3, 3), new_stream()))
    array = _device.empty(like, (2, 3, 4), ">i2")
    assert (array.shape, array.strides, array.dtype, array.nbytes) == ((2, 3, 4), (24, 8, 2), np.dtype(">i2"), 48)
    assert (array.stream, array.device, array.library) == (like.stream, 0, "other")
    assert array.__cuda_array_interface__ == {
        "shape": (2, 3, 4), "typestr": ">i2", "data": (array.pointer, False), "strides": None, "stream": like.stream, "version": 3,
    }
    with pytest.raises(MemoryError):
        _device.empty(like, (1 << 29,), "f4")
    with pytest.raises(ValueError, match="more than memory"):
        _device.empty(like, (1 << 62, 4), "f8")
    with pytest.raises(TypeError, match="object"):
        _device.empty(like, (2,), object)
    with pytest.raises(BufferError, match="no type for >i2"):
        array.__dlpack__()


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 5), (2, 0)])
def test_arrays_of_the_module_by_dlpack(max_version):
    values = image(5, 7)
    array = own(values)
    assert array.__dlpack_device__() == (2, 0)
    gone = weakref.ref(array)
    capsule = array.__dlpack__(stream=-1, max_version=max_version)
    is_versioned = max_version is not None and max_version[0] >= 1
    assert dl.API.PyCapsule_GetName(capsule) == (dl.NAME_VERSIONED if is_versioned else dl.NAME)
    managed = dl.take(capsule)
    tensor = managed.tensor
    assert (tensor.data, tensor.device_type, tensor.device_id, tensor.ndim) == (array.pointer, 2, 0, 2)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 32, 1, 0)
    assert tensor.shape[:2] == [5, 7] and tensor.strides[:2] == [7, 1]
    if is_versioned:
        assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
    address = array.pointer
    del array, capsule
    gc.collect()
    assert gone() is not None, "the consumer has the memory"
    np.testing.assert_array_equal(np.frombuffer(read(address, 140, LEGACY), np.float32).reshape(5, 7), values)
    thread = threading.Thread(target=managed.deleter, args=(c.addressof(managed),))
    thread.start()
    thread.join()
    gc.collect()
    assert gone() is None


def test_a_capsule_that_nobody_takes():
    array = own(image(3, 3))
    gone = weakref.ref(array)
    capsules = [array.__dlpack__(), array.__dlpack__(max_version=(1, 0))]
    before = calls()["cuMemFree_v2"]
    del array
    gc.collect()
    assert gone() is not None and calls()["cuMemFree_v2"] == before
    del capsules
    gc.collect()
    assert gone() is None and calls()["cuMemFree_v2"] == before + 1


def test_what_a_consumer_may_ask():
    stream, other = new_stream(), new_stream()
    array = own(image(4, 4), stream)
    for given, waits in [(None, LEGACY), (1, 1), (2, 2), (other, other), (-1, None), (stream, None)]:
        before = calls().get("cuStreamWaitEvent", 0)
        array.__dlpack__(stream=given)
        assert calls().get("cuStreamWaitEvent", 0) - before == (0 if waits is None else 1), given
    for given in [0, -2]:
        with pytest.raises(ValueError, match="stream must be"):
            array.__dlpack__(stream=given)
    array.__dlpack__(dl_device=(2, 0))
    for device in [(1, 0), (2, 1)]:
        with pytest.raises(BufferError, match="dl_device"):
            array.__dlpack__(dl_device=device)
    read_only = _device.wrap(Array(image(4, 4), read_only=True))
    with pytest.raises(BufferError, match="read-only"):
        read_only.__dlpack__()
    managed = dl.take(read_only.__dlpack__(max_version=(1, 0)))
    assert managed.flags == 1
    managed.deleter(c.addressof(managed))


def test_a_consumer_gets_finished_values():
    values = image(16, 32)
    consumer = new_stream()
    output = correlate(Array(values, new_stream()), WEIGHTS)
    managed = dl.take(output.__dlpack__(stream=consumer, max_version=(1, 0)))
    found = np.frombuffer(read(managed.tensor.data, values.nbytes, consumer), np.float32).reshape(16, 32)
    close(found, values, WEIGHTS)
    managed.deleter(c.addressof(managed))


def test_copies():
    values = image(16, 32)
    output = correlate(Array(values, new_stream()), WEIGHTS)
    managed = dl.take(output.__dlpack__(stream=1, max_version=(1, 0), copy=True))
    assert managed.flags == 2 and managed.tensor.data != output.pointer
    found = np.frombuffer(read(managed.tensor.data, values.nbytes, LEGACY), np.float32).reshape(16, 32)
    close(found, values, WEIGHTS)
    managed.deleter(c.addressof(managed))


def test_numpy_refuses_what_is_on_a_device():
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(own(image(3, 3)))
