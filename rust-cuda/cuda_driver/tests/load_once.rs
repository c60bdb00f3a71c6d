//! `load` returns one result per process. The test has a file of its own, because it loads the driver if there is one.

#[test]
fn load_repeats_its_first_answer() {
    // True on machines with a driver and on those without.
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(cuda_driver::load);
        (cuda_driver::load(), other.join().expect("load does not panic"))
    });
    match (first, second) {
        (Ok(first), Ok(second)) => assert!(std::ptr::eq(first, second)),
        (Err(first), Err(second)) => assert_eq!(first, second),
        (first, second) => panic!("{first:?} and {second:?}"),
    }
}
