//! Modules, their arrays, and functions.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome, WAITS_OR_FREES, put};
use crate::ptx;
use crate::table::Handle;

/// The attribute of a function for the most dynamic shared memory of its blocks.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
/// Dynamic shared memory that needs no opting in.
const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;
/// The most after opting in.
const SHARED_WITH_OPT_IN: u32 = 227 * 1024;

/// A module.
pub(crate) struct Module {
    pub(crate) context: Handle,
    /// By name, the handles that were given out.
    entries: BTreeMap<String, Option<Handle>>,
    /// With their addresses.
    pub(crate) arrays: Vec<(ptx::Array, u64)>,
}

/// A function of a module.
pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) symbol: String,
    /// The most dynamic shared memory of its blocks.
    pub(crate) shared_limit: u32,
}

/// The text of a C string.
///
/// # Safety
/// `text` is null or a C string.
unsafe fn text(text: *const c_char) -> Outcome<String> {
    if text.is_null() {
        return Err(Failure::misuse(Code::INVALID_VALUE, "a null pointer for a text"));
    }
    // SAFETY: not null, so the caller vouches for it.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Loads PTX as a just-in-time compiler would, but for the instructions.
fn load(driver: &mut Driver, module: *mut Handle, source: &str) -> Outcome {
    driver.refuse_during_capture("cuModuleLoadData")?;
    let context = driver.current()?;
    let declared = ptx::parse(source).ok_or(Code::INVALID_PTX)?;
    if declared.target > driver.settings.compute {
        return Err(Code::NO_BINARY_FOR_GPU.into());
    }
    let entries = declared.entries.into_iter().map(|entry| (entry, None)).collect();
    let made = driver.modules.insert(Module { context, entries, arrays: Vec::new() });
    for array in declared.arrays {
        let address = driver.memory.allocate(array.bytes, context, Some(made))?;
        driver.modules.get_mut(made)?.arrays.push((array, address));
    }
    // SAFETY: the caller's pointer, of the type that the driver's function asks for.
    unsafe { put(module, made) }
}

driver_functions! {
    /// PTX with a NUL at its end.
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) at CONTEXT, |driver| {
        // SAFETY: PTX is a C string.
        let source = unsafe { text(image.cast()) }?;
        load(driver, module, &source)
    }

    /// The options make no difference.
    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        _options: c_uint,
        _keys: *mut c_uint,
        _values: *mut *mut c_void,
    ) at CONTEXT, |driver| {
        // SAFETY: PTX is a C string.
        let source = unsafe { text(image.cast()) }?;
        load(driver, module, &source)
    }

    /// After the work that uses it.
    fn cuModuleUnload(module: Handle) at WAITS_OR_FREES, |driver| {
        driver.modules.get(module)?;
        // A failure of the work shows at the next call.
        let _ = driver.drain(|_| true);
        driver.modules.remove(module)?;
        driver.functions.retain(|function| function.module != module);
        driver.memory.end_module(module);
        Ok(())
    }

    /// The same handle each time.
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) at CONTEXT, |driver| {
        // SAFETY: the caller's C string.
        let symbol = unsafe { text(name) }?;
        let known = *driver.modules.get(module)?.entries.get(&symbol).ok_or(Code::NOT_FOUND)?;
        let handle = known.unwrap_or_else(|| {
            let shared_limit = SHARED_WITHOUT_OPT_IN;
            driver.functions.insert(Function { module, symbol: symbol.clone(), shared_limit })
        });
        driver.modules.get_mut(module)?.entries.insert(symbol, Some(handle));
        // SAFETY: the caller's pointer, of the type that the driver's function asks for.
        unsafe { put(function, handle) }
    }

    /// An array in constant or global memory.
    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char) at CONTEXT, |driver| {
        // SAFETY: the caller's C string.
        let symbol = unsafe { text(name) }?;
        let found = driver.modules.get(module)?.arrays.iter().find(|(array, _)| array.name == symbol);
        let (array, at) = found.ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller's pointers, of the types that the driver's function asks for; null is allowed.
        unsafe {
            if !address.is_null() {
                put(address, *at)?;
            }
            if !bytes.is_null() {
                put(bytes, array.bytes)?;
            }
        }
        Ok(())
    }

    /// The module that a function is of.
    fn cuFuncGetModule(module: *mut Handle, function: Handle) at CONTEXT, |driver| {
        let found = driver.functions.get(function)?.module;
        // SAFETY: the caller's pointer, of the type that the driver's function asks for.
        unsafe { put(module, found) }
    }

    /// Threads of a block and dynamic shared memory; others are 0.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: u32, function: Handle) at CONTEXT, |driver| {
        let found = driver.functions.get(function)?;
        let number = match attribute {
            0 => 1024,
            MAX_DYNAMIC_SHARED_SIZE_BYTES => found.shared_limit as c_int,
            _ => 0,
        };
        // SAFETY: the caller's pointer, of the type that the driver's function asks for.
        unsafe { put(value, number) }
    }

    /// Dynamic shared memory up to what an H100 has.
    fn cuFuncSetAttribute(function: Handle, attribute: u32, value: c_int) at CONTEXT, |driver| {
        let function = driver.functions.get_mut(function)?;
        if attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES {
            let limit = u32::try_from(value).ok().filter(|&bytes| bytes <= SHARED_WITH_OPT_IN);
            function.shared_limit = limit.ok_or(Code::INVALID_VALUE)?;
        }
        Ok(())
    }

    /// Makes no difference.
    fn cuFuncSetCacheConfig(function: Handle, _config: c_uint) at CONTEXT, |driver| {
        driver.functions.get(function).map(|_| ())
    }
}
