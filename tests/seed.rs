//! The seed of random data.

/// The number in `HOST_TEST_SEED`. None if the variable is not set.
pub(crate) fn from_environment() -> Option<u64> {
    let text = std::env::var("HOST_TEST_SEED").ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("HOST_TEST_SEED: a whole number was expected: {error}")))
}
