//! tmp
/// m
pub struct Module {
    /// n
    pub name: &'static str,
    /// p
    pub ptx: &'static str,
}
/// M
pub const MODULES: &[Module] = &[];
