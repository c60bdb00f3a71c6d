"""Device arrays on a machine with a GPU: CuPy, PyTorch and Numba, every protocol in and out, streams, lifetimes.

    python gpu_check.py [--require cupy,torch,numba]

What is not installed is named and left out; ``--require`` makes that a failure. The status is 1 if any check fails. No
check of values waits for the device before the library is called, so that an order that is missing shows.
"""

import argparse
import ctypes
import gc
import importlib
import os
import sys
import threading
import time
import traceback
import types

import numpy as np

import faltung
from faltung import _device

CHECKS = []
WEIGHTS = np.random.default_rng(0).random((5, 3)) - 0.3
PAD = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap",
    "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant",
}
LIBRARIES = {}


def check(*needs):
    def add(function):
        CHECKS.append((function, needs))
        return function

    return add


def load(name, module):
    try:
        LIBRARIES[name] = importlib.import_module(module)
        if name == "numba" and not LIBRARIES[name].is_available():
            raise RuntimeError("numba.cuda finds no device")
        if name == "torch" and not LIBRARIES[name].cuda.is_available():
            raise RuntimeError("torch finds no device")
    except Exception as error:
        LIBRARIES.pop(name, None)
        print(f"missing  {name}: {type(error).__name__}: {error}")


def reference(values, weights, mode="reflect", cval=0.0, origins=(0, 0)):
    """SciPy's correlation in float64, and the sum of all magnitudes, by another formula."""
    before = [side // 2 + origin for side, origin in zip(weights.shape, origins)]
    pads = [(above, side - 1 - above) for above, side in zip(before, weights.shape)]
    more = {"constant_values": cval} if PAD[mode] == "constant" else {}
    padded = np.pad(values.astype(np.float64), pads, PAD[mode], **more)
    right, bound = np.zeros(values.shape), np.zeros(values.shape)
    for (row, column), weight in np.ndenumerate(weights):
        part = weight * padded[row : row + values.shape[0], column : column + values.shape[1]]
        right += part
        bound += np.abs(part)
    return right, bound


def close(found, values, weights=WEIGHTS, **arguments):
    right, bound = reference(values, weights, **arguments)
    assert found.shape == right.shape, (found.shape, right.shape)
    error = np.abs(found - right)
    assert (error <= (bound + 1) * 2.0**-18).all(), f"largest error {np.nanmax(error)}, NaN: {np.isnan(error).sum()}"


def image(rows, columns, seed=1):
    return np.random.default_rng(seed).random((rows, columns), np.float32) * 255


def run(array, weights=WEIGHTS, mode="reflect", cval=0.0, origins=(0, 0), output=None):
    wrapped = _device.wrap(array)
    assert wrapped is not None, type(array)
    output = _device.empty(wrapped, wrapped.shape, np.float32) if output is None else output
    assert _device.correlate2d_f32(wrapped, weights, output, mode, cval, origins) is True
    return output


class OnlyInterface:
    """An array of no known library, by ``__cuda_array_interface__``."""

    def __init__(self, array, **keys):
        self.array = array
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__) | keys


class OnlyDLPack:
    """An array of no known library, by DLPack; an old producer does not know ``max_version``."""

    def __init__(self, array, is_old=False):
        self.array, self.is_old = array, is_old

    def __dlpack_device__(self):
        return tuple(int(part) for part in self.array.__dlpack_device__())

    def __dlpack__(self, *, stream=None, **arguments):
        if self.is_old and arguments:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.array.__dlpack__(stream=stream, **arguments)


class Copying:
    """A consumer's wish for a copy."""

    def __init__(self, array):
        self.array = array
        self.__dlpack_device__ = array.__dlpack_device__

    def __dlpack__(self, *, stream=None, **_):
        return self.array.__dlpack__(stream=stream, copy=True)


def cuda():
    return ctypes.CDLL("libcuda.so.1")


def current_context():
    context = ctypes.c_void_p()
    assert cuda().cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value


def busy(stream, seconds=0.2):
    """Occupies a stream, without waiting."""
    if "torch" in LIBRARIES:
        torch = LIBRARIES["torch"]
        with torch.cuda.stream(torch.cuda.ExternalStream(stream) if stream else torch.cuda.default_stream()):
            torch.cuda._sleep(int(seconds * 1.5e9))
        return
    cupy = LIBRARIES["cupy"]
    source = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'
    with cupy.cuda.ExternalStream(stream):
        cupy.RawKernel(source, "spin")((1,), (1,), (np.int64(seconds * 1.5e9),))


# CuPy


@check("cupy")
def cupy_values(cupy):
    for shape in [(64, 64), (1, 1), (5, 67), (1000, 1001), (513, 4096)]:
        for mode in PAD if shape[0] < 100 else ["mirror"]:
            if min(shape) < 5 and mode in ("mirror", "wrap", "grid-wrap"):
                continue
            values = image(*shape)
            output = run(cupy.asarray(values), mode=mode, cval=3.0, origins=(1, -1))
            assert type(output) is cupy.ndarray and output.dtype == np.float32
            close(output.get(), values, mode=mode, cval=3.0, origins=(1, -1))


@check("cupy")
def cupy_views(cupy):
    base = image(300, 400)
    on_device = cupy.asarray(base)
    for view in [np.s_[3:200], np.s_[:, 5:333], np.s_[::2], np.s_[7::3, 8:320]]:
        close(run(on_device[view]).get(), base[view])
    for view in [np.s_[:, ::2], np.s_[::-1]]:
        wrapped = _device.wrap(on_device[view])
        output = _device.empty(wrapped, wrapped.shape, np.float32)
        assert _device.correlate2d_f32(wrapped, WEIGHTS, output, "reflect", 0.0, (0, 0)) is False
    # Into a view, and in place.
    target = cupy.full((300, 400), -1, np.float32)
    run(on_device[:100, :90], output=target[50:150, 33:123])
    found = target.get()
    close(found[50:150, 33:123], base[:100, :90])
    found[50:150, 33:123] = -1
    assert (found == -1).all()
    for _ in range(20):
        again = cupy.asarray(base)
        run(again, output=again)
        close(again.get(), base)


@check("cupy")
def cupy_streams(cupy):
    values = image(700, 900)
    on_device, junk = cupy.asarray(values), cupy.full((700, 900), np.nan, np.float32)
    run(on_device)
    cupy.cuda.Device().synchronize()
    for stream in [cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(), cupy.cuda.Stream.null, cupy.cuda.Stream.ptds]:
        for layout in [np.s_[:, :], np.s_[:, 1:]]:
            with stream:
                run(on_device[layout])
                busy(stream.ptr, 0.001)
                late = junk.copy()
                stream.synchronize()
                start = time.perf_counter()
                busy(stream.ptr)
                late[...] = on_device
                output = run(late[layout])
                # The memory is free, and the next one writes it.
                del late
                next_one = junk.copy()
                took, is_done = time.perf_counter() - start, stream.done
                found = cupy.asnumpy(output, stream=stream)
            stream.synchronize()
            assert not is_done and took < 0.1, f"the call took {took} s, the stream had done its work: {is_done}"
            close(found, values[layout])
            del next_one


@check("cupy")
def cupy_temporaries(cupy):
    reused = 0
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        outputs = []
        for seed in range(200):
            weights = np.random.default_rng(seed).random((3 + seed % 5, 3))
            temporary = cupy.asarray(image(256, 300, seed)) * 1
            address = temporary.data.ptr
            output = run(temporary, weights)
            del temporary
            junk = cupy.full((256, 300), np.nan, np.float32)
            reused += junk.data.ptr == address
            outputs.append((seed, weights, output))
        for seed, weights, output in outputs:
            close(output.get(), image(256, 300, seed), weights)
    assert reused, "the memory of no temporary was used again"


@check("cupy")
def cupy_memory_stays(cupy):
    array = cupy.asarray(image(512, 513))
    free = lambda: cupy.cuda.runtime.memGetInfo()[0]
    run(array)
    cupy.cuda.Device().synchronize()
    before, used = free(), cupy.get_default_memory_pool().used_bytes()
    for seed in range(300):
        run(array, np.random.default_rng(seed).random((7, 7)))
    cupy.cuda.Device().synchronize()
    gc.collect()
    assert cupy.get_default_memory_pool().used_bytes() == used
    assert before - free() < 256 << 20, f"{before - free()} bytes are gone"


@check("cupy")
def cupy_threads(cupy):
    values, failed = image(300, 301), []

    def work(seed):
        try:
            weights = np.random.default_rng(seed).random((3, 9))
            with cupy.cuda.Stream(non_blocking=True):
                array = cupy.asarray(values)
                for _ in range(50):
                    output = run(array, weights)
                close(output.get(), values, weights)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed


@check("cupy")
def the_context_is_cupys(cupy):
    cupy.zeros(1)
    before = current_context()
    assert before
    run(cupy.asarray(image(100, 100)))
    assert current_context() == before
    # A thread without a context gets none.
    seen = []
    array = cupy.asarray(image(100, 100))
    interface = types.SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__)

    def work():
        seen.append(current_context())
        wrapped = _device.wrap(interface)
        run(wrapped)
        seen.append(current_context())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None, None], seen


@check("cupy")
def two_devices(cupy):
    count = cupy.cuda.runtime.getDeviceCount()
    assert len(faltung.devices()) == count
    if count < 2:
        print("         one device alone")
        return
    values = image(200, 300)
    with cupy.cuda.Device(1):
        array = cupy.asarray(values)
    with cupy.cuda.Device(0):
        output = run(array)
        other = cupy.zeros((200, 300), np.float32)
        assert output.device.id == 1 and cupy.cuda.runtime.getDevice() == 0
        try:
            run(array, output=other)
        except ValueError as error:
            assert "cuda:1, not on cuda:0" in str(error)
        else:
            raise AssertionError("an output on another device was taken")
    with cupy.cuda.Device(1):
        close(output.get(), values)
    if "torch" in LIBRARIES:
        torch = LIBRARIES["torch"]
        output = run(torch.tensor(values, device="cuda:1"))
        assert output.device.index == 1
        close(output.cpu().numpy(), values)


# Objects of no known library


@check("cupy")
def interfaces(cupy):
    values = image(300, 401)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        junk = cupy.full((300, 401), np.nan, np.float32)
        on_device = cupy.asarray(values)
        stream.synchronize()
        busy(stream.ptr)
        junk[...] = on_device
    # The array names the stream that has not written it yet.
    output = run(OnlyInterface(junk, stream=stream.ptr))
    assert type(output) is faltung.DeviceArray and output.stream == stream.ptr
    with stream:
        close(cupy.asarray(output).get(), values)
    close(cupy.asarray(run(OnlyInterface(on_device, stream=None))).get(), values)
    view = on_device[:, 3:77]
    close(cupy.asarray(run(OnlyInterface(view, stream=1))).get(), values[:, 3:77])


@check("cupy")
def interfaces_of_wrong_memory(cupy):
    def refused(array, error, words, **keys):
        try:
            _device.wrap(OnlyInterface(array, **keys))
        except error as found:
            assert words in str(found), found
        else:
            raise AssertionError(f"{keys} was taken")

    array = cupy.zeros((8, 8), np.float32)
    refused(array, ValueError, "no memory of a device", data=(np.zeros(64).ctypes.data, False))
    managed = cupy.ndarray((8, 8), np.float32, cupy.cuda.malloc_managed(256))
    refused(managed, TypeError, "managed memory")
    locked = cupy.cuda.alloc_pinned_memory(256)
    refused(array, TypeError, "page-locked", data=(locked.ptr, False))
    address = cupy.cuda.runtime.malloc(64 << 20)
    cupy.cuda.runtime.free(address)
    refused(array, ValueError, "was it freed", data=(address, False))
    refused(array, ValueError, "null", data=(0, False))


@check("cupy")
def tensors(cupy):
    values = image(300, 401)
    for is_old in [False, True]:
        array = cupy.asarray(values)
        output = run(OnlyDLPack(array, is_old))
        del array
        assert type(output) is faltung.DeviceArray and output.__dlpack_device__() == (2, 0)
        close(cupy.from_dlpack(output).get(), values)
        close(cupy.asarray(output).get(), values)
        copied = cupy.from_dlpack(Copying(output))
        assert copied.data.ptr != output.pointer
        close(copied.get(), values)
    # The work of the producer's stream comes first.
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        late, on_device = cupy.full((300, 401), np.nan, np.float32), cupy.asarray(values)
        stream.synchronize()
        busy(stream.ptr)
        late[...] = on_device
        output = run(OnlyDLPack(late))
    close(cupy.from_dlpack(output).get(), values)


@check("cupy")
def tensors_that_outlive_all(cupy):
    values = image(128, 128)
    array = cupy.from_dlpack(run(OnlyDLPack(cupy.asarray(values))))
    gc.collect()
    cupy.full((128, 128), np.nan, np.float32)
    close(array.get(), values)
    _device.release_finished(wait=True)


@check("cupy")
def cupy_opencv(cupy):
    opencv_functions(cupy.asarray, lambda array: array.get())
    # Views are copied where their pixels have gaps, and images of more than four channels go in parts.
    values = opencv_image((90, 70, 6), np.uint8)
    found = faltung.blur(cupy.asarray(values)[::2, ::-1], (5, 3))
    np.testing.assert_array_equal(found.get(), faltung.blur(values[::2, ::-1], (5, 3)))


def opencv_image(shape, kind):
    return np.random.default_rng(4).integers(0, 256, shape).astype(kind)


def opencv_functions(to_device, to_host):
    """OpenCV's functions on the device give the bits of the CPU."""
    row, column, exact = [0.25, 0.5, 0.25], [-1, 0, 2], {"accuracy": "exact"}
    for kind in (np.uint8, np.uint16, np.float32):
        for shape in [(333, 517), (120, 257, 3), (1, 90, 4), (64, 1)]:
            values = opencv_image(shape, kind)
            given = to_device(values)
            for function in [
                lambda image: faltung.filter2D(image, -1, WEIGHTS, delta=4, **exact),
                lambda image: faltung.filter2D(image, 5, np.outer(column, row), borderType="wrap", **exact),
                lambda image: faltung.sepFilter2D(image, 5, row, column, **exact),
                lambda image: faltung.GaussianBlur(image, (9, 9), 1.5, **exact),
                lambda image: faltung.blur(image, (5, 5), **exact),
            ]:
                on_host, result = function(values), function(given)
                assert type(result) is type(given)
                found = to_host(result)
                assert found.dtype == on_host.dtype and found.shape == on_host.shape
                # The CPU sums some images of uint16 in float64.
                distance = np.abs(found.astype(np.float64) - on_host).max()
                assert distance <= (kind == np.uint16 and on_host.dtype == np.uint16), (kind, shape, distance)


# PyTorch


@check("torch")
def torch_opencv(torch):
    opencv_functions(lambda values: torch.tensor(values, device="cuda"), lambda tensor: tensor.cpu().numpy())


@check("torch")
def torch_values(torch):
    values = image(333, 517)
    tensor = torch.tensor(values, device="cuda")
    for mode in PAD:
        output = run(tensor, mode=mode, cval=2.0)
        assert type(output) is torch.Tensor and output.device == tensor.device and output.dtype == torch.float32
        close(output.cpu().numpy(), values, mode=mode, cval=2.0)
    close(run(tensor[:, 11:300]).cpu().numpy(), values[:, 11:300])
    close(run(tensor[::3]).cpu().numpy(), values[::3])
    wrapped = _device.wrap(tensor)
    assert _device.empty(wrapped, (2, 3), np.float64).dtype == torch.float64
    assert _device.empty(wrapped, (2, 3), np.uint8).dtype == torch.uint8
    target = torch.zeros_like(tensor)
    run(tensor, output=target)
    close(target.cpu().numpy(), values)


@check("torch")
def torch_streams(torch):
    values = image(700, 900)
    tensor = torch.tensor(values, device="cuda")
    run(tensor)
    torch.cuda.synchronize()
    for stream in [torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.default_stream()]:
        with torch.cuda.stream(stream):
            late = torch.full_like(tensor, float("nan"))
            run(late)
            stream.synchronize()
            start = time.perf_counter()
            torch.cuda._sleep(int(0.2 * 1.5e9))
            late.copy_(tensor)
            torch.cuda.set_sync_debug_mode("error")
            try:
                output = run(late)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            address = late.data_ptr()
            del late
            junk = torch.full_like(tensor, float("nan"))
            took, is_done = time.perf_counter() - start, stream.query()
            assert junk.data_ptr() == address, "the allocator did not use the memory again"
            close(output.cpu().numpy(), values)
        assert not is_done and took < 0.1, f"the call took {took} s, the stream had done its work: {is_done}"


@check("torch")
def torch_refusals(torch):
    def refused(tensor, error, words):
        try:
            _device.wrap(tensor)
        except error as found:
            assert words in str(found), found
        else:
            raise AssertionError(f"{words}: it was taken")

    ones = torch.ones((4, 4), device="cuda")
    refused(ones.clone().requires_grad_(), RuntimeError, "detach")
    refused(ones.to(torch.bfloat16), TypeError, "bfloat16")
    refused(ones.to_sparse(), TypeError, "dense")
    refused(ones.to(torch.complex64).conj(), ValueError, "resolve_conj")
    refused(ones.to(torch.complex64).conj().imag, ValueError, "resolve_neg")
    refused(torch.ones((4, 4), device="meta"), TypeError, "meta")
    freed = ones.clone()
    freed.untyped_storage().resize_(0)
    refused(freed, Exception, "")


@check("torch")
def torch_on_the_cpu(torch):
    tensor = torch.arange(12.0).reshape(3, 4)
    assert _device.wrap(tensor) is None


@check("torch")
def torch_tensors(torch):
    values = image(100, 101)
    output = run(OnlyDLPack(torch.tensor(values, device="cuda")))
    close(torch.from_dlpack(output).cpu().numpy(), values)
    close(torch.as_tensor(output, device="cuda").cpu().numpy(), values)


# Numba and JAX


@check("numba")
def numba_arrays(numba):
    values = image(300, 401)
    array = numba.to_device(values)
    output = run(array)
    assert type(output) is type(array), type(output)
    close(output.copy_to_host(), values)
    close(run(array[5:200, 7:300]).copy_to_host(), values[5:200, 7:300])
    stream = numba.stream()
    array = numba.to_device(values, stream=stream)
    assert _device.wrap(array).stream == int(stream)
    output = run(array)
    stream.synchronize()
    numba.synchronize()
    close(output.copy_to_host(), values)


@check("jax")
def jax_arrays(jax):
    values = image(300, 401)
    array = jax.numpy.asarray(values)
    if not hasattr(array, "__cuda_array_interface__"):
        print("         jax has no GPU here")
        return
    output = run(array)
    del array
    assert type(output) is faltung.DeviceArray
    close(np.asarray(jax.dlpack.from_dlpack(output)), values)


# What belongs to no library


@check("cupy")
def a_fork(cupy):
    array = cupy.asarray(image(16, 16))
    run(array)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run(array)
            text = "it was computed"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert text.startswith("RuntimeError") and "forked" in text, text


@check()
def information():
    info = faltung.info()
    assert info["devices"] and info["reason"] is None and info["driver"], info
    print("        ", info["cpu"], "|", info["devices"][0].name, info["devices"][0].compute_capability, "| driver", info["driver"])


@check()
def overhead():
    """The time of calls for 64 x 64 values, without waiting; printed, with no limit."""
    weights = np.ones((3, 3))
    makers = {
        "cupy": lambda module: module.asarray(image(64, 64)),
        "torch": lambda module: module.tensor(image(64, 64), device="cuda"),
    }
    for name, make in makers.items():
        if name not in LIBRARIES:
            continue
        array = make(LIBRARIES[name])
        wrapped = _device.wrap(array)
        output = _device.empty(wrapped, (64, 64), np.float32)
        dtype = wrapped.dtype
        correlate = _device.correlate2d_f32

        def whole():
            wrapped = _device.wrap(array)
            output = _device.empty(wrapped, (64, 64), dtype)
            correlate(wrapped, weights, output, "reflect", 0.0, (0, 0))

        parts = {
            "wrap": lambda: _device.wrap(array),
            "empty": lambda: _device.empty(wrapped, (64, 64), dtype),
            "correlate": lambda: correlate(wrapped, weights, output, "reflect", 0.0, (0, 0)),
            "all": whole,
        }
        for part, call in parts.items():
            times = []
            for _ in range(30):
                cuda().cuCtxSynchronize()
                start = time.perf_counter()
                for _ in range(100):
                    call()
                times.append((time.perf_counter() - start) * 1e4)
            times.sort()
            print(f"         {name:6} {part:10} {times[len(times) // 2]:7.2f} us (median of 30 times 100 calls; best {times[0]:.2f})")


def main():
    # JAX would take most of the memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--require", default="", help="libraries that must be there, by commas")
    parser.add_argument("--only", default="", help="run the checks whose names contain this")
    arguments = parser.parse_args()
    for name, module in [("cupy", "cupy"), ("torch", "torch"), ("numba", "numba.cuda"), ("jax", "jax")]:
        load(name, module)
    failed = [f"{name} is missing" for name in filter(None, arguments.require.split(",")) if name not in LIBRARIES]
    if not faltung.devices():
        failed.append(f"no device: {faltung.info()['reason']}")
    passed = 0
    for function, needs in CHECKS:
        if arguments.only not in function.__name__:
            continue
        if any(name not in LIBRARIES for name in needs):
            print(f"left out {function.__name__}")
            continue
        try:
            function(*(LIBRARIES[name] for name in needs))
        except BaseException as error:
            traceback.print_exc()
            print(f"FAILED   {function.__name__}: {type(error).__name__}: {error}", flush=True)
            failed.append(function.__name__)
        else:
            passed += 1
            print(f"ok       {function.__name__}", flush=True)
    print(f"{passed} passed, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
