//! Finds the names of other items in a function's body or in a variable's initial value.

use std::collections::HashSet;

use super::lexer::{Kind, Token};

/// Names that PTX itself defines and that do not begin with `%`.
///
/// `generic` and `mask` are operators of initial values.
const PREDEFINED: [&str; 4] = ["_", "WARP_SZ", "generic", "mask"];

/// The names that the initial value of a variable refers to.
pub(super) fn names_in_value<'a, 't>(value: &'t [Token<'a>]) -> Vec<&'t Token<'a>> {
    words(value).filter(|token| !PREDEFINED.contains(&token.text)).collect()
}

/// The names in a function's body that neither its signature nor the body declares.
///
/// A body declares registers, memory, labels and parameters.
pub(super) fn names_in_body<'a, 't>(signature: &'t [Token<'a>], body: &'t [Token<'a>]) -> Vec<&'t Token<'a>> {
    let mut local: HashSet<&str> = words(signature).map(|token| token.text).collect();
    let mut used = Vec::new();
    for statement in statements(body) {
        read(statement, &mut local, &mut used);
    }
    // A label may be used before it is declared, so the local names are known only here.
    used.retain(|token| {
        !token.text.starts_with('%') && !PREDEFINED.contains(&token.text) && !local.contains(token.text)
    });
    used
}

/// The words of `tokens` that may be names. The words of `.shared::cta` are none.
fn words<'a, 't>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = &'t Token<'a>> {
    tokens.iter().enumerate().filter_map(|(at, token)| {
        let qualified = at >= 2 && tokens[at - 1].is(':') && tokens[at - 2].is(':');
        (token.kind == Kind::Word && !qualified).then_some(token)
    })
}

/// Splits a body at semicolons and at the braces of blocks.
///
/// The braces of a vector (`{%r1, %r2}`) stay in their statement.
pub(super) fn statements<'a, 't>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut vectors = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        let ends = if token.is('{') && at > start && !tokens[at - 1].is(':') {
            // The brace is inside of a statement.
            vectors += 1;
            false
        } else if token.is('}') && vectors > 0 {
            vectors -= 1;
            false
        } else {
            token.is(';') || token.is('{') || token.is('}')
        };
        if ends {
            statements.push(&tokens[start..at]);
            start = at + 1;
        }
    }
    statements.push(&tokens[start..]);
    statements
}

/// Separates the names that a statement declares from those that it uses.
fn read<'a, 't>(mut statement: &'t [Token<'a>], local: &mut HashSet<&'a str>, used: &mut Vec<&'t Token<'a>>) {
    // Labels.
    while let [first, second, rest @ ..] = statement
        && first.kind == Kind::Word
        && second.is(':')
        && !rest.first().is_some_and(|third| third.is(':'))
    {
        local.insert(first.text);
        statement = rest;
    }
    if let [at, rest @ ..] = statement
        && at.is('@')
    {
        let guard = if rest.first().is_some_and(|token| token.is('!')) { 2 } else { 1 };
        used.extend(words(&statement[..=guard.min(rest.len())]));
        statement = &statement[(guard + 1).min(statement.len())..];
    }
    let Some(first) = statement.first() else { return };
    match (first.kind, first.text) {
        (Kind::Directive, ".reg" | ".local" | ".shared" | ".param" | ".global" | ".const") => {
            let value = statement.iter().position(|token| token.is('=')).unwrap_or(statement.len());
            local.extend(words(&statement[..value]).map(|token| token.text));
            used.extend(words(&statement[value..]));
        }
        (Kind::Directive, ".callprototype" | ".pragma") => {}
        // An opcode is not a name, and its suffixes are directives.
        (Kind::Word, _) => used.extend(words(&statement[1..])),
        _ => used.extend(words(statement)),
    }
}
