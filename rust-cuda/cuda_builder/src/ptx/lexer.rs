//! Splits a text into tokens. Comments and white space are dropped; a string is one token.

use super::PtxError;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or an opcode: `MASK`, `%r1`, `$L__BB0_1`, `ld`.
    Word,
    /// A word after a dot: `.entry`, `.b32`. The suffixes of opcodes are directives, too.
    Directive,
    /// `16`, `0x1F`, `0f3F800000`, `1.5`.
    Number,
    /// `"nounroll"`, with its quotes.
    Text,
    /// One character: a bracket, a comma, an operator.
    Mark,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// The offset in bytes from the start of the text.
    pub(super) start: usize,
}

impl Token<'_> {
    /// Whether it is this character.
    pub(super) fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark && self.text.starts_with(mark)
    }

    /// The offset after the token.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The number of the line of byte `offset`, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
}

/// All tokens of `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, PtxError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        if bytes[at].is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or(PtxError::Unclosed { line: line_of(text, at), what: "comment" })?;
            at += end + 4;
        } else {
            let (kind, length) = next(rest).ok_or_else(|| PtxError::Character {
                line: line_of(text, at),
                found: rest.chars().next().expect("the rest is not empty"),
            })?;
            if length == 0 {
                return Err(PtxError::Unclosed { line: line_of(text, at), what: "string" });
            }
            tokens.push(Token { kind, text: &rest[..length], start: at });
            at += length;
        }
    }
    Ok(tokens)
}

/// The kind and the length of the token at the start of `rest`. The length of an unterminated string is 0.
fn next(rest: &str) -> Option<(Kind, usize)> {
    let bytes = rest.as_bytes();
    let word = |from: usize| from + bytes[from..].iter().take_while(|byte| continues_word(**byte)).count();
    Some(match bytes[0] {
        b'"' => (Kind::Text, string(bytes)),
        b'0'..=b'9' => (Kind::Number, number(bytes)),
        b'.' if bytes.get(1).is_some_and(|byte| continues_word(*byte)) => (Kind::Directive, word(1)),
        b'%' | b'$' | b'_' => (Kind::Word, word(1)),
        byte if byte.is_ascii_alphabetic() => (Kind::Word, word(1)),
        byte if byte.is_ascii_punctuation() => (Kind::Mark, 1),
        _ => return None,
    })
}

/// Whether a character may follow the first one of an identifier: `followsym` in the PTX manual.
fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// The length of a number. A dot is a part of it if a digit follows.
fn number(bytes: &[u8]) -> usize {
    let mut length = 1;
    while let Some(byte) = bytes.get(length) {
        let fraction = *byte == b'.' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !byte.is_ascii_alphanumeric() && !fraction {
            break;
        }
        length += 1;
    }
    length
}

/// The length of a string with its quotes, or 0 if it is not terminated.
fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).unwrap().iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_directives_numbers_and_marks() {
        assert_eq!(
            texts("@!%p1 ld.param.v2.b32 {%r1,_}, [f_param_0+4];"),
            [
                "@",
                "!",
                "%p1",
                "ld",
                ".param",
                ".v2",
                ".b32",
                "{",
                "%r1",
                ",",
                "_",
                "}",
                ",",
                "[",
                "f_param_0",
                "+",
                "4",
                "]",
                ";"
            ]
        );
        assert_eq!(texts("0f3F800000 -0x1F 1.5 .version 6.0"), ["0f3F800000", "-", "0x1F", "1.5", ".version", "6.0"]);
        assert_eq!(texts("$L__BB0_1: %p<35>"), ["$L__BB0_1", ":", "%p", "<", "35", ">"]);
    }

    #[test]
    fn comments_go_and_strings_stay() {
        assert_eq!(texts("a // } \"\n/* { // */ b"), ["a", "b"]);
        assert_eq!(texts(r#".pragma "no{ // \" /*"; x"#), [".pragma", r#""no{ // \" /*""#, ";", "x"]);
    }

    #[test]
    fn what_does_not_end_or_does_not_belong_is_an_error_with_its_line() {
        assert!(matches!(tokens("a\n/* b"), Err(PtxError::Unclosed { line: 2, what: "comment" })));
        assert!(matches!(tokens("\n\n\"b"), Err(PtxError::Unclosed { line: 3, what: "string" })));
        assert!(matches!(tokens("\"b\\\""), Err(PtxError::Unclosed { line: 1, what: "string" })));
        assert!(matches!(tokens("a ä"), Err(PtxError::Character { line: 1, found: 'ä' })));
    }
}
