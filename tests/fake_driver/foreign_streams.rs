//! Calls on streams of another library: which functions of the driver they call.

use std::collections::BTreeMap;

use faltung::Device;
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::{Fake, PAGEABLE_LATE, Report};
use crate::handles::foreign_streams::{LAYOUTS, filter_twice};
use crate::library::cleanly;

pub(crate) const TESTS: &[Test] = &[
    ("foreign_streams_wait_for_nothing", wait_for_nothing),
    ("foreign_streams_take_few_calls", few_calls),
    ("foreign_streams_without_an_event", without_an_event),
];

/// The functions of the driver that enqueue work, or that say something at once.
const AT_ONCE: [&str; 9] = [
    "cuCtxGetCurrent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuLaunchKernel",
    "cuMemcpy2DAsync_v2",
    "cuMemsetD8Async",
    "cuStreamWaitEvent",
];

/// Calls of the driver between two reports, by function.
fn calls(before: &Report, after: &Report) -> BTreeMap<String, u64> {
    let count = |report: &Report, name: &str| report.by_function.get(name).copied().unwrap_or(0);
    let calls = after.by_function.keys().map(|name| (name.clone(), count(after, name) - count(before, name)));
    calls.filter(|(_, count)| *count > 0).collect()
}

/// The driver's calls of each of the two library calls.
fn watch(
    fake: &Fake,
    default: Option<usize>,
    layout: (usize, usize, usize),
) -> Result<Vec<BTreeMap<String, u64>>, Failed> {
    let mut seen = Vec::new();
    filter_twice(&Device::cuda(0)?, default, layout, &mut |call| {
        let before = fake.report();
        call()?;
        seen.push(calls(&before, &fake.report()));
        Ok(())
    })?;
    Ok(seen)
}

fn wait_for_nothing() -> Result<(), Failed> {
    for default in [None, Some(0), Some(1), Some(2)] {
        for layout in LAYOUTS {
            cleanly(PAGEABLE_LATE, |fake| {
                for (number, calls) in watch(fake, default, layout)?.into_iter().enumerate() {
                    // Memory between the call's two copies is allocated once.
                    let other = |name: &&String| !AT_ONCE.contains(&name.as_str()) && **name != "cuMemAlloc_v2";
                    let others: Vec<_> = calls.keys().filter(other).collect();
                    if !others.is_empty() || !calls.contains_key("cuLaunchKernel") {
                        return Err(format!("call {number}, {layout:?}: {calls:?}").into());
                    }
                }
                fake.report().no_waiting_frees()
            })?;
        }
    }
    Ok(())
}

/// Rows that the kernels take where they lie: one launch and one event. The legacy default stream, 0 or 1, takes the
/// launch alone.
fn few_calls() -> Result<(), Failed> {
    cleanly(PAGEABLE_LATE, |fake| {
        for (default, expected) in [
            (None, &["cuEventRecord", "cuLaunchKernel"][..]),
            (Some(0), &["cuLaunchKernel"]),
            (Some(1), &["cuLaunchKernel"]),
            (Some(2), &["cuEventRecord", "cuLaunchKernel"]),
        ] {
            // The second call: the first one on a stream makes the event.
            let mut seen = watch(fake, default, LAYOUTS[0])?.swap_remove(1);
            assert!(seen.remove("cuCtxGetCurrent").is_some_and(|calls| calls <= 2), "{seen:?}");
            assert!(seen.keys().eq(expected) && seen.values().all(|calls| *calls == 1), "{default:?}: {seen:?}");
        }
        Ok(())
    })
}

/// Where no event can be recorded behind a launch, the call waits for the stream and fails. Nothing runs afterwards
/// that reads the mask.
fn without_an_event() -> Result<(), Failed> {
    cleanly(&format!("{PAGEABLE_LATE};fail=cuEventRecord:1:2"), |fake| {
        let mut waited = None;
        let done = filter_twice(&Device::cuda(0)?, None, LAYOUTS[0], &mut |call| {
            let before = fake.report();
            let done = call();
            waited.get_or_insert(calls(&before, &fake.report()));
            done
        });
        let error = done.expect_err("a refused event is an error");
        assert!(error.contains("record an event"), "{error}");
        assert_eq!(waited.expect("one call")["cuStreamSynchronize"], 1);
        Ok(())
    })
}
