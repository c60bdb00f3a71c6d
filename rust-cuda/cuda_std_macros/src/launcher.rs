//! The struct that a launch takes: the arguments of a kernel by name.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote};
use syn::{
    BinOp, Error, Expr, ExprBinary, ExprCast, ExprMethodCall, FnArg, GenericArgument, Ident, ItemFn, Pat,
    PathArguments, Result, Type,
};

use crate::options::Options;

/// A parameter of the kernel.
struct Parameter<'a> {
    name: &'a Ident,
    kind: &'a Type,
    /// The type of an element, and whether the kernel may write it.
    array: Option<(&'a Type, bool)>,
}

/// `saxpy_f32` becomes `SaxpyF32`.
fn camel_case(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let words = name.split('_').map(str::chars);
    words.flat_map(|mut letters| letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)).collect()
}

/// The type without the invisible group of a `$type:ty` of a macro.
pub(crate) fn ungrouped(mut kind: &Type) -> &Type {
    while let Type::Group(syn::TypeGroup { elem, .. }) | Type::Paren(syn::TypeParen { elem, .. }) = kind {
        kind = elem;
    }
    kind
}

/// The element of `Global<T>` and `GlobalMut<T>`, by the last name of the path.
pub(crate) fn element(kind: &Type) -> Option<(&Type, bool)> {
    let Type::Path(path) = ungrouped(kind) else { return None };
    let last = path.path.segments.last()?;
    let writes = match last.ident.to_string().as_str() {
        "Global" => false,
        "GlobalMut" => true,
        _ => return None,
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(element) => Some((element, writes)),
        _ => None,
    }
}

/// Whether a type is an integer by its name.
fn is_integer(kind: &Type) -> bool {
    const INTEGERS: [&str; 10] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
    matches!(ungrouped(kind), Type::Path(path) if INTEGERS.iter().any(|name| path.path.is_ident(name)))
}

/// The expression of a length, with operations that return an error instead of an overflow.
///
/// Blocks and closures stay as they are.
fn checked(expression: &Expr) -> TokenStream {
    match expression {
        Expr::Binary(ExprBinary { left, op, right, .. }) => {
            let operator = match op {
                BinOp::Add(_) => '+',
                BinOp::Sub(_) => '-',
                BinOp::Mul(_) => '*',
                BinOp::Div(_) => '/',
                BinOp::Rem(_) => '%',
                _ => return quote!(#expression),
            };
            let (left, right) = (checked(left), checked(right));
            quote!(::cuda_std::launch::Checked::checked(#left, #operator, #right)?)
        }
        Expr::Paren(inner) => {
            let inner = checked(&inner.expr);
            quote!((#inner))
        }
        Expr::Group(inner) => checked(&inner.expr),
        Expr::Cast(ExprCast { expr, ty, .. }) => {
            let inner = checked(expr);
            quote!((#inner as #ty))
        }
        Expr::MethodCall(ExprMethodCall { receiver, method, turbofish, args, .. }) => {
            let (receiver, arguments) = (checked(receiver), args.iter().map(checked));
            quote!((#receiver).#method #turbofish (#(#arguments),*))
        }
        other => quote!(#other),
    }
}

/// Whether an expression contains an identifier.
fn mentions(expression: TokenStream, name: &Ident) -> bool {
    expression.into_iter().any(|token| match token {
        TokenTree::Ident(found) => found == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

fn parameters(function: &ItemFn) -> Result<Vec<Parameter<'_>>> {
    let inputs = function.sig.inputs.iter().map(|input| {
        let FnArg::Typed(input) = input else {
            return Err(Error::new_spanned(input, "a kernel is no method"));
        };
        let Pat::Ident(pattern) = &*input.pat else {
            return Err(Error::new_spanned(
                &input.pat,
                "a parameter of a kernel needs a name: a launch passes it by name",
            ));
        };
        Ok(Parameter { name: &pattern.ident, kind: &input.ty, array: element(&input.ty) })
    });
    inputs.collect()
}

/// The struct of a kernel and its implementation of `cuda_std::launch::Kernel`.
pub(crate) fn launcher(function: &ItemFn, options: &Options) -> Result<TokenStream> {
    let parameters = parameters(function)?;
    let symbol = &function.sig.ident;
    // With the place of the function, so that an error for a name that is taken points there.
    let camel_case = || format_ident!("{}", camel_case(&symbol.to_string()), span = symbol.span());
    let name = options.launcher.clone().unwrap_or_else(camel_case);
    for (array, _) in &options.lengths {
        if !parameters.iter().any(|parameter| parameter.name == array && parameter.array.is_some()) {
            return Err(Error::new(array.span(), format!("`{array}` is no parameter of type Global or GlobalMut")));
        }
    }
    let visibility = &function.vis;
    let conditions: Vec<_> = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let documentation = format!("The arguments of a launch of [`{symbol}`].");

    let has_arrays = parameters.iter().any(|parameter| parameter.array.is_some());
    let (generics, anonymous) = if has_arrays { (quote!(<'launch>), quote!(<'_>)) } else { Default::default() };
    let fields = parameters.iter().map(|Parameter { name, kind, array }| {
        let text = format!("The argument `{name}`.");
        let kind = match array {
            Some((element, false)) => quote!(&'launch dyn ::cuda_std::launch::Array<#element>),
            Some((element, true)) => quote!(&'launch mut dyn ::cuda_std::launch::ArrayMut<#element>),
            None => quote!(#kind),
        };
        quote!(#[doc = #text] pub #name: #kind)
    });

    // Of an integer on which no length depends, any value is allowed.
    let used = |name: &Ident| options.lengths.iter().any(|(_, least)| mentions(least.to_token_stream(), name));
    let integers = parameters.iter().filter(|parameter| is_integer(parameter.kind) && used(parameter.name));
    let sizes = integers.map(|Parameter { name, .. }| {
        let text = name.to_string();
        quote!(let #name = ::cuda_std::launch::size(#text, self.#name)?;)
    });
    // A parameter of the kernel may have the same name.
    let required = Ident::new("required", Span::mixed_site());
    let lengths = options.lengths.iter().map(|(array, least)| {
        let (text, expression, least) = (array.to_string(), quote!(#least).to_string(), checked(least));
        quote! {
            let #required = || -> ::core::result::Result<usize, ::std::string::String> {
                ::core::result::Result::Ok(#least)
            };
            let #required = match #required() {
                ::core::result::Result::Ok(found) => found,
                ::core::result::Result::Err(operation) => {
                    return ::core::result::Result::Err(::cuda_std::launch::ArgumentError::Overflow {
                        name: #text,
                        expression: #expression,
                        operation,
                    });
                }
            };
            ::cuda_std::launch::at_least(#text, #required, ::cuda_std::launch::Array::len(self.#array))?;
        }
    });

    let facts = parameters.iter().map(|Parameter { name, kind, array }| {
        let text = name.to_string();
        let element = match array {
            Some((element, _)) => quote!(::core::option::Option::Some(::core::mem::size_of::<#element>())),
            None => quote!(::core::option::Option::None),
        };
        quote!(::cuda_std::launch::Parameter { name: #text, bytes: ::core::mem::size_of::<#kind>(), element: #element })
    });
    let visits = parameters.iter().map(|Parameter { name, array, .. }| {
        let text = name.to_string();
        if array.is_some() {
            quote! {
                visit(::cuda_std::launch::Argument::Array {
                    name: #text,
                    address: ::cuda_std::launch::Array::address(self.#name),
                    device: ::cuda_std::launch::Array::device(self.#name),
                });
            }
        } else {
            quote!(visit(::cuda_std::launch::Argument::Value { name: #text, value: (&raw const self.#name).cast() });)
        }
    });
    let values = parameters
        .iter()
        .enumerate()
        .map(|(index, Parameter { kind, .. })| quote!(arguments.add(#index).read().cast::<#kind>().read_unaligned()));
    let bounds = match &options.bounds {
        Some(bounds) => {
            let (threads, blocks) = (bounds.threads, bounds.blocks);
            quote!(::core::option::Option::Some((#threads, #blocks)))
        }
        None => quote!(::core::option::Option::None),
    };
    let symbol_text = symbol.to_string();

    Ok(quote! {
        #(#conditions)*
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #documentation]
        #[allow(dead_code, missing_docs, missing_debug_implementations, unreachable_pub)]
        #visibility struct #name #generics { #(#fields),* }

        // SAFETY: the symbol, the types and the order are those of the kernel's function.
        #(#conditions)*
        #[cfg(not(target_arch = "nvptx64"))]
        #[automatically_derived]
        #[allow(unused_variables, unused_parens, clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
        unsafe impl ::cuda_std::launch::Kernel for #name #anonymous {
            const SYMBOL: &'static str = #symbol_text;
            const MODULE: &'static str = ::core::module_path!();
            const LAUNCH_BOUNDS: ::core::option::Option<(u32, u32)> = #bounds;
            const PARAMETERS: &'static [::cuda_std::launch::Parameter] = &[#(#facts),*];

            fn check(&self) -> ::core::result::Result<(), ::cuda_std::launch::ArgumentError> {
                #(#sizes)*
                #(#lengths)*
                ::core::result::Result::Ok(())
            }

            fn arguments(&self, visit: &mut dyn ::core::ops::FnMut(::cuda_std::launch::Argument)) {
                #(#visits)*
            }

            unsafe fn call(arguments: *const *const ::core::ffi::c_void) {
                // SAFETY: there is a pointer for each parameter, to a value of its type, and the kernel's conditions
                // hold, as this function requires.
                unsafe { #symbol(#(#values),*) }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::{camel_case, checked};

    #[test]
    fn arithmetic_of_lengths_is_checked_with_the_same_precedence() {
        let text = |expression: &str| checked(&syn::parse_str(expression).unwrap()).to_string();
        let call = quote!(::cuda_std::launch::Checked::checked(n, '-', 1)?).to_string();
        assert_eq!(text("n - 1"), call);
        assert_eq!(text("(n - 1).div_ceil(M as usize)"), format!("(({call})) . div_ceil ((M as usize))"));
        assert_eq!(text("(n | 1) as usize"), "((n | 1) as usize)");
        assert_eq!(text("n << 2"), "n << 2");
    }

    #[test]
    fn names_are_those_of_types() {
        for (function, name) in [
            ("saxpy", "Saxpy"),
            ("row_sums_f32", "RowSumsF32"),
            ("_a__b2", "AB2"),
            ("r#move", "Move"),
            ("änder_es", "ÄnderEs"),
        ] {
            assert_eq!(camel_case(function), name);
        }
    }
}
