//! The header and the items of a PTX text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::entry::{self, Entry};
use super::lexer::{Kind, Token, line_of, tokens};
use super::{PtxError, body, instructions};

/// A parsed PTX text.
#[derive(Clone, Debug)]
pub struct Ptx {
    /// `.version`: the version of PTX.
    pub version: String,
    /// `.target`: the architecture, such as `sm_70`.
    pub target: String,
    /// `.address_size`, in bits.
    pub address_size: String,
    /// The items in their order.
    pub items: Vec<Item>,
}

/// A top-level item of PTX.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its symbol.
    pub name: String,
    /// The kind of the item.
    pub kind: ItemKind,
    /// The text of the item.
    pub text: String,
    /// The symbols of other items that it uses, in order of their first use.
    pub uses: Vec<String>,
    /// Its instructions with modifiers and without operands: `bar.sync`, `ld.global.f32`. A variable has none.
    pub instructions: Vec<String>,
}

/// The kinds of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A variable in global, constant or shared memory.
    Variable,
    /// A `.func` with a body.
    Function,
    /// A `.func` without a body: a declaration.
    Declaration,
    /// A kernel.
    Entry(Entry),
}

impl Ptx {
    /// Parses a text. Checks that each symbol is defined once and that each used symbol is defined.
    ///
    /// # Errors
    /// The first error in the text, with its line.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { text, tokens: &tokens, at: 0 };
        let (mut version, mut target, mut address_size) = (None, None, None);
        let mut raw = Vec::new();
        while let Some(token) = parser.peek() {
            match token.text {
                ".version" => version = Some(parser.header_line()),
                ".target" => target = Some(parser.header_line()),
                ".address_size" => address_size = Some(parser.header_line()),
                _ => raw.push(parser.item()?),
            }
        }
        let header = |value: Option<String>, directive| {
            value.filter(|value| !value.is_empty()).ok_or(PtxError::Header { directive })
        };
        Ok(Self {
            version: header(version, ".version")?,
            target: header(target, ".target")?,
            address_size: header(address_size, ".address_size")?,
            items: resolve(text, &tokens, &raw)?,
        })
    }

    /// The kernels, in their order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Entry(entry) => Some(entry),
            _ => None,
        })
    }

    /// The names of the functions that are not entries, defined or only declared.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let functions = |item: &&Item| matches!(item.kind, ItemKind::Function | ItemKind::Declaration);
        self.items.iter().filter(functions).map(|item| item.name.as_str())
    }
}

/// An item whose references are not resolved yet.
struct RawItem {
    name: String,
    kind: ItemKind,
    all: Range<usize>,
    /// A function's results, name and parameters.
    signature: Range<usize>,
    /// The part that may refer to other items: the initial value of a variable, the body of a function.
    code: Range<usize>,
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn line(&self, token: &Token<'_>) -> usize {
        line_of(self.text, token.start)
    }

    /// The value of a header directive: the rest of its line.
    fn header_line(&mut self) -> String {
        let start = self.tokens[self.at].end();
        let end = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
        while self.peek().is_some_and(|token| token.start < end) {
            self.at += 1;
        }
        let line = &self.text[start..end];
        line.split("//").next().unwrap_or(line).trim().to_owned()
    }

    fn unexpected<T>(&self, at: usize, expected: &'static str) -> Result<T, PtxError> {
        let token = self.tokens.get(at);
        Err(PtxError::Unexpected {
            line: token.map_or_else(|| line_of(self.text, self.text.len()), |token| self.line(token)),
            found: token.map_or("the end", |token| token.text).to_owned(),
            expected,
        })
    }

    /// A variable, a function or an entry, from its first directive to its semicolon or closing brace.
    fn item(&mut self) -> Result<RawItem, PtxError> {
        let start = self.at;
        loop {
            match self.peek().map(|token| token.text) {
                Some(".visible" | ".extern" | ".weak" | ".common") => self.at += 1,
                Some(".entry" | ".func") => return self.function(start),
                Some(".global" | ".const" | ".shared") => return self.variable(start),
                _ => return self.unexpected(self.at, "a variable, a function or an entry"),
            }
        }
    }

    fn variable(&mut self, start: usize) -> Result<RawItem, PtxError> {
        let end = self.find(start, |token| token.is(';'))?;
        let tokens = &self.tokens[self.at..end];
        // Attributes stand in parentheses. The name is the first word; any other word before `=` is unknown.
        let value = tokens.iter().position(|token| token.is('=')).map_or(end, |offset| self.at + offset);
        let mut words = (self.at..value).filter(|&at| self.tokens[at].kind == Kind::Word);
        let Some(name) = words.next() else { return self.unexpected(end, "the name of a variable") };
        if let Some(second) = words.next() {
            return self.unexpected(second, "one variable");
        }
        self.at = end + 1;
        Ok(RawItem {
            name: self.tokens[name].text.to_owned(),
            kind: ItemKind::Variable,
            all: start..end + 1,
            signature: start..start,
            code: value..end,
        })
    }

    fn function(&mut self, start: usize) -> Result<RawItem, PtxError> {
        let is_entry = self.tokens[self.at].text == ".entry";
        self.at += 1;
        if !is_entry && self.peek().is_some_and(|token| token.is('(')) {
            self.at = self.closing(self.at)? + 1;
        }
        let Some(Token { kind: Kind::Word, text: name, .. }) = self.peek() else {
            return self.unexpected(self.at, "the name of a function");
        };
        self.at += 1;
        let mut params = self.at..self.at;
        if self.peek().is_some_and(|token| token.is('(')) {
            let close = self.closing(self.at)?;
            params = self.at + 1..close;
            self.at = close + 1;
        }
        // Performance directives follow, then the body or a semicolon.
        let next = self.find(start, |token| token.is(';') || token.is('{'))?;
        let has_body = self.tokens[next].is('{');
        let end = if has_body { self.closing(next)? } else { next };
        let kind = match (is_entry, has_body) {
            (true, true) => ItemKind::Entry(Entry {
                name: name.to_owned(),
                params: entry::params(&self.tokens[params], |token| self.line(token))?,
            }),
            (true, false) => return self.unexpected(next, "the body of an entry"),
            (false, true) => ItemKind::Function,
            (false, false) => ItemKind::Declaration,
        };
        self.at = end + 1;
        Ok(RawItem {
            name: name.to_owned(),
            kind,
            all: start..end + 1,
            signature: start..next,
            code: (next + 1).min(end)..end,
        })
    }

    /// The next token that `wanted` accepts. If there is none, the item that begins at `start` is not closed.
    fn find(&self, start: usize, wanted: impl Fn(&Token<'_>) -> bool) -> Result<usize, PtxError> {
        let found = self.tokens[self.at..].iter().position(wanted);
        let line = self.line(&self.tokens[start]);
        found.map(|offset| self.at + offset).ok_or(PtxError::Unclosed { line, what: "item" })
    }

    /// The bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Result<usize, PtxError> {
        let mut expected = Vec::new();
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text {
                _ if token.kind != Kind::Mark => {}
                "(" => expected.push(")"),
                "[" => expected.push("]"),
                "{" => expected.push("}"),
                ")" | "]" | "}" => {
                    if expected.pop() != Some(token.text) {
                        return self.unexpected(at, "the closing bracket of what was opened last");
                    }
                    if expected.is_empty() {
                        return Ok(at);
                    }
                }
                _ => {}
            }
        }
        Err(PtxError::Unclosed { line: self.line(&self.tokens[open]), what: "bracket" })
    }
}

/// Resolves the references of each item.
fn resolve(text: &str, tokens: &[Token<'_>], raw: &[RawItem]) -> Result<Vec<Item>, PtxError> {
    let line = |token: usize| line_of(text, tokens[token].start);
    let mut defined: HashMap<&str, usize> = HashMap::new();
    for item in raw.iter().filter(|item| item.kind != ItemKind::Declaration) {
        if let Some(first) = defined.insert(&item.name, item.all.start) {
            return Err(PtxError::Duplicate {
                line: line(item.all.start),
                first: line(first),
                name: item.name.clone(),
            });
        }
    }
    let known: HashSet<&str> = raw.iter().map(|item| item.name.as_str()).collect();
    raw.iter()
        .map(|item| {
            let mut uses: Vec<String> = Vec::new();
            let code = &tokens[item.code.clone()];
            let names = match item.kind {
                ItemKind::Variable => body::names_in_value(code),
                _ => body::names_in_body(&tokens[item.signature.clone()], code),
            };
            for token in names {
                if token.text == item.name || uses.iter().any(|name| name == token.text) {
                    continue;
                }
                if !known.contains(token.text) {
                    return Err(PtxError::Missing {
                        line: line_of(text, token.start),
                        user: item.name.clone(),
                        name: token.text.to_owned(),
                    });
                }
                uses.push(token.text.to_owned());
            }
            let span = tokens[item.all.start].start..tokens[item.all.end - 1].end();
            let instructions = match item.kind {
                ItemKind::Variable => Vec::new(),
                _ => instructions::instructions(text, code).map(str::to_owned).collect(),
            };
            let text = text[span].to_owned();
            Ok(Item { name: item.name.clone(), kind: item.kind.clone(), text, uses, instructions })
        })
        .collect()
}
