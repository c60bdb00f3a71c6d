//! The `#[kernel]` attribute, `#[derive(KernelArgument)]`, `instantiate!` and `gpu_println!`. Use them through
//! `cuda_std`.

mod argument;
mod instantiate;
mod launcher;
mod options;
mod print;

use proc_macro::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, ItemFn, ItemStruct, ReturnType, parse_macro_input};

/// Marks a function as a kernel: an entry point that the host launches over a grid of threads.
///
/// Compiled for the GPU, the function becomes a PTX `.visible .entry` whose symbol is its name. Compiled for the host,
/// it stays an ordinary `unsafe fn`, so that an executor can run the same source.
///
/// # Rules
///
/// - It is `pub`: the host finds it by its name.
/// - It is `unsafe`: only the launch knows that pointers, lengths and grid fit together.
/// - It returns nothing.
/// - It has no type or const parameters, and no `where` clause: an entry is one symbol.
/// - It is not `const`, `async` or `extern`.
/// - Its parameters are handles of arrays or values. References and pointers are refused: an executor can't watch them.
///   A value is a `KernelArgument`. With `no_launcher` it is `Copy + 'static`.
///
/// A broken rule is a compile error.
///
/// # The launcher
///
/// On the host the attribute also makes a struct with the arguments by name, such as `AddOne { data, length }` for
/// `add_one`. A launch takes it; see the crate `cuda_launch`. Types are checked by the compiler.
///
/// # Options
///
/// `#[kernel(launch_bounds(256, 2), lengths(x = n), launcher = Name)]`, each one optional:
///
/// - `launch_bounds(THREADS, BLOCKS)`: CUDA's `__launch_bounds__`. A block has at most `THREADS` threads. The assembler
///   limits the registers of a thread such that `BLOCKS` blocks fit a multiprocessor. `BLOCKS` may be left out.
/// - `lengths(ARRAY = LENGTH, …)`: the least number of elements of an array, as an expression of type `usize`. Integer
///   parameters of the kernel are `usize` in it. A launch with a shorter array is an error. So is one for which
///   `+ - * / %` of the expression overflow, or an integer in the expression is negative.
/// - `launcher = NAME`: the name of the struct. The default is the name of the function in camel case.
/// - `no_launcher`: no struct.
///
/// A parameter counts as an array if its type is written `Global<T>` or `GlobalMut<T>`, with or without a path.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Adds one to `length` elements. The grid may be larger.
/// ///
/// /// # Safety
/// /// - `data` holds `length` elements.
/// /// - Nothing else accesses them during the launch.
/// #[kernel]
/// pub unsafe fn add_one(data: GlobalMut<f32>, length: u32) {
///     let i = thread::index_1d();
///     if i < length {
///         // SAFETY: i < length, checked above, and no other thread has this i.
///         unsafe { data.store(i as isize, data.load(i as isize) + 1.0) };
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(attribute as options::Options);
    let function = parse_macro_input!(item as ItemFn);
    if let Some(error) = broken_rule(&function) {
        return error.into_compile_error().into();
    }
    if let Err(error) = argument::check_forms(&function) {
        return error.into_compile_error().into();
    }
    let assertions = argument::assertions(&function, !options.no_launcher);
    let launcher = if options.no_launcher { Ok(Default::default()) } else { launcher::launcher(&function, &options) };
    let launcher = match launcher {
        Ok(launcher) => launcher,
        Err(error) => return error.into_compile_error().into(),
    };
    let bounds = options.bounds.as_ref().map(|bounds| launch_bounds(&function, bounds));
    // rustc's lint warns about arrays, which C does not pass by value. Of a `KernelArgument` the layout is certain.
    let allowed = (!options.no_launcher).then(|| quote!(#[allow(improper_ctypes_definitions)]));
    let ItemFn { attrs, vis, sig, block } = &function;
    let (ident, inputs) = (&sig.ident, &sig.inputs);
    quote! {
        #(#attrs)*
        #[cfg(target_arch = "nvptx64")]
        #allowed
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #ident(#inputs) #block

        #(#attrs)*
        #[cfg(not(target_arch = "nvptx64"))]
        #vis unsafe fn #ident(#inputs) #block

        #bounds
        #assertions
        #launcher
    }
    .into()
}

/// Implements `KernelArgument` for a structure whose fields all are arguments of kernels.
///
/// The structure is `Copy` and `#[repr(C)]` or `#[repr(transparent)]`, and has no generic parameters.
#[proc_macro_derive(KernelArgument)]
pub fn kernel_argument(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as ItemStruct);
    argument::derive(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// A comment in the PTX, which `cuda_builder` turns into directives of the entry: rustc has no attribute for them.
fn launch_bounds(function: &ItemFn, bounds: &options::Bounds) -> proc_macro2::TokenStream {
    let conditions = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let options::Bounds { threads, blocks } = bounds;
    let comment = format!("// cuda_std launch_bounds {} {threads} {blocks}", function.sig.ident);
    quote! {
        #(#conditions)*
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::global_asm!(#comment);
    }
}

/// Calls a macro with one row for each combination of several lists, each with an identifier made from its values.
///
/// A kernel is one symbol, so a generic function needs one `#[kernel]` function for each type and size. This macro
/// makes the names; the macro that it calls makes the functions.
///
/// ```
/// /// Makes a constant function of each row.
/// macro_rules! functions {
///     ({ $kind:ty } $(($name:ident, T = $type:ident, C = $channels:literal))*) => {
///         $(fn $name() -> $kind { $channels * size_of::<$type>() })*
///     };
/// }
/// cuda_std::instantiate! { functions! { usize } "bytes_{T}_c{C}" for T in [u8, f32], C in [1, 3] }
/// assert_eq!((bytes_u8_c3(), bytes_f32_c1()), (3, 4));
/// ```
///
/// A list whose `{NAME}` is not in the pattern is an error, because two rows would have the same identifier:
///
/// ```compile_fail
/// macro_rules! functions { ($($any:tt)*) => {}; }
/// cuda_std::instantiate! { functions! {} "bytes_{T}" for T in [u8, f32], C in [1, 3] }
/// ```
#[proc_macro]
pub fn instantiate(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as instantiate::Instantiate);
    input.expand().unwrap_or_else(Error::into_compile_error).into()
}

/// Prints a line from a kernel: CUDA's `printf`. `cuda_std::print` has the formats.
///
/// ```
/// # use cuda_std::prelude::*;
/// # /// # Safety
/// # /// - None.
/// # #[kernel]
/// # pub unsafe fn show(x: f32) {
/// let i = thread::index_1d();
/// cuda_std::gpu_println!("thread {i}: x = {:.3}, bits {:08x}", x, x.to_bits());
/// # }
/// ```
///
/// Another number of values than of placeholders is an error:
///
/// ```compile_fail
/// fn show() {
///     cuda_std::gpu_println!("{} {}", 3);
/// }
/// ```
///
/// So is an option that a type does not have:
///
/// ```compile_fail
/// fn main() {
///     cuda_std::gpu_println!("{:x}", 3.0_f32);
/// }
/// ```
#[proc_macro]
pub fn gpu_println(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as print::Print);
    input.expand().unwrap_or_else(Error::into_compile_error).into()
}

/// The error for the first rule that `function` breaks.
fn broken_rule(function: &ItemFn) -> Option<Error> {
    let signature = &function.sig;
    if !matches!(function.vis, syn::Visibility::Public(_)) {
        return Some(reject(&signature.ident, "a kernel must be `pub`: the host looks it up by its name"));
    }
    if signature.unsafety.is_none() {
        return Some(reject(
            &signature.fn_token,
            "a kernel must be `unsafe`: only the launch knows that its pointers and its grid are valid",
        ));
    }
    if let ReturnType::Type(_, kind) = &signature.output {
        return Some(reject(kind, "a kernel returns nothing: it writes its results to global memory"));
    }
    if !signature.generics.params.is_empty() {
        return Some(reject(
            &signature.generics,
            "a kernel has no generic parameters: an entry is one symbol; call a generic function from it",
        ));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Some(reject(
            clause,
            "a kernel has no `where` clause: its types are known, and the compiler checks them",
        ));
    }
    if signature.asyncness.is_some() || signature.constness.is_some() || signature.abi.is_some() {
        return Some(reject(&signature.ident, "a kernel is a plain `pub unsafe fn`: no const, async or extern"));
    }
    None
}

/// An error with `message` at `place`.
fn reject(place: &impl Spanned, message: &str) -> Error {
    Error::new(place.span(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broken_rule_is_named() {
        let broken = |function| broken_rule(&syn::parse_str(function).unwrap()).map(|error| error.to_string());
        assert_eq!(broken("pub unsafe fn f(x: u32) {}"), None);
        for (function, words) in [
            ("unsafe fn f() {}", "must be `pub`"),
            ("pub fn f() {}", "must be `unsafe`"),
            ("pub unsafe fn f() -> u32 {}", "returns nothing"),
            ("pub unsafe fn f<T>() {}", "no generic parameters"),
            ("pub unsafe fn f() where u32: Copy {}", "no `where` clause"),
            ("pub const unsafe fn f() {}", "no const, async or extern"),
        ] {
            let error = broken(function).unwrap_or_else(|| panic!("{function} was accepted"));
            assert!(error.contains(words), "{function}: {error}");
        }
    }
}
