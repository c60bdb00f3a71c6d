//! The device. It has the attributes of an H100, and less memory.

use std::ffi::{c_char, c_int};

use crate::code::Code;
use crate::driver::{CONTEXT, Outcome, PLAIN, State, put};

/// The multiprocessors of an H100 with HBM3, so that plans are the same.
const NAME: &std::ffi::CStr = c"Fake H100 for tests";
/// The driver version: CUDA 12.4.
const VERSION: c_int = 12_040;

impl State {
    /// Checks the number of a device.
    pub(crate) fn device(&self, device: c_int) -> Outcome {
        if (0..self.settings.devices).contains(&device) { Ok(()) } else { Err(Code::INVALID_DEVICE.into()) }
    }

    /// The value of an attribute.
    fn attribute(&self, attribute: u32) -> Option<c_int> {
        let (major, minor) = self.settings.compute;
        if self.settings.unknown.contains(&attribute) {
            return None;
        }
        Some(match attribute {
            // Threads of a block, total and per axis.
            1..=3 => 1024,
            4 => 64,
            // Blocks of a grid per axis.
            5 => i32::MAX,
            6 | 7 => 65_535,
            // Shared memory of a block without opting in, constant memory, the size of a warp, the largest pitch.
            8 => 49_152,
            9 => 65_536,
            10 => 32,
            11 => i32::MAX,
            // Registers of a block, the clock in kHz, the alignment of textures.
            12 => 65_536,
            13 => 1_980_000,
            14 => 512,
            // Copies overlap, multiprocessors, no time limit, discrete, maps host memory, any process.
            15 => 1,
            16 => 132,
            17 | 18 | 20 => 0,
            19 => 1,
            // Concurrent kernels, ECC, PCI bus and device, no TCC.
            31 | 32 => 1,
            33 => 1,
            34 | 35 | 50 => 0,
            // Memory's clock and bus, the L2 cache, threads of a multiprocessor, copy engines, unified addressing.
            36 => 2_619_000,
            37 => 5120,
            38 => 52_428_800,
            39 => 2048,
            40 => 3,
            41 => 1,
            75 => major as c_int,
            76 => minor as c_int,
            // Priorities, caches, shared memory and registers of a multiprocessor, managed memory.
            78..=80 | 83 => 1,
            81 => 233_472,
            82 => 65_536,
            // Whether the device reads pageable memory by itself.
            88 | 100 => c_int::from(self.settings.pageable_late),
            // Host pointers of registered memory, shared memory of a block after opting in, registering.
            91 | 99 => 1,
            97 => 232_448,
            106 => 32,
            111 => 1024,
            _ => return None,
        })
    }
}

driver_functions! {
    /// All other functions need it before.
    fn cuInit(flags: u32) at PLAIN, |driver| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE.into());
        }
        if driver.settings.devices == 0 {
            return Err(Code::NO_DEVICE.into());
        }
        driver.initialised = true;
        Ok(())
    }

    /// Allowed before `cuInit`.
    fn cuDriverGetVersion(version: *mut c_int) at PLAIN, |_driver| {
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(version, VERSION) }
    }

    /// The number of devices of the settings.
    fn cuDeviceGetCount(count: *mut c_int) at PLAIN, |driver| {
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(count, driver.settings.devices) }
    }

    /// A device's handle is its number.
    fn cuDeviceGet(device: *mut c_int, number: c_int) at PLAIN, |driver| {
        driver.device(number)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(device, number) }
    }

    /// The name with its NUL, cut to the caller's room.
    fn cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int) at PLAIN, |driver| {
        driver.device(device)?;
        let bytes = NAME.to_bytes();
        let length = bytes.len().min((room.max(0) as usize).saturating_sub(1));
        if name.is_null() || room < 1 {
            return Err(Code::INVALID_VALUE.into());
        }
        // SAFETY: the caller's buffer has `room` bytes, at least `length` and a NUL.
        unsafe {
            name.copy_from_nonoverlapping(bytes.as_ptr().cast(), length);
            name.add(length).write(0);
        }
        Ok(())
    }

    /// The attributes that a program may plan with.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: u32, device: c_int) at PLAIN, |driver| {
        driver.device(device)?;
        let found = driver.attribute(attribute).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(value, found) }
    }

    /// The memory of the settings.
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) at PLAIN, |driver| {
        driver.device(device)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(bytes, driver.settings.memory) }
    }

    /// The memory that is not allocated counts as free.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) at CONTEXT, |driver| {
        let memory = driver.settings.memory;
        // SAFETY: each pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe {
            put(free, memory.saturating_sub(driver.memory.used()))?;
            put(total, memory)
        }
    }
}
