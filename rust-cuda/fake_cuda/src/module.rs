//! Modules, their arrays, and functions.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome, WAITS_OR_FREES, put};
use crate::ptx;
use crate::table::Handle;

/// The attribute of a function for its shared arrays of a fixed length in bytes.
const SHARED_SIZE_BYTES: u32 = 1;
/// The attribute of a function for the most dynamic shared memory of its blocks.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
/// The most shared memory of a block without opting in.
const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;
/// The most shared memory of a block after opting in.
const SHARED_WITH_OPT_IN: u32 = 227 * 1024;

/// A module.
pub(crate) struct Module {
    pub(crate) context: Handle,
    /// The bytes of shared arrays, and the handles of functions that were returned, by name.
    entries: BTreeMap<String, (u32, Option<Handle>)>,
    /// The arrays with their addresses.
    pub(crate) arrays: Vec<(ptx::Array, u64)>,
}

/// A function of a module.
pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) symbol: String,
    /// The bytes of its shared arrays of a fixed length.
    shared_bytes: u32,
    /// The most dynamic shared memory of its blocks.
    pub(crate) shared_limit: u32,
}

/// The text of a C string.
///
/// # Safety
/// - `text` is null or a C string.
unsafe fn text(text: *const c_char) -> Outcome<String> {
    if text.is_null() {
        return Err(Failure::misuse(Code::INVALID_VALUE, "a null pointer for a text"));
    }
    // SAFETY: `text` is not null, so it is a C string.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Loads the declarations of PTX.
fn load(driver: &mut Driver, module: *mut Handle, source: &str) -> Outcome {
    driver.refuse_during_capture("cuModuleLoadData")?;
    let context = driver.current()?;
    let declared = ptx::parse(source).ok_or(Code::INVALID_PTX)?;
    if declared.target > driver.settings.compute {
        return Err(Code::NO_BINARY_FOR_GPU.into());
    }
    let entries = declared.entries.into_iter().map(|entry| (entry.name, (entry.shared_bytes as u32, None))).collect();
    let made = driver.modules.insert(Module { context, entries, arrays: Vec::new() });
    for array in declared.arrays {
        let address = driver.memory.allocate(array.bytes, context, Some(made))?;
        driver.modules.get_mut(made)?.arrays.push((array, address));
    }
    // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
    unsafe { put(module, made) }
}

driver_functions! {
    /// The image is PTX with a NUL at its end.
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) at CONTEXT, |driver| {
        // SAFETY: the image is a C string: this driver takes PTX only, which ends with a NUL.
        let source = unsafe { text(image.cast()) }?;
        load(driver, module, &source)
    }

    /// The options have no effect.
    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        _options: c_uint,
        _keys: *mut c_uint,
        _values: *mut *mut c_void,
    ) at CONTEXT, |driver| {
        // SAFETY: the image is a C string: this driver takes PTX only, which ends with a NUL.
        let source = unsafe { text(image.cast()) }?;
        load(driver, module, &source)
    }

    /// Waits for the work that uses the module.
    fn cuModuleUnload(module: Handle) at WAITS_OR_FREES, |driver| {
        driver.modules.get(module)?;
        // A failure of the work appears at the next call.
        let _ = driver.drain(|_| true);
        driver.modules.remove(module)?;
        driver.functions.retain(|function| function.module != module);
        driver.memory.end_module(module);
        Ok(())
    }

    /// Returns the same handle each time.
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) at CONTEXT, |driver| {
        // SAFETY: the pointer is null or a C string, by the contract of all driver functions.
        let symbol = unsafe { text(name) }?;
        let (shared_bytes, known) = *driver.modules.get(module)?.entries.get(&symbol).ok_or(Code::NOT_FOUND)?;
        let handle = known.unwrap_or_else(|| {
            let shared_limit = SHARED_WITHOUT_OPT_IN.saturating_sub(shared_bytes);
            driver.functions.insert(Function { module, symbol: symbol.clone(), shared_bytes, shared_limit })
        });
        driver.modules.get_mut(module)?.entries.insert(symbol, (shared_bytes, Some(handle)));
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(function, handle) }
    }

    /// An array in constant or global memory.
    fn cuModuleGetGlobal_v2(
        address: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char
    ) at CONTEXT, |driver| {
        // SAFETY: the pointer is null or a C string, by the contract of all driver functions.
        let symbol = unsafe { text(name) }?;
        let found = driver.modules.get(module)?.arrays.iter().find(|(array, _)| array.name == symbol);
        let (array, at) = found.ok_or(Code::NOT_FOUND)?;
        // SAFETY: each pointer is null or valid for a write of its type, by the contract of all driver functions.
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

    /// The module of a function.
    fn cuFuncGetModule(module: *mut Handle, function: Handle) at CONTEXT, |driver| {
        let found = driver.functions.get(function)?.module;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(module, found) }
    }

    /// The most threads of a block, and its shared memory. Other attributes are 0.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: u32, function: Handle) at CONTEXT, |driver| {
        let found = driver.functions.get(function)?;
        let number = match attribute {
            0 => 1024,
            SHARED_SIZE_BYTES => found.shared_bytes as c_int,
            MAX_DYNAMIC_SHARED_SIZE_BYTES => found.shared_limit as c_int,
            _ => 0,
        };
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(value, number) }
    }

    /// Sets dynamic shared memory. Together with the shared arrays it is at most the limit of an H100.
    fn cuFuncSetAttribute(function: Handle, attribute: u32, value: c_int) at CONTEXT, |driver| {
        let function = driver.functions.get_mut(function)?;
        if attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES {
            let most = SHARED_WITH_OPT_IN.saturating_sub(function.shared_bytes);
            let limit = u32::try_from(value).ok().filter(|&bytes| bytes <= most);
            function.shared_limit = limit.ok_or(Code::INVALID_VALUE)?;
        }
        Ok(())
    }

    /// Has no effect.
    fn cuFuncSetCacheConfig(function: Handle, _config: c_uint) at CONTEXT, |driver| {
        driver.functions.get(function).map(|_| ())
    }
}
