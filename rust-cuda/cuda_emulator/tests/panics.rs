//! A panic of a kernel is reported with its line, without a call of the program's panic hook.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_emulator::{Emulator, Error, Kind, Launch, Memory};
use cuda_std::prelude::*;

/// Every thread panics, at one of two lines.
#[kernel]
pub unsafe fn two_panics(ten: u32) {
    let tx = thread::thread_idx_x();
    if tx >= 16 {
        ten.checked_sub(tx).unwrap();
        panic!("thread {tx}");
    }
    assert!(tx > ten, "another line");
}

/// The only test of the file: the hook is one of the process.
#[test]
fn a_panic_has_its_line_and_the_hook_is_that_of_other_threads() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // The hook of the test harness prints the failure of this test.
    let of_harness = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        of_harness(info);
        CALLS.fetch_add(1, Ordering::Relaxed);
    }));
    for _ in 0..2 {
        let (launch, mut memory) = (Launch::flat((1, 1), (32, 1), 0), Memory::new());
        let result = Emulator::new().launch("two_panics", &launch, &mut memory, || unsafe { two_panics(15) });
        let Err(Error::Defects(found)) = result else { panic!("{result:?}") };
        let text = found.to_string();
        let mut places: Vec<_> = found.defects.iter().map(|defect| (&defect.kind, defect.times)).collect();
        places.sort_by_key(|(kind, _)| format!("{kind:?}"));
        let [(Kind::Panic { at: Some(first), .. }, 16), (Kind::Panic { at: Some(second), .. }, 16)] = &places[..]
        else {
            panic!("{text}")
        };
        assert!(first.contains("panics.rs:17:5") && second.contains("panics.rs:14:29"), "{text}");
        assert!(text.contains("panics.rs:14:29 (and 15 more times)") && text.contains("\n    at "), "{text}");
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    assert!(std::thread::spawn(|| panic!("of a thread")).join().is_err());
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}
