"""DLPack capsules made and read with ctypes, so that tests see every field, every call of a deleter, every reference."""

import ctypes as c

CPU, CUDA, CUDA_HOST, ROCM, MANAGED = 1, 2, 3, 10, 13
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


DELETER = c.CFUNCTYPE(None, c.c_void_p)


class Unversioned(c.Structure):
    _fields_ = [("tensor", Tensor), ("context", c.c_void_p), ("deleter", DELETER)]


class Versioned(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("context", c.c_void_p),
        ("deleter", DELETER),
        ("flags", c.c_uint64),
        ("tensor", Tensor),
    ]


API = c.pythonapi
API.PyCapsule_New.restype = c.py_object
API.PyCapsule_New.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
API.PyCapsule_GetName.restype = c.c_char_p
API.PyCapsule_GetName.argtypes = [c.py_object]
API.PyCapsule_GetPointer.restype = c.c_void_p
API.PyCapsule_GetPointer.argtypes = [c.py_object, c.c_char_p]
API.PyCapsule_SetName.restype = c.c_int
API.PyCapsule_SetName.argtypes = [c.py_object, c.c_char_p]

# A capsule does not copy its name.
NAME, NAME_VERSIONED = b"dltensor", b"dltensor_versioned"
USED, USED_VERSIONED = b"used_dltensor", b"used_dltensor_versioned"


class Producer:
    """An object with DLPack. ``deleted`` counts the calls of its deleter, ``calls`` has the arguments that it got."""

    def __init__(
        self,
        pointer,
        shape,
        kind="f",
        bits=32,
        strides=None,
        device=(CUDA, 0),
        says=None,
        version=(1, 0),
        takes_max_version=True,
        read_only=False,
        byte_offset=0,
        lanes=1,
        keep=None,
        code=None,
    ):
        self.deleted = 0
        self.calls = []
        self.capsules = []
        self.device = says or device
        self.takes_max_version = takes_max_version
        self.keep = keep
        numbers = lambda values: (c.c_int64 * len(values))(*values) if values is not None else None
        self.numbers = (numbers(shape), numbers(strides))
        tensor = Tensor(
            pointer,
            *device,
            len(shape),
            CODES[kind] if code is None else code,
            bits,
            lanes,
            c.cast(self.numbers[0], c.POINTER(c.c_int64)) if shape is not None else None,
            c.cast(self.numbers[1], c.POINTER(c.c_int64)) if strides is not None else None,
            byte_offset,
        )

        def delete(managed):
            assert managed == c.addressof(self.managed)
            self.deleted += 1

        self.deleter = DELETER(delete)
        if takes_max_version and version is not None:
            self.name = NAME_VERSIONED
            self.managed = Versioned(*version, None, self.deleter, int(read_only), tensor)
        else:
            self.name = NAME
            self.managed = Unversioned(tensor, None, self.deleter)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        self.calls.append(arguments)
        if "max_version" in arguments and not self.takes_max_version:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        capsule = API.PyCapsule_New(c.addressof(self.managed), self.name, None)
        self.capsules.append(capsule)
        return capsule


def take(capsule):
    """The tensor of a capsule, whose name says afterwards that it was taken."""
    name = API.PyCapsule_GetName(capsule)
    kind, used = {NAME: (Unversioned, USED), NAME_VERSIONED: (Versioned, USED_VERSIONED)}[name]
    managed = kind.from_address(API.PyCapsule_GetPointer(capsule, name))
    assert API.PyCapsule_SetName(capsule, used) == 0
    return managed
