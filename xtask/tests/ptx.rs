//! The committed PTX against the sources and the list of entries; and that each kind of defect is seen.

use kernels_gpu::ptx;
use kernels_gpu::registry::{entries, kernels as list};
use xtask::{build_ptx, kernels, ptxas};

/// The committed modules.
fn committed() -> Vec<(&'static str, String)> {
    ptx::MODULES.iter().map(|module| (module.name, module.ptx())).collect()
}

fn mismatches(modules: &[(&str, String)]) -> Vec<String> {
    kernels::mismatches(modules.iter().map(|(name, text)| (*name, text.as_str())), &list().collect::<Vec<_>>())
}

/// What is reported when the text of one module is changed.
fn planted(module: &str, from: &str, to: &str) -> Vec<String> {
    let mut modules = committed();
    let (_, text) = modules.iter_mut().find(|(name, _)| *name == module).expect("the module is there");
    assert!(text.contains(from), "{module} has no {from:?} to replace");
    *text = text.replace(from, to);
    mismatches(&modules)
}

#[test]
fn the_ptx_belongs_to_the_sources() {
    let hash = kernels::source_hash(&xtask::root()).unwrap();
    assert_eq!(
        ptx::SOURCE_HASH,
        hash,
        "the kernels changed since kernels-gpu/ptx was made: run `cargo xtask build-ptx` and commit the result"
    );
    assert_eq!(ptx::RUSTC, kernels::pinned_rustc(&xtask::root()).unwrap());
    assert_eq!(ptx::ARCH, kernels::ARCH.name());
}

#[test]
fn the_ptx_has_the_entries_of_the_list_and_their_parameters() {
    assert_eq!(mismatches(&committed()), Vec::<String>::new());
}

/// What the compiler may have made of one barrier: a copy in another branch.
#[test]
fn a_convergent_instruction_too_many_or_too_few_is_seen() {
    for (module, start, name) in [
        ("sliding_window_u8_c1_3x3", "bar.sync", "bar.sync"),
        ("tensor_core_u8_u8_c3_5x5", "bar.warp.sync", "bar.warp.sync"),
        ("tensor_core_u8_u8_c1_3x3", "mma.sync", "mma.sync"),
        ("separable_tensor_core_f32_c1_blocks_5", "mma.sync", "mma.sync"),
        ("separable_tensor_core_f32_c1_blocks_5", "shfl.sync", "shfl.sync"),
        ("tensor_core_u8_u8_c1_3x3", "vote.sync", "vote.sync"),
        // In a kernel that has none.
        ("naive_f32_c1", "ret;", "bar.sync"),
    ] {
        let text = ptx::module(module).unwrap().ptx();
        // The whole statement: it may have several lines.
        let begin = text.find(&format!("\t{start}")).unwrap() + 1;
        let statement = &text[begin..=begin + text[begin..].find(';').unwrap()];
        let copy = if start == "ret;" { "bar.sync 0;" } else { statement };
        let mut modules = committed();
        let (_, changed) = modules.iter_mut().find(|(name, _)| *name == module).unwrap();
        *changed = changed.replacen(statement, &format!("{copy}\n{statement}"), 1);
        let found = mismatches(&modules);
        let (begin, end) = (format!("module {module}: {module} has "), format!(" {name}, its source implies "));
        assert!(found.len() == 1 && found[0].starts_with(&begin) && found[0].contains(&end), "{found:?}");
        if start != "ret;" {
            *modules.iter_mut().find(|(name, _)| *name == module).unwrap() = (module, text.replacen(statement, "", 1));
            assert_eq!(mismatches(&modules).len(), 1, "{module} without one {name}");
        }
    }
}

/// The arithmetic of `f64` that the assembler could fuse, or that is fused, in the PTX of a filter on arrays.
fn fusible(text: &str) -> Vec<&str> {
    let instructions = text.split_whitespace().filter(|word| word.ends_with(".f64"));
    instructions
        .filter(|word| ["fma.", "mad.", "mul.f64", "add.f64", "sub.f64"].iter().any(|start| word.starts_with(start)))
        .collect()
}

/// Sums of `f64` have the CPU's bits only if each product is rounded.
#[test]
fn sums_of_f64_are_not_fused() {
    let mut products = 0;
    for instance in kernels_gpu::ndimage::instances() {
        let text = ptx::module(instance.module()).unwrap().ptx();
        assert_eq!(fusible(&text), Vec::<&str>::new(), "{}", instance.symbol);
        products += text.matches("mul.rn.f64").count();
        let planted = text.replacen("mul.rn.f64", "mul.f64", 1).replacen("add.rn.f64", "fma.rn.f64", 1);
        assert_eq!(
            fusible(&planted).len(),
            usize::from(text.contains("mul.rn.f64")) + usize::from(text.contains("add.rn.f64"))
        );
    }
    assert!(products > 100, "{products} products");
}

#[test]
fn each_entry_finds_its_module() {
    for entry in entries() {
        let module = ptx::module(entry.module()).unwrap_or_else(|| panic!("{} has no module", entry.symbol));
        assert_eq!(module.name, entry.module());
        assert!(!module.ptx().contains('\0'), "{}: the driver takes a C string", module.name);
    }
    assert_eq!(ptx::module("no_such_module"), None);
    assert!(ptx::MODULES.is_sorted_by(|a, b| a.name < b.name), "module() looks names up by halving");
}

/// A copy of the kernels' sources, and of these files and folders.
fn copied(more: &[&str]) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for source in kernels::SOURCES.iter().chain(&["rust-toolchain.toml", "Cargo.lock"]).chain(more) {
        let mut folders = vec![xtask::root().join(source)];
        while let Some(path) = folders.pop() {
            if path.is_dir() {
                folders.extend(std::fs::read_dir(path).unwrap().map(|item| item.unwrap().path()));
            } else {
                let place = copy.path().join(path.strip_prefix(xtask::root()).unwrap());
                std::fs::create_dir_all(place.parent().unwrap()).unwrap();
                std::fs::copy(path, place).unwrap();
            }
        }
    }
    copy
}

/// A check is skipped only where sources, compiler and PTX are those that the stamp was written for.
#[test]
fn a_stale_stamp_skips_nothing() {
    let copy = copied(&["Cargo.toml", "xtask/src/build_ptx.rs", "xtask/src/ptxas.rs", build_ptx::FOLDER]);
    let root = copy.path();
    let current = || [build_ptx::stamp(root), ptxas::stamp(root)].map(|stamp| stamp.unwrap().is_current());
    assert_eq!(current(), [false; 2], "there are no stamps");
    build_ptx::stamp(root).unwrap().write().unwrap();
    ptxas::stamp(root).unwrap().write().unwrap();
    assert_eq!(current(), [true; 2]);
    for (file, of_ptx, of_ptxas) in [
        ("kernels-gpu/src/teaching/naive.rs", false, true),
        ("rust-cuda/cuda_std/src/shared.rs", false, true),
        ("rust-cuda/cuda_builder/src/builder.rs", false, true),
        ("rust-toolchain.toml", false, true),
        ("kernels-gpu/ptx/naive_f32_c1.ptx", false, false),
        ("kernels-gpu/ptx/index.rs", false, false),
        ("xtask/src/ptxas.rs", true, false),
    ] {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}\n")).unwrap();
        assert_eq!(current(), [of_ptx, of_ptxas], "{file} changed");
        std::fs::write(&path, text).unwrap();
        assert_eq!(current(), [true; 2]);
    }
    std::fs::remove_file(root.join("kernels-gpu/ptx/naive_f32_c1.ptx")).unwrap();
    assert_eq!(current(), [false; 2], "a module is missing");
}

#[test]
fn a_changed_source_changes_the_hash() {
    let copy = copied(&[]);
    assert_eq!(kernels::source_hash(copy.path()).unwrap(), kernels::source_hash(&xtask::root()).unwrap());

    // A package that the kernels are built with, and one that only others are.
    let version_of = |text: &str, package: &str| {
        let begin = text.find(&format!("name = \"{package}\"\nversion = \"")).unwrap() + package.len() + 21;
        format!("{}9{}", &text[..begin], &text[begin..])
    };
    let lock = copy.path().join("Cargo.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    std::fs::write(&lock, version_of(&text, "clap")).unwrap();
    assert_eq!(kernels::source_hash(copy.path()).unwrap(), ptx::SOURCE_HASH, "clap is no part of the kernels");
    std::fs::write(&lock, text).unwrap();

    for file in [
        "kernels-gpu/src/abi/params.rs",
        "rust-cuda/cuda_std/src/shared.rs",
        "rust-cuda/cuda_builder/src/ptx/split.rs",
        "xtask/src/module_text.rs",
        "rust-toolchain.toml",
        "Cargo.lock",
    ] {
        let path = copy.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = match file {
            "rust-toolchain.toml" => text.replace("1.", "2."),
            "Cargo.lock" => version_of(&text, "quote"),
            _ => format!("{text} "),
        };
        std::fs::write(&path, changed).unwrap();
        assert_ne!(kernels::source_hash(copy.path()).unwrap(), ptx::SOURCE_HASH, "{file}");
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(kernels::source_hash(copy.path()).unwrap(), kernels::source_hash(&xtask::root()).unwrap());
}

#[test]
fn a_module_or_an_entry_that_is_not_there_is_seen() {
    let mut modules = committed();
    let (name, _) = modules.remove(0);
    assert_eq!(mismatches(&modules), [format!("module {name} of the list of entries is not there")]);

    assert_eq!(
        planted("naive_f32_c1", "naive_f32_c1", "renamed"),
        ["module naive_f32_c1 has no entry naive_f32_c1", "module naive_f32_c1: entry renamed does not belong here"]
    );
}

#[test]
fn what_is_too_much_is_seen() {
    let mut modules = committed();
    modules.push(("extra", modules[0].1.clone()));
    assert_eq!(mismatches(&modules), ["module extra is not in the list of entries"]);

    let found = planted("naive_f32_c1", ".visible .entry", ".func helper() { ret; }\n.visible .entry");
    assert_eq!(found, ["module naive_f32_c1 has a function beside its entries: helper"]);
}

#[test]
fn wrong_parameters_are_seen() {
    for (from, to) in [
        ("[56]", "[60]"),
        (".param .align 4", ".param .align 8"),
        (".param .u64 .ptr .align 1 naive_f32_c1_param_1", ".param .u64 naive_f32_c1_param_1"),
        (".param .u64 .ptr .align 1 naive_f32_c1_param_1,\n", ""),
    ] {
        let found = planted("naive_f32_c1", from, to);
        let expected = |problem: &String| {
            problem.starts_with("module naive_f32_c1: the parameters of naive_f32_c1 are")
                || problem.contains("which is not there")
        };
        assert!(found.len() == 1 && expected(&found[0]), "{from} -> {to:?}: {found:?}");
    }
}

#[test]
fn text_that_is_no_ptx_or_for_another_gpu_is_seen() {
    let found = planted("naive_f32_c1", "ret;", "call.uni helper, (); ret;");
    assert!(found[0].ends_with("naive_f32_c1 uses helper, which is not there"), "{found:?}");
    let found = planted("naive_f32_c1", ".target sm_70", ".target sm_90");
    assert_eq!(found, ["module naive_f32_c1 is for sm_90, required is sm_70"]);
    let found = planted("sliding_window_u8_c1_3x3", ".target sm_80", ".target sm_70");
    assert_eq!(found, ["module sliding_window_u8_c1_3x3 is for sm_70, required is sm_80"]);
    let found = planted("naive_f32_c1", "\n}", "\n");
    assert!(found[0].contains("does not end"), "{found:?}");
}
