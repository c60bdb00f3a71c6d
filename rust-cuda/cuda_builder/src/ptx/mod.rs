//! Parses PTX as far as it takes to list its entries and to split it into modules.
//!
//! A PTX text is a header and a list of items: variables, functions and entries. [`Ptx::parse`] finds the items, checks
//! that every symbol that they use is defined, and keeps their text unchanged. A split module computes what the whole
//! text computes.
//!
//! ```
//! use cuda_builder::ptx::Ptx;
//!
//! let ptx = Ptx::parse(
//!     ".version 6.0\n.target sm_70\n.address_size 64\n\
//!      .visible .const .align 16 .b8 MASK[64];\n\
//!      .visible .entry one(.param .u64 .ptr .align 1 one_param_0) { ret; }\n\
//!      .visible .entry two() { .reg .b64 %rd<2>; mov.u64 %rd1, MASK; ret; }",
//! )?;
//! let modules = ptx.split(|entry| entry.to_owned());
//! assert_eq!(modules.len(), 2);
//! assert!(!modules[0].text.contains("MASK") && modules[1].text.contains("MASK"));
//! assert_eq!((modules[0].entries[0].params[0].bytes, modules[0].entries[0].params[0].pointer), (8, true));
//! # Ok::<(), cuda_builder::ptx::PtxError>(())
//! ```

mod body;
mod bounds;
mod entry;
mod features;
mod header;
mod instructions;
mod lexer;
mod parse;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use bounds::apply_declared;
pub use bounds::{LaunchBounds, with_launch_bounds};
pub use entry::{Entry, Param};
pub use header::NewerInstruction;
pub(crate) use header::listed as listed_instructions;
pub use parse::{Item, ItemKind, Ptx};
pub use split::Module;

/// The reason why a text is not usable PTX. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PtxError {
    /// A character that PTX allows only in strings and comments.
    #[error("line {line}: {found:?} does not belong in PTX")]
    Character {
        /// The line.
        line: usize,
        /// The character.
        found: char,
    },
    /// A comment, a string, an item or a bracket that is not closed.
    #[error("line {line}: the {what} that begins here does not end")]
    Unclosed {
        /// The line in which it begins.
        line: usize,
        /// Its kind.
        what: &'static str,
    },
    /// `.version`, `.target` or `.address_size` is missing or has no value.
    #[error("the header has no {directive}")]
    Header {
        /// The missing directive.
        directive: &'static str,
    },
    /// A construct that this parser does not know, such as debug information.
    #[error("line {line}: {found:?} is not known here: {expected} was expected")]
    Unexpected {
        /// The line.
        line: usize,
        /// The text that was found.
        found: String,
        /// The text that was expected.
        expected: &'static str,
    },
    /// Two items define the same symbol.
    #[error("line {line}: {name} is defined in line {first} already")]
    Duplicate {
        /// The line of the second definition.
        line: usize,
        /// The line of the first definition.
        first: usize,
        /// The symbol.
        name: String,
    },
    /// An item uses a symbol that neither it nor another item defines.
    #[error("line {line}: {user} uses {name}, which is not there")]
    Missing {
        /// The line of the use.
        line: usize,
        /// The item that uses it.
        user: String,
        /// The symbol.
        name: String,
    },
}
