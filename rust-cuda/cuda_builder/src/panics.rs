//! Finds the kernels that can panic, by the functions of `core` that they call.

use std::collections::{BTreeSet, HashSet};

use crate::ptx::{ItemKind, Ptx};

/// A kernel that can panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanickingKernel {
    /// The symbol of the kernel.
    pub entry: String,
    /// What can panic, in words, or the symbol of the function that panics.
    pub reasons: Vec<String>,
}

/// The crate `core` in a mangled name. The rest of the function's path follows it.
const CORE: &str = "4core";

/// Parts of the names of functions of `core` that panic, each with what the kernel does to reach it.
const REASONS: [(&str, &str); 11] = [
    ("panic_bounds_check", "an index that may be out of bounds"),
    ("slice_index_fail", "a range of a slice that may be out of bounds"),
    ("slice_start_index", "a range of a slice that may be out of bounds"),
    ("slice_end_index", "a range of a slice that may be out of bounds"),
    ("div_by_zero", "a division whose divisor may be 0"),
    ("rem_by_zero", "a remainder whose divisor may be 0"),
    ("div_overflow", "a division that may overflow (MIN / -1)"),
    ("rem_overflow", "a remainder that may overflow (MIN % -1)"),
    ("unwrap_failed", "`unwrap` or `expect` of a value that may be missing"),
    ("expect_failed", "`unwrap` or `expect` of a value that may be missing"),
    ("15copy_from_slice", "a copy between slices whose lengths may differ"),
];

/// Why a function panics, by its symbol. None for a symbol that is no panic of `core`.
fn reason(function: &str) -> Option<String> {
    let in_core = function.split_once(CORE).map_or("", |(_, path)| path);
    if let Some((_, words)) = REASONS.iter().find(|(part, _)| in_core.contains(part)) {
        return Some((*words).to_owned());
    }
    // The handler's symbol, and the module of `core`.
    let panics = function.contains("rust_begin_unwind") || in_core.starts_with("9panicking");
    panics.then(|| "a panic, such as `panic!`, `assert!` or `unreachable!`".to_owned())
}

/// The kernels that can panic, in the order of the PTX.
pub(crate) fn panicking(ptx: &Ptx) -> Vec<PanickingKernel> {
    let mut found = Vec::new();
    for item in ptx.items.iter().filter(|item| matches!(item.kind, ItemKind::Entry(_))) {
        let reasons = reasons_below(ptx, &item.name);
        if !reasons.is_empty() {
            found.push(PanickingKernel { entry: item.name.clone(), reasons });
        }
    }
    found
}

/// Why the functions panic that this kernel calls, directly or through others. Sorted, each reason once.
fn reasons_below(ptx: &Ptx, entry: &str) -> Vec<String> {
    let mut reasons = BTreeSet::new();
    let (mut to_visit, mut seen) = (vec![entry], HashSet::from([entry]));
    while let Some(name) = to_visit.pop() {
        // The kernel itself is no panic, whatever its name. A function that panics is not searched further.
        if name != entry
            && let Some(reason) = reason(name)
        {
            reasons.insert(reason);
            continue;
        }
        for used in ptx.items.iter().filter(|item| item.name == name).flat_map(|item| &item.uses) {
            if seen.insert(used) {
                to_visit.push(used);
            }
        }
    }
    reasons.into_iter().collect()
}

/// The text of an error: a line for each kernel.
pub(crate) fn listed(kernels: &[PanickingKernel]) -> String {
    let line = |kernel: &PanickingKernel| format!("  {}: {}", kernel.entry, kernel.reasons.join("; "));
    kernels.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_reach_a_panic_are_named_with_the_reason() {
        let text = ".version 6.0\n.target sm_70\n.address_size 64\n\
            .func _RNvNtC4core9panicking18panic_bounds_check() { trap; }\n\
            .func _ZN4core9panicking11panic_const23panic_const_div_by_zero17h0E() { trap; }\n\
            .func helper() { call _RNvNtC4core9panicking18panic_bounds_check; ret; }\n\
            .entry fine() { ret; }\n\
            .entry index() { call helper; ret; }\n\
            .entry both() { call helper; call _ZN4core9panicking11panic_const23panic_const_div_by_zero17h0E; ret; }\n";
        let found = panicking(&Ptx::parse(text).unwrap());
        let index = "an index that may be out of bounds".to_owned();
        let division = "a division whose divisor may be 0".to_owned();
        assert_eq!(
            found,
            [
                PanickingKernel { entry: "index".to_owned(), reasons: vec![index.clone()] },
                PanickingKernel { entry: "both".to_owned(), reasons: vec![division, index] },
            ]
        );
        assert!(listed(&found).starts_with("  index: an index that may be out of bounds\n  both: "));
    }

    #[test]
    fn names_of_kernels_and_of_their_functions_are_no_panics() {
        let text = ".version 6.0\n.target sm_70\n.address_size 64\n\
            .func _RNvCs1_14panicking_demo5start() { ret; }\n\
            .func _ZN7kernels15copy_from_slice17h0E() { ret; }\n\
            .func _RNvNvMNtCs1_4core5sliceSp15copy_from_slice17len_mismatch_fail() { trap; }\n\
            .entry panicking() { call _RNvCs1_14panicking_demo5start; ret; }\n\
            .entry copy_from_slice() { call _ZN7kernels15copy_from_slice17h0E; ret; }\n\
            .entry rem_by_zero() { call _RNvNvMNtCs1_4core5sliceSp15copy_from_slice17len_mismatch_fail; ret; }\n";
        let found = panicking(&Ptx::parse(text).unwrap());
        let reasons = vec!["a copy between slices whose lengths may differ".to_owned()];
        assert_eq!(found, [PanickingKernel { entry: "rem_by_zero".to_owned(), reasons }]);
    }
}
