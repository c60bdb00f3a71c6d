//! `instantiate!`: one name for each combination of several lists.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, LitStr, Path, Result, Token, braced, bracketed};

/// `callback! { passed } "pattern" for A in [a, b], B in [1, 2]`
pub(crate) struct Instantiate {
    callback: Path,
    passed: TokenStream,
    pattern: LitStr,
    lists: Vec<List>,
}

/// `NAME in [value, value]`
struct List {
    name: Ident,
    values: Vec<TokenTree>,
}

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = Ident::parse_any(input)?;
        input.parse::<Token![in]>()?;
        let content;
        bracketed!(content in input);
        let values = Punctuated::<TokenTree, Token![,]>::parse_terminated(&content)?;
        if values.is_empty() {
            return Err(Error::new(name.span(), format!("{name} needs at least one value")));
        }
        Ok(Self { name, values: values.into_iter().collect() })
    }
}

impl Parse for Instantiate {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let callback = input.call(Path::parse_mod_style)?;
        input.parse::<Token![!]>()?;
        let content;
        braced!(content in input);
        let passed = content.parse()?;
        let pattern = input.parse()?;
        input.parse::<Token![for]>()?;
        let lists = Punctuated::<List, Token![,]>::parse_separated_nonempty(input)?.into_iter().collect();
        Ok(Self { callback, passed, pattern, lists })
    }
}

impl Instantiate {
    /// The call of the callback with all combinations, the last list running fastest.
    pub(crate) fn expand(&self) -> Result<TokenStream> {
        let mut combinations = vec![Vec::new()];
        for list in &self.lists {
            let longer = |head: &Vec<TokenTree>| {
                let head = head.clone();
                list.values.iter().map(move |value| head.iter().chain([value]).cloned().collect::<Vec<_>>())
            };
            combinations = combinations.iter().flat_map(longer).collect();
        }
        let rows = combinations.iter().map(|values| {
            let symbol = self.symbol(values)?;
            let names = self.lists.iter().map(|list| &list.name);
            Ok(quote!((#symbol #(, #names = #values)*)))
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let Self { callback, passed, .. } = self;
        Ok(quote!(#callback! { { #passed } #(#rows)* }))
    }

    /// The pattern with each `{NAME}` replaced by the value of that list.
    fn symbol(&self, values: &[TokenTree]) -> Result<Ident> {
        let mut name = self.pattern.value();
        for (list, value) in self.lists.iter().zip(values) {
            let place = format!("{{{}}}", list.name);
            if !name.contains(&place) {
                let message = format!("the pattern has no {place}: two instances would have one name");
                return Err(Error::new(self.pattern.span(), message));
            }
            name = name.replace(&place, &value.to_string());
        }
        syn::parse_str::<Ident>(&name)
            .map(|_| Ident::new(&name, Span::call_site()))
            .map_err(|_| Error::new(self.pattern.span(), format!("`{name}` is no identifier")))
    }
}
