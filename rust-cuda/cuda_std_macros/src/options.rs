//! The options of `#[kernel(…)]`.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitInt, Result, Token, parenthesized};

/// `launch_bounds(256, 2), lengths(x = n), launcher = Name, no_launcher`, each at most once.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) bounds: Option<Bounds>,
    /// For each array the least number of elements.
    pub(crate) lengths: Vec<(Ident, Expr)>,
    pub(crate) launcher: Option<Ident>,
    pub(crate) no_launcher: bool,
}

/// The most threads of a block and, if not 0, the least blocks of a multiprocessor.
pub(crate) struct Bounds {
    pub(crate) threads: u32,
    pub(crate) blocks: u32,
}

/// An integer of at least 1 and at most `most`.
fn number(input: ParseStream<'_>, what: &str, most: u32) -> Result<u32> {
    let literal: LitInt = input.parse()?;
    let value = literal.base10_parse::<u32>()?;
    if (1..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Error::new(literal.span(), format!("{what} must be 1 to {most}, found {value}")))
    }
}

impl Parse for Bounds {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let threads = number(input, "the number of threads of a block", 1024)?;
        let mut blocks = 0;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            blocks = number(input, "the number of blocks of a multiprocessor", 32)?;
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(Self { threads, blocks })
    }
}

/// `name = expression`
struct Length(Ident, Expr);

impl Parse for Length {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self(name, input.parse()?))
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let inside = || -> Result<_> {
                let content;
                parenthesized!(content in input);
                Ok(content)
            };
            match name.to_string().as_str() {
                "launch_bounds" => {
                    let content = inside()?;
                    options.bounds = Some(content.parse()?);
                    end(&content)?;
                }
                "lengths" => {
                    let all = Punctuated::<Length, Token![,]>::parse_terminated(&inside()?)?;
                    options.lengths = all.into_iter().map(|Length(name, least)| (name, least)).collect();
                }
                "launcher" => {
                    input.parse::<Token![=]>()?;
                    options.launcher = Some(input.parse()?);
                }
                "no_launcher" => options.no_launcher = true,
                other => {
                    let known = "launch_bounds(THREADS, BLOCKS), lengths(ARRAY = LENGTH), launcher = NAME, no_launcher";
                    return Err(Error::new(name.span(), format!("#[kernel] has no option `{other}`; it has {known}")));
                }
            }
            if seen.contains(&name.to_string()) {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            seen.push(name.to_string());
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if options.no_launcher && (options.launcher.is_some() || !options.lengths.is_empty()) {
            return Err(Error::new(Span::call_site(), "`no_launcher` leaves no use for `launcher` and `lengths`"));
        }
        Ok(options)
    }
}

/// An error for what is left.
fn end(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() { Ok(()) } else { Err(input.error("too many numbers")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options> {
        syn::parse_str(text)
    }

    #[test]
    fn all_options_are_read() {
        let all = options("launch_bounds(256, 2), lengths(x = n * 2, y = n), launcher = Scale").unwrap();
        let bounds = all.bounds.unwrap();
        assert_eq!((bounds.threads, bounds.blocks), (256, 2));
        assert_eq!(all.lengths.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(all.launcher.unwrap(), "Scale");
        assert_eq!(options("launch_bounds(64)").unwrap().bounds.unwrap().blocks, 0);
        assert!(options("no_launcher").unwrap().no_launcher && options("").unwrap().bounds.is_none());
    }

    #[test]
    fn wrong_options_are_refused_in_words() {
        for (text, words) in [
            ("bounds(3)", "has no option `bounds`"),
            ("launch_bounds(0)", "must be 1 to 1024, found 0"),
            ("launch_bounds(1025)", "must be 1 to 1024, found 1025"),
            ("launch_bounds(256, 33)", "must be 1 to 32, found 33"),
            ("launch_bounds(256, 2, 3)", "too many numbers"),
            ("no_launcher, no_launcher", "given twice"),
            ("no_launcher, lengths(x = 1)", "leaves no use"),
        ] {
            let error = options(text).err().unwrap_or_else(|| panic!("{text} was accepted")).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
