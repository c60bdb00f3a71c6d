//! Compiles the kernels to PTX, which the program includes.

use cuda_builder::{Arch, CudaBuilder};

fn main() {
    // The tensor cores need sm_80. The error of a failure, which `unwrap` shows, says what to do.
    CudaBuilder::new("../kernels").arch(Arch::Sm80).build_for_cargo().unwrap();
}
