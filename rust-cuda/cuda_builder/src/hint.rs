//! A hint where the compiler's own ones mislead.

/// A line that follows the errors of a crate of kernels, if a method of a float is missing there: `x.exp()` needs `std`.
pub(crate) fn after(errors: &str) -> Option<&'static str> {
    const HINT: &str = "help: a kernel calls mathematical functions of `cuda_std::math`: `math::exp(x)`, not `x.exp()`";
    let is_missing = |line: &str| {
        let of_float = ["f32", "f64", "{float}"].into_iter().any(|name| line.contains(&format!("for type `{name}`")));
        of_float && ["no method named", "no function or associated item named"].into_iter().any(|no| line.contains(no))
    };
    errors.lines().any(is_missing).then_some(HINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_methods_of_floats_have_a_hint() {
        for missing in [
            "no method named `exp` found for type `f32`",
            "no method named `sin` found for type `f64`",
            "no method named `sin` found for type `{float}`",
            "no function or associated item named `exp` found for type `f32`",
        ] {
            let errors = format!("error[E0425]: other\nerror[E0599]: {missing} in the current scope\n --> a.rs:2:29");
            assert!(after(&errors).is_some_and(|hint| hint.contains("cuda_std::math")), "{missing}");
        }
        for other in [
            "no method named `exp` found for type `u32` in the current scope",
            "no method named `exp` found for struct `Global<f32>` in the current scope",
            "no method named `exp`\nfound for type `f32`",
            "cannot find value `x` for type `f32`",
        ] {
            assert_eq!(after(other), None, "{other}");
        }
    }
}
