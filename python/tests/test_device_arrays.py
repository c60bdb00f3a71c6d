"""Device arrays on a machine without a GPU: what is refused and why, arrays of the CPU by DLPack, and the whole path on
a driver that runs the kernels in an emulator (``with_fake_driver/``)."""

import copy
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import weakref

import dlpack_by_hand as dl
import numpy as np
import pytest

import faltung
from faltung import _device

HERE = pathlib.Path(__file__).parent
HAS_GPU = bool(faltung.devices())


class Interface:
    def __init__(self, **keys):
        self.__cuda_array_interface__ = {
            "shape": (4, 4),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
        } | keys


def on_cpu(array, **keys):
    strides = tuple(stride // array.itemsize for stride in array.strides)
    keys = {"strides": strides} | keys
    return dl.Producer(
        array.ctypes.data,
        array.shape,
        kind=array.dtype.kind,
        bits=array.itemsize * 8,
        device=(dl.CPU, 0),
        keep=array,
        **keys,
    )


def test_what_is_not_on_a_device_is_none():
    for host in [np.zeros(3), np.float32(1), [1.0], (1,), 3, 2.5, None, "x", np.ma.zeros(3), range(3), object()]:
        assert _device.wrap(host) is None
    assert _device.wrap(np.ndarray) is None


@pytest.mark.parametrize("version", [(1, 0), (1, 1), None])
def test_arrays_of_the_cpu_are_on_no_device(version):
    producer = on_cpu(np.zeros((2, 3)), version=version)
    assert _device.wrap(producer) is None
    assert producer.deleted == 0


@pytest.mark.parametrize(
    "keys, error, words",
    [
        ({"typestr": "|O"}, TypeError, "type object"),
        ({"typestr": "<M8[s]"}, TypeError, "datetime64"),
        ({"typestr": "|S4"}, TypeError, "S4"),
        ({"typestr": "|V8"}, TypeError, "V8"),
        ({"typestr": "float of some kind"}, ValueError, "typestr"),
        ({"data": (0, False)}, ValueError, "null"),
        ({"data": (4097, False)}, ValueError, "multiples of 4"),
        ({"data": 5}, ValueError, "data"),
        ({"data": (-4, False)}, ValueError, "data"),
        ({"strides": (18, 4)}, ValueError, "multiples of 4"),
        ({"strides": (16, 4, 4)}, ValueError, "2 strides"),
        ({"strides": "wide"}, ValueError, "strides"),
        ({"stream": 0}, ValueError, "stream"),
        ({"stream": -1}, ValueError, "stream"),
        ({"stream": "fast"}, ValueError, "stream"),
        ({"mask": object()}, ValueError, "mask"),
        ({"version": 1}, ValueError, "version"),
        ({"version": None}, ValueError, "version"),
        ({"shape": 3}, ValueError, "shape"),
        ({"shape": (-1, 2)}, ValueError, "shape"),
        ({"shape": (2**40, 2**40)}, ValueError, "more than memory"),
    ],
)
def test_interfaces_that_contradict_themselves(keys, error, words):
    with pytest.raises(error, match=words):
        _device.wrap(Interface(**keys))


def test_an_interface_that_is_no_dict_or_lacks_a_key():
    array = Interface()
    array.__cuda_array_interface__ = 5
    with pytest.raises(ValueError, match="must be a dict, not 5"):
        _device.wrap(array)
    array = Interface()
    del array.__cuda_array_interface__["data"]
    with pytest.raises(ValueError, match="must have the key \"data\""):
        _device.wrap(array)


def test_an_object_whose_interface_raises():
    class Broken:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("the memory is gone")

    with pytest.raises(RuntimeError, match="the memory is gone"):
        _device.wrap(Broken())


@pytest.mark.parametrize("device, words", [(dl.CUDA_HOST, "page-locked"), (dl.ROCM, "ROCm"), (dl.MANAGED, "managed"), (99, "99")])
def test_other_kinds_of_memory(device, words):
    producer = dl.Producer(4096, (2, 2), device=(device, 0))
    for function in [_device.wrap]:
        with pytest.raises(TypeError, match=words):
            function(producer)
    assert producer.calls == [] and producer.deleted == 0


def test_a_device_that_is_no_pair():
    producer = dl.Producer(4096, (2, 2))
    producer.device = "cuda:0"
    with pytest.raises(ValueError, match="__dlpack_device__"):
        _device.wrap(producer)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_without_a_driver():
    with pytest.raises(RuntimeError, match="no CUDA device can be used"):
        _device.wrap(Interface())
    producer = dl.Producer(4096, (2, 2))
    with pytest.raises(RuntimeError, match="no CUDA device can be used"):
        _device.wrap(producer)
    assert producer.calls == [], "the producer is not asked for what nobody can take"
    assert faltung.devices() == []
    info = faltung.info()
    assert info["driver"] is None and info["devices"] == [] and "no CUDA device" in info["reason"]


def test_refused_objects_are_not_kept():
    array = Interface(typestr="|O")
    before = sys.getrefcount(array)
    for _ in range(5):
        with pytest.raises(TypeError):
            _device.wrap(array)
    gc.collect()
    assert sys.getrefcount(array) == before


def test_info():
    info = faltung.info()
    assert set(info) == {"version", "cpu", "threads", "devices", "driver", "reason"}
    assert info["version"] == faltung.__version__ and info["threads"] >= 1 and "CPU" in info["cpu"]
    assert (info["reason"] is None) == bool(info["devices"])
    assert info["devices"] == faltung.devices()


def test_devices_by_name():
    cpu = faltung.Device("cpu")
    assert (cpu.kind, cpu.index, str(cpu), repr(cpu)) == ("cpu", 0, "cpu", "Device('cpu')")
    assert cpu == faltung.Device("cpu") and hash(cpu) == hash(faltung.Device("cpu")) and cpu != "cpu"
    assert cpu.name and cpu.memory is None and cpu.compute_capability is None
    for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cuda0", "cuda:0:0"]:
        with pytest.raises(ValueError, match="name must be"):
            faltung.Device(name)
    for other in [None, 0, b"cpu"]:
        with pytest.raises(TypeError, match=f"name must be .*, not {other!r}"):
            faltung.Device(other)
    with pytest.raises((RuntimeError, ValueError), match="cuda"):
        faltung.Device("cuda:63")


def test_copies_of_devices():
    cpu = faltung.Device("cpu")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(cpu, protocol))
        assert type(found) is faltung.Device and found == cpu
    assert copy.copy(cpu) == copy.deepcopy(cpu) == cpu
    info = faltung.info()
    assert pickle.loads(pickle.dumps(info)) == copy.deepcopy(info) == info


def test_classes_of_arrays_that_were_seen_may_end():
    def see():
        class Seen:
            pass

        assert _device.wrap(Seen()) is None
        assert _device.wrap(Seen()) is None
        return weakref.ref(Seen)

    ends = [see() for _ in range(100)]
    gc.collect()
    assert not any(end() for end in ends)


def fake_driver():
    """The driver library for tests, which ``cargo build -p fake_cuda`` makes; None if it is not there."""
    named = os.environ.get("FALTUNG_FAKE_CUDA")
    if named:
        return pathlib.Path(named)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
    built = [target / folder / "libfake_cuda.so" for folder in ["release", "debug"]]
    return next((path for path in built if path.exists()), None)


def test_the_whole_path_on_a_fake_driver(tmp_path):
    library = fake_driver()
    if library is None:
        if os.environ.get("FALTUNG_REQUIRE_FAKE_CUDA"):
            pytest.fail("libfake_cuda.so is missing: cargo build -p fake_cuda")
        pytest.skip("libfake_cuda.so is missing: cargo build -p fake_cuda")
    assert library.exists(), library
    (tmp_path / "libcuda.so.1").symlink_to(library.resolve())
    tests = HERE / "with_fake_driver"
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(tmp_path),
        "FAKE_CUDA": "pageable=late;delay_us=60000000;devices=2",
        "PYTHONPATH": os.pathsep.join([str(HERE), str(tests), *sys.path]),
    }
    files = [str(tests / f"{name}.py") for name in ["filters", "tensors", "libraries", "processes"]]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "device_by_hand", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
