//! Figures with units, for people.

/// A time given in microseconds, with three digits, in the unit that suits it: µs, ms, s, min, h or days.
///
/// ```
/// assert_eq!(host::units::time(1234.5), "1.23 ms");
/// ```
#[must_use]
pub fn time(us: f64) -> String {
    let seconds = us / 1e6;
    let (value, unit) = match seconds {
        ..1e-3 => (us, "µs"),
        ..1.0 => (us / 1e3, "ms"),
        ..600.0 => (seconds, "s"),
        ..36_000.0 => (seconds / 60.0, "min"),
        ..864_000.0 => (seconds / 3600.0, "h"),
        _ => (seconds / 86_400.0, "days"),
    };
    format!("{} {unit}", digits(value))
}

/// A number with three digits that mean something, or more before the point.
#[must_use]
pub fn digits(value: f64) -> String {
    // The place of the first digit after rounding to three: 9.996 is 10.0.
    let first = if value == 0.0 { 0.0 } else { (value.abs() * 1.0005).log10().floor() };
    let places = (2.0 - first).clamp(0.0, 6.0) as usize;
    format!("{value:.places$}")
}

/// A number of things: "1 row", "2 rows".
#[must_use]
pub fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(time(0.5), "0.500 µs");
        assert_eq!(time(12.34), "12.3 µs");
        assert_eq!(time(999.4), "999 µs");
        assert_eq!(time(1234.5), "1.23 ms");
        assert_eq!(time(9_996.0), "10.0 ms");
        assert_eq!(time(2.5e6), "2.50 s");
        assert_eq!(time(7.2e9), "120 min");
        assert_eq!(time(1.8e11), "50.0 h");
        assert_eq!(time(1.728e12), "20.0 days");
        assert_eq!(digits(1234.5), "1234");
        assert_eq!(digits(0.001_425), "0.00143");
        assert_eq!(digits(0.0), "0.00");
    }
}
