//! `gpu_println!`: a format with its values.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, LitStr, Result, Token};

/// `"text {} {name:x}", value, value`
pub(crate) struct Print {
    format: LitStr,
    values: Vec<Expr>,
}

/// A part of the format.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Value { name: Option<String>, zeros: bool, width: u8, precision: Option<u8>, hexadecimal: bool },
}

impl Parse for Print {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let format = input.parse()?;
        if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
            return Err(input.error("a comma must follow the text"));
        }
        let values = Punctuated::<Expr, Token![,]>::parse_terminated(input)?;
        Ok(Self { format, values: values.into_iter().collect() })
    }
}

/// The most values of a call: `cuda_std::print` has tuples of as many.
const MOST_VALUES: usize = 8;

impl Print {
    pub(crate) fn expand(self) -> Result<TokenStream> {
        let error = |message: String| Error::new(self.format.span(), message);
        let mut pieces = pieces(&self.format.value()).map_err(error)?;
        pieces.push(Piece::Text("\n".to_owned()));
        let mut given = self.values.iter();
        let mut values = Vec::new();
        for piece in &pieces {
            let Piece::Value { name, .. } = piece else { continue };
            values.push(match name {
                Some(name) => {
                    let name = Ident::new(name, Span::call_site().located_at(self.format.span()));
                    quote!(#name)
                }
                None => {
                    let value = given.next().ok_or_else(|| error("there are more `{}` than values".to_owned()))?;
                    quote!(#value)
                }
            });
        }
        if let Some(left) = given.next() {
            return Err(Error::new_spanned(left, "there is no `{}` for this value"));
        }
        if values.len() > MOST_VALUES {
            return Err(error(format!("a call prints at most {MOST_VALUES} values, found {}", values.len())));
        }
        let pieces = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => quote!(::cuda_std::print::Piece::Text(#text)),
            Piece::Value { zeros, width, precision, hexadecimal, .. } => {
                let precision = match precision {
                    Some(digits) => quote!(::core::option::Option::Some(#digits)),
                    None => quote!(::core::option::Option::None),
                };
                quote!(::cuda_std::print::Piece::Value {
                    zeros: #zeros, width: #width, precision: #precision, hexadecimal: #hexadecimal
                })
            }
        });
        Ok(quote! {{
            struct Text;
            impl ::cuda_std::print::Format for Text {
                const PIECES: &'static [::cuda_std::print::Piece] = &[#(#pieces),*];
            }
            ::cuda_std::print::print::<Text, _>((#(#values,)*))
        }})
    }
}

/// The pieces of a text with placeholders.
fn pieces(format: &str) -> std::result::Result<Vec<Piece>, String> {
    // The driver takes each piece of text up to its first zero byte.
    if format.contains('\0') {
        return Err("the text has a zero byte".to_owned());
    }
    let (mut pieces, mut text) = (Vec::new(), String::new());
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" {
            return Err("a `}` without `{`; `}}` prints a brace".to_owned());
        }
        let (inside, after) = rest.split_once('}').ok_or("a `{` without `}`; `{{` prints a brace")?;
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(value(inside)?);
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// A placeholder without its braces: `name:08.3`.
fn value(inside: &str) -> std::result::Result<Piece, String> {
    let wrong = || {
        let known = "`{}`, `{name}`, `{:x}`, `{:8}`, `{:08x}`, `{:.3}`";
        format!("`{{{inside}}}` is no placeholder of gpu_println!, such as {known}")
    };
    let (name, options) = inside.split_once(':').unwrap_or((inside, ""));
    if name.starts_with("r#") {
        return Err(format!("`{{{inside}}}` has a raw identifier: pass `{name}` as a value of `{{}}`"));
    }
    // The parser skips spaces and comments around an identifier.
    if !name.is_empty() && !syn::parse_str::<Ident>(name).is_ok_and(|parsed| parsed == name) {
        return Err(wrong());
    }
    let (options, hexadecimal) = options.strip_suffix('x').map_or((options, false), |options| (options, true));
    let number = |text: &str| text.parse::<u8>().ok().filter(|_| !text.starts_with('+')).ok_or_else(wrong);
    let (width, precision) = match options.split_once('.') {
        Some((width, precision)) => (width, Some(number(precision)?)),
        None => (options, None),
    };
    let zeros = width.starts_with('0');
    let width = if width.is_empty() { 0 } else { number(width)? };
    let name = (!name.is_empty()).then(|| name.to_owned());
    Ok(Piece::Value { name, zeros, width, precision, hexadecimal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn plain(name: Option<&str>) -> Piece {
        let name = name.map(str::to_owned);
        Piece::Value { name, zeros: false, width: 0, precision: None, hexadecimal: false }
    }

    #[test]
    fn placeholders_are_found() {
        assert_eq!(pieces("a {} b {i}").unwrap(), [text("a "), plain(None), text(" b "), plain(Some("i"))]);
        assert_eq!(pieces("{{{}}} %").unwrap(), [text("{"), plain(None), text("} %")]);
        let all =
            Piece::Value { name: Some("x".to_owned()), zeros: true, width: 9, precision: Some(3), hexadecimal: false };
        assert_eq!(pieces("{x:09.3}").unwrap(), [all]);
        let hexadecimal = Piece::Value { name: None, zeros: false, width: 12, precision: None, hexadecimal: true };
        assert_eq!(pieces("{:12x}").unwrap(), [hexadecimal]);
    }

    #[test]
    fn wrong_formats_are_refused_in_words() {
        for (format, words) in [
            ("{", "without `}`"),
            ("a } b", "without `{`"),
            ("{:?}", "no placeholder"),
            ("{0}", "no placeholder"),
            ("{:>8}", "no placeholder"),
            ("{:+8}", "no placeholder"),
            ("{:.}", "no placeholder"),
            ("{:300}", "no placeholder"),
            ("{ i }", "no placeholder"),
            ("{r#fn:8}", "pass `r#fn` as a value of `{}`"),
            ("a {} \0", "zero byte"),
            ("a \0 {}", "zero byte"),
            ("\0 {} b", "zero byte"),
        ] {
            let error = pieces(format).unwrap_err();
            assert!(error.contains(words), "{format}: {error}");
        }
    }

    #[test]
    fn as_many_values_as_placeholders_are_needed() {
        let expand = |text: &str| syn::parse_str::<Print>(text).and_then(Print::expand).map_err(|e| e.to_string());
        assert!(expand("\"{} {i}\", 3").is_ok());
        assert!(expand("\"{} {}\", 3").unwrap_err().contains("more `{}` than values"));
        assert!(expand("\"{r#fn}\"").unwrap_err().contains("raw identifier"));
        assert!(expand("\"{i}\", 3").unwrap_err().contains("no `{}` for this value"));
        assert!(expand("\"{a}{a}{a}{a}{a}{a}{a}{a}{a}\"").unwrap_err().contains("at most 8 values, found 9"));
    }
}
