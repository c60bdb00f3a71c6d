//! The list of entries. PTX symbols, the host's tables, the names on the command line and the tests come from it.

mod entries;
mod request;
mod variant;

pub use self::entries::*;
pub use self::request::{Ineligible, Request};
pub use self::variant::Variant;
