//! Tells the program how it was built, which cargo tells build scripts alone. `bench` prints it beside its figures.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in ["PROFILE", "OPT_LEVEL", "TARGET"] {
        println!("cargo::rustc-env=HOST_{variable}={}", std::env::var(variable).unwrap_or_default());
    }
}
