//! The types that a kernel may have as parameters: what `#[kernel]` refuses by its form, the assertions for the
//! compiler, and `#[derive(KernelArgument)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ItemFn, ItemStruct, PatType, Result, Type};

use crate::launcher::{element, ungrouped};

/// The parameters of a kernel that have a type.
fn typed(function: &ItemFn) -> impl Iterator<Item = &PatType> {
    function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(input),
        FnArg::Receiver(_) => None,
    })
}

/// A type as text, without the spaces that tokens have between them.
fn text(kind: &impl ToTokens) -> String {
    let mut text = kind.to_token_stream().to_string();
    for (spaced, closed) in [(" < ", "<"), (" >", ">"), (" :: ", "::"), ("& ", "&"), ("* ", "*"), (" ;", ";")] {
        text = text.replace(spaced, closed);
    }
    text
}

/// An error if a type is, or holds, a reference, a pointer or an `impl Trait`.
fn check(kind: &Type) -> Result<()> {
    let (pointee, what) = match ungrouped(kind) {
        Type::Reference(reference) => (&reference.elem, "references"),
        Type::Ptr(pointer) => (&pointer.elem, "pointers"),
        Type::ImplTrait(_) => {
            return Err(Error::new(kind.span(), "a kernel has no generic parameters: an entry is one symbol"));
        }
        Type::Array(array) => return check(&array.elem),
        Type::Tuple(tuple) => return tuple.elems.iter().try_for_each(check),
        _ => return Ok(()),
    };
    let element = match ungrouped(pointee) {
        Type::Slice(slice) => text(ungrouped(&slice.elem)),
        Type::Array(array) => text(ungrouped(&array.elem)),
        other => text(other),
    };
    let kind_text = text(ungrouped(kind));
    let message = format!(
        "a kernel gets arrays as Global<{element}> or GlobalMut<{element}>, not as {kind_text}: the emulator can't \
         watch {what}"
    );
    Err(Error::new(kind.span(), message))
}

/// An error for the first parameter that is a reference or a pointer.
pub(crate) fn check_forms(function: &ItemFn) -> Result<()> {
    typed(function).try_for_each(|input| check(&input.ty))
}

/// What the compiler checks of the parameters' types, on the host.
///
/// A launcher reads a value of each type from a copy of its bytes, for each thread. So its types are
/// `KernelArgument`. Without a launcher the host passes the bytes on its own, and the types are `Copy + 'static`.
pub(crate) fn assertions(function: &ItemFn, has_launcher: bool) -> TokenStream {
    let conditions = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let checks = typed(function).map(|input| {
        let kind = &input.ty;
        match (element(kind), has_launcher) {
            // A type of another crate may have the same name.
            (Some((element, writes)), _) => {
                let handle = if writes { quote!(GlobalMut) } else { quote!(Global) };
                quote_spanned!(kind.span()=> let _: fn(#kind) -> ::cuda_std::#handle<#element> = |array| array;)
            }
            (None, true) => quote_spanned!(kind.span()=> ::cuda_std::argument::assert_argument::<#kind>();),
            (None, false) => quote_spanned!(kind.span()=> ::cuda_std::argument::assert_copy::<#kind>();),
        }
    });
    quote! {
        #(#conditions)*
        #[cfg(not(target_arch = "nvptx64"))]
        const _: () = { #(#checks)* };
    }
}

/// The words of `#[repr(…)]` of a structure.
fn representation(input: &ItemStruct) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            words.extend(meta.path.get_ident().map(Ident::to_string));
            if meta.input.peek(syn::token::Paren) {
                let _: proc_macro2::Group = meta.input.parse()?;
            }
            Ok(())
        })?;
    }
    Ok(words)
}

/// The implementation of `KernelArgument` for a structure of such types.
pub(crate) fn derive(input: &ItemStruct) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "an argument of a kernel has no generic parameters"));
    }
    let words = representation(input)?;
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if !has("C") && !has("transparent") || has("packed") {
        let message = "an argument of a kernel is `#[repr(C)]`: host and GPU must agree on the places of its fields";
        return Err(Error::new(input.ident.span(), message));
    }
    let name = &input.ident;
    let fields = input.fields.iter().map(|field| {
        let kind = &field.ty;
        quote_spanned!(kind.span()=> ::cuda_std::argument::assert_argument::<#kind>();)
    });
    Ok(quote! {
        const _: () = { #(#fields)* };

        // SAFETY: the structure is `repr(C)` or `repr(transparent)`, and all of its fields are arguments of kernels.
        #[automatically_derived]
        unsafe impl ::cuda_std::KernelArgument for #name {}
    })
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    /// The error for a kernel with a parameter of this type.
    fn refusal(kind: &Type) -> Option<String> {
        let function = parse_quote!(pub unsafe fn f(first: u32, second: #kind) {});
        check_forms(&function).err().map(|error| error.to_string())
    }

    #[test]
    fn references_and_pointers_are_refused() {
        let message = |kind: &str, of: &str, what| {
            let element = if of.is_empty() { "f32" } else { of };
            Some(format!(
                "a kernel gets arrays as Global<{element}> or GlobalMut<{element}>, not as {kind}: the emulator can't \
                 watch {what}"
            ))
        };
        assert_eq!(refusal(&parse_quote!(&[f32])), message("&[f32]", "", "references"));
        assert_eq!(refusal(&parse_quote!(&'static u32)), message("&'static u32", "u32", "references"));
        assert_eq!(refusal(&parse_quote!(&'static mut [f32])), message("&'static mut [f32]", "", "references"));
        assert_eq!(refusal(&parse_quote!(*const f32)), message("*const f32", "", "pointers"));
        assert_eq!(refusal(&parse_quote!(*mut half::F16)), message("*mut half::F16", "half::F16", "pointers"));
        assert_eq!(refusal(&parse_quote!((&[f32; 4]))), message("&[f32; 4]", "", "references"));
        assert_eq!(refusal(&parse_quote!([*const f32; 2])), message("*const f32", "", "pointers"));
        // `$type:ty` of a macro has an invisible group around it.
        let grouped =
            Type::Group(syn::TypeGroup { group_token: Default::default(), elem: Box::new(parse_quote!(&[f32])) });
        assert_eq!(refusal(&grouped), message("&[f32]", "", "references"));
        assert!(refusal(&parse_quote!(impl Copy)).is_some_and(|message| message.contains("generic")));
    }

    #[test]
    fn values_and_handles_are_not() {
        for kind in ["f32", "Global<f32>", "cuda_std::GlobalMut<u8>", "Params", "[f32; 4]", "crate::abi::Params"] {
            assert_eq!(refusal(&syn::parse_str(kind).unwrap()), None, "{kind}");
        }
    }

    #[test]
    fn a_structure_needs_the_representation_of_c() {
        let derived = |attributes: TokenStream| {
            derive(&parse_quote!(#attributes struct P { a: f32 })).map_err(|error| error.to_string())
        };
        for good in [quote!(#[repr(C)]), quote!(#[repr(transparent)]), quote!(#[repr(C, align(16))])] {
            assert!(derived(good).unwrap().to_string().contains("unsafe impl"));
        }
        for bad in [quote!(), quote!(#[repr(align(16))]), quote!(#[repr(C, packed)]), quote!(#[repr(C, packed(2))])] {
            assert!(derived(bad).unwrap_err().contains("`#[repr(C)]`"));
        }
        assert!(
            derive(&parse_quote!(
                #[repr(C)]
                struct P<T> {
                    a: T,
                }
            ))
            .unwrap_err()
            .to_string()
            .contains("generic")
        );
    }

    #[test]
    fn a_launcher_needs_the_trait_and_other_kernels_copies() {
        let function: ItemFn = parse_quote!(
            pub unsafe fn f(p: Params, a: Global<f32>) {}
        );
        let [with, without] = [true, false].map(|launcher| text(&assertions(&function, launcher)));
        assert!(with.contains("assert_argument") && !with.contains("assert_copy"), "{with}");
        assert!(without.contains("assert_copy") && !without.contains("assert_argument"), "{without}");
        assert!(with.contains("cuda_std::Global<f32>") && without.contains("cuda_std::Global<f32>"));
    }
}
