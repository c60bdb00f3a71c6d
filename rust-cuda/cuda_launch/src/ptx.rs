//! PTX inside the program.

use std::borrow::Cow;

/// The PTX of a crate of kernels, or of a module of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The path of the Rust module whose kernels the PTX has, with underscores: `my_kernels` for a whole crate,
    /// `my_kernels::images` for one of its modules.
    pub module: &'static str,
    /// The text.
    pub text: Cow<'static, str>,
}

/// The [`Ptx`](crate::Ptx) that the `build.rs` of this crate made from the crate of kernels with this name.
///
/// The name is that of the crate in Rust, with underscores. The file is `OUT_DIR/NAME.ptx`, which
/// `cuda_builder::CudaBuilder::new(…).build_for_cargo()` writes.
///
/// ```ignore
/// device.load(cuda_launch::ptx!("kernels"))?;
/// ```
#[macro_export]
macro_rules! ptx {
    ($name:literal) => {
        $crate::Ptx {
            module: $name,
            text: ::std::borrow::Cow::Borrowed(include_str!(concat!(env!("OUT_DIR"), "/", $name, ".ptx"))),
        }
    };
}

/// The paths of the modules that a path lies in, from the innermost one on: `a::b` and `a` for `a::b`.
pub(crate) fn enclosing(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once("::").map(|(outer, _)| outer))
}

#[cfg(test)]
mod tests {
    use super::enclosing;

    #[test]
    fn a_module_lies_in_itself_and_in_its_crate() {
        assert_eq!(enclosing("a::b::c").collect::<Vec<_>>(), ["a::b::c", "a::b", "a"]);
        assert_eq!(enclosing("a").collect::<Vec<_>>(), ["a"]);
    }
}
