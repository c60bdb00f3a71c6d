//! Names of registers as distances, so that PTX deflates to half the size.
//!
//! Most of a kernel's text is numbers of registers, and hardly two instructions name the same ones. What repeats is how
//! long ago a register was named:
//!
//! | name | what is written |
//! | --- | --- |
//! | of a register that was named before | `%` and the number of names from there to here: `%12` |
//! | of another one | the class, and the difference to the last such name of its class: `%r+1` |
//!
//! The build script writes this form. [`restore`] undoes it.

extern crate std;

use std::collections::HashMap;
use std::format;
use std::string::String;
use std::vec::Vec;

/// The classes of registers, and the number of the last new one of each.
type Last<'a> = HashMap<&'a str, i64>;

/// Splits text behind the first `%` into letters, then digits, and what follows.
fn split(text: &str) -> (&str, &str, &str) {
    let end_of = |from: usize, is_part: fn(&u8) -> bool| {
        text.as_bytes()[from..].iter().position(|byte| !is_part(byte)).map_or(text.len(), |length| from + length)
    };
    let class = end_of(0, u8::is_ascii_lowercase);
    let number = end_of(class, u8::is_ascii_digit);
    (&text[..class], &text[class..number], &text[number..])
}

/// Writes names of registers as distances.
///
/// # Panics
/// If the text has a name with a number that is too large for 63 bits.
#[cfg_attr(not(test), allow(dead_code, reason = "the build script calls it"))]
#[must_use]
pub(super) fn shorten(ptx: &str) -> String {
    let mut parts = ptx.split('%');
    let mut text = String::from(parts.next().unwrap_or_default());
    let (mut names, mut last) = (HashMap::new(), Last::new());
    let mut place = 0;
    for part in parts {
        text.push('%');
        let (class, number, rest) = split(part);
        if class.is_empty() || number.is_empty() {
            text.push_str(part);
            continue;
        }
        match names.insert((class, number), place) {
            Some(before) => text.push_str(&format!("{}", place - before)),
            None => {
                let number = number.parse().expect("a number of a register has few digits");
                let before = last.insert(class, number).unwrap_or(0);
                text.push_str(&format!("{class}{:+}", number - before));
            }
        }
        text.push_str(rest);
        place += 1;
    }
    text
}

/// Undoes [`shorten`]. None if the text is no result of it.
#[must_use]
pub(super) fn restore(short: &str) -> Option<String> {
    let mut parts = short.split('%');
    let mut text = String::from(parts.next()?);
    let (mut names, mut last) = (Vec::<(&str, i64)>::new(), Last::new());
    for part in parts {
        text.push('%');
        let (class, digits, rest) = split(part);
        let (class, number, rest) = if class.is_empty() && !digits.is_empty() {
            let (class, number) = *names.get(names.len().checked_sub(digits.parse().ok()?)?)?;
            (class, number, rest)
        } else if digits.is_empty() && rest.starts_with(['+', '-']) {
            let (_, digits, after) = split(&rest[1..]);
            let difference: i64 = rest[..rest.len() - after.len()].parse().ok().filter(|_| !digits.is_empty())?;
            let number = last.get(class).unwrap_or(&0) + difference;
            last.insert(class, number);
            (class, number, after)
        } else {
            text.push_str(part);
            continue;
        };
        names.push((class, number));
        text.push_str(&format!("{class}{number}{rest}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distances() {
        let ptx = ".reg .b32 %r<9>;\n\tadd.s32 \t%r3, %r1, %r3;\n\tmov.b64 %rd7, %clock64;\n\tmov.u32 %r9, %tid.x; ld [%rd7+8]";
        let short = ".reg .b32 %r<9>;\n\tadd.s32 \t%r+3, %r-2, %2;\n\tmov.b64 %rd+7, %clock+64;\n\tmov.u32 %r+8, %tid.x; ld [%3+8]";
        assert_eq!(shorten(ptx), short);
        assert_eq!(restore(short).as_deref(), Some(ptx));
    }

    #[test]
    fn what_is_no_short_text_is_refused() {
        for text in ["%1", "%r+1, %0", "%r+1, %2", "%r+", "%r+99999999999999999999"] {
            assert_eq!(restore(text), None, "{text}");
        }
    }
}
