//! Every kernel in the emulator, with several orders of threads, against its known results.

use cuda_emulator::{Emulator, Launch, Memory};
use cuda_std_check::{Case, Expected, cases};

/// Runs a case. The text of an error names the case and what is wrong.
fn run(case: &Case, seed: u64) -> Result<(), String> {
    let mut memory = Memory::new();
    let input = memory.upload("input", &case.input);
    let output = memory.upload("output", &case.output);
    let (from, to) = (input.global(), output.global_mut());
    let launch = Launch::flat((case.blocks, 1), (case.threads, 1), case.shared_bytes);
    // SAFETY: the emulator checks every access.
    let kernel = || unsafe { (case.kernel)(from, to) };
    Emulator::new().seed(seed).launch(case.name, &launch, &mut memory, kernel).map_err(|error| error.to_string())?;
    case.compare(&memory.download(&output))
}

#[test]
fn every_kernel_has_its_known_results() {
    let wrong: Vec<String> =
        cases().iter().flat_map(|case| (1..4).map(|seed| run(case, seed))).filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_word_is_found() {
    let mut case = cases().remove(0);
    let Expected::Bits(bits) = case.expected[3] else { panic!("the first case has exact results") };
    case.expected[3] = Expected::Bits(bits ^ 1);
    assert!(run(&case, 1).unwrap_err().starts_with("atomics_u32: word 3 is "));
    case.expected.pop();
    assert!(run(&case, 1).unwrap_err().contains("words were expected"));
}
