//! Every kernel in the emulator, with several orders of threads, against its known results.

use cuda_emulator::{Emulator, Launch, Memory};
use cuda_std_check::{Case, Expected, cases, debugging};

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
    let mut cases = cases();
    let first = cases.iter().position(|case| case.name == "atomics_u32").unwrap();
    let mut case = cases.remove(first);
    let Expected::Bits(bits) = case.expected[3] else { panic!("its results are exact") };
    case.expected[3] = Expected::Bits(bits ^ 1);
    assert!(run(&case, 1).unwrap_err().starts_with("atomics_u32: word 3 is "));
    case.expected.pop();
    assert!(run(&case, 1).unwrap_err().contains("words were expected"));
}

#[test]
fn the_printed_text_is_the_known_one() {
    let case = cases().into_iter().find(|case| case.name == "prints").unwrap();
    let mut memory = Memory::new();
    memory.collect_printed();
    let (input, output) = (memory.upload("input", &case.input), memory.upload("output", &case.output));
    let (from, to) = (input.global(), output.global_mut());
    // SAFETY: the emulator checks every access.
    let kernel = || unsafe { (case.kernel)(from, to) };
    Emulator::new().launch(case.name, &Launch::cover(32, 32), &mut memory, kernel).unwrap();
    assert_eq!(memory.take_printed(), debugging::PRINTED);
}

#[test]
fn a_failed_assertion_is_reported() {
    let mut memory = Memory::new();
    let output = memory.upload("output", &[0_u32; 64]);
    let (from, to) = (output.global(), output.global_mut());
    // SAFETY: the emulator checks every access.
    let kernel = || unsafe { debugging::fails_an_assertion(from, to) };
    let result = Emulator::new().launch("fails", &Launch::cover(64, 32), &mut memory, kernel);
    let report = result.unwrap_err().to_string();
    assert!(
        report.contains("thread (1, 0, 0) of block (1, 0, 0): running, assertion `thread 33 is not wanted` failed")
    );
}
