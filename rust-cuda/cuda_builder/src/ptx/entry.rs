//! Entries and their parameters.

use super::PtxError;
use super::lexer::{Kind, Token};

/// A kernel: a `.entry` of the PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The symbol by which a program finds the kernel.
    pub name: String,
    /// The parameters that a launch passes, in order.
    pub params: Vec<Param>,
}

/// A parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its symbol.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Whether it is a pointer to device memory.
    pub pointer: bool,
}

/// The parameters between the parentheses of an entry. `line` returns the line of a token.
pub(super) fn params(tokens: &[Token<'_>], line: impl Fn(&Token<'_>) -> usize) -> Result<Vec<Param>, PtxError> {
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    tokens.split(|token| token.is(',')).map(|tokens| param(tokens, &line)).collect()
}

/// `.param .u64 .ptr .align 1 NAME` or `.param .align 4 .b8 NAME[52]`.
fn param(tokens: &[Token<'_>], line: impl Fn(&Token<'_>) -> usize) -> Result<Param, PtxError> {
    let unexpected = |token: Option<&Token<'_>>, expected| PtxError::Unexpected {
        line: token.or(tokens.first()).map_or(0, &line),
        found: token.map_or("nothing", |token| token.text).to_owned(),
        expected,
    };
    let mut rest = tokens.iter();
    match rest.next() {
        Some(token) if token.text == ".param" => {}
        other => return Err(unexpected(other, ".param")),
    }
    let (mut element, mut align, mut pointer) = (None, None, false);
    let name = loop {
        let token = rest.next();
        match token {
            Some(Token { kind: Kind::Word, text, .. }) => break *text,
            Some(Token { text: ".ptr", .. }) => pointer = true,
            Some(Token { text: ".global" | ".const" | ".shared" | ".local", .. }) if pointer => {}
            Some(Token { text: ".align", .. }) => {
                let number = rest.next();
                let bytes = number.and_then(|number| number.text.parse::<usize>().ok());
                let bytes = bytes.ok_or_else(|| unexpected(number, "an alignment"))?;
                // After `.ptr`, `.align` is the alignment of the memory and not of the parameter.
                if !pointer {
                    align = Some(bytes);
                }
            }
            Some(Token { kind: Kind::Directive, text, .. }) if element.is_none() => {
                element = Some(size_of_type(text).ok_or_else(|| unexpected(token, "a type"))?);
            }
            other => return Err(unexpected(other, "the name of a parameter")),
        }
    };
    let element = element.ok_or_else(|| unexpected(None, "a type"))?;
    let rest = rest.as_slice();
    let count = match rest {
        [] => 1,
        [open, number, close] if open.is('[') && close.is(']') => {
            number.text.parse().map_err(|_| unexpected(Some(number), "the length of an array"))?
        }
        other => return Err(unexpected(other.first(), "a comma")),
    };
    Ok(Param { name: name.to_owned(), bytes: element * count, align: align.unwrap_or(element), pointer })
}

/// The size in bytes of a type such as `.b8`, `.u64` or `.f32`.
fn size_of_type(directive: &str) -> Option<usize> {
    match directive {
        ".b8" | ".u8" | ".s8" => Some(1),
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => Some(2),
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => Some(4),
        ".b64" | ".u64" | ".s64" | ".f64" => Some(8),
        ".b128" => Some(16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    fn read(text: &str) -> Result<Vec<Param>, PtxError> {
        params(&tokens(text).unwrap(), |_| 7)
    }

    #[test]
    fn the_layouts_that_rustc_writes() {
        let found = read(
            ".param .u64 .ptr .align 1 f_param_0, .param .align 4 .b8 f_param_1[52],\n.param .u32 f_param_2, \
             .param .u64 .ptr .global .align 16 f_param_3, .param .align 16 .b8 f_param_4[32]",
        )
        .unwrap();
        let layout: Vec<_> = found.iter().map(|p| (p.name.as_str(), p.bytes, p.align, p.pointer)).collect();
        assert_eq!(
            layout,
            [
                ("f_param_0", 8, 8, true),
                ("f_param_1", 52, 4, false),
                ("f_param_2", 4, 4, false),
                ("f_param_3", 8, 8, true),
                ("f_param_4", 32, 16, false)
            ]
        );
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        for (text, found) in [
            (".reg .u64 a", ".reg"),
            (".param .texref a", ".texref"),
            (".param .u64", "nothing"),
            (".param a", "nothing"),
            (".param .u64 a b", "b"),
            (".param .b8 a[x]", "x"),
            (".param .align x .b8 a[4]", "x"),
            (".param .u32 a,", "nothing"),
        ] {
            match read(text) {
                Err(PtxError::Unexpected { found: actual, .. }) => assert_eq!(actual, found, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
