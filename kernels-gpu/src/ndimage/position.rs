//! The border map for axes of any length: [`crate::abi::border::map`] with 64 bits.

use crate::abi::border::BorderMode;

/// The result of [`position`] where the border's value stands.
pub const OUTSIDE: i64 = -1;

/// The position in `0..length` that stands for position `i` under the border mode with this code, or [`OUTSIDE`].
///
/// `length` must be from 1 to 2^61, and `i` within 2^61 of 0. An unknown code counts as [`BorderMode::Constant`].
#[inline(always)]
#[must_use]
pub const fn position(code: u32, i: i64, length: i64) -> i64 {
    if 0 <= i && i < length {
        return i;
    }
    const CLAMP: u32 = BorderMode::Clamp.code();
    const REFLECT: u32 = BorderMode::Reflect.code();
    const MIRROR: u32 = BorderMode::Mirror.code();
    const WRAP: u32 = BorderMode::Wrap.code();
    let period = match code {
        CLAMP => return if i < 0 { 0 } else { length - 1 },
        REFLECT => 2 * length,
        // The period of a single element is 1, and no position is subtracted from 0.
        MIRROR => 2 * length - 2,
        WRAP => length,
        _ => return OUTSIDE,
    };
    // The comparison shows the compiler that nothing is divided by 0, which would be a panic.
    let period = if period < 1 { 1 } else { period };
    let remainder = i.wrapping_rem(period);
    let i = if remainder < 0 { remainder + period } else { remainder };
    if i < length {
        i
    } else if code == REFLECT {
        period - 1 - i
    } else {
        period - i
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::border::{self, map};

    /// The map agrees with the one of images, and far outside with the one a whole number of periods nearer.
    #[test]
    fn one_map() {
        for mode in BorderMode::ALL {
            for n in 1..9 {
                for i in -60..60 {
                    let expected = match map(mode.code(), i, n) {
                        border::OUTSIDE => OUTSIDE,
                        position => position.into(),
                    };
                    assert_eq!(position(mode.code(), i.into(), n.into()), expected, "{mode:?}, {i} of {n}");
                }
            }
            let n = (1_i64 << 40) + 7;
            let period = match mode {
                BorderMode::Reflect => 2 * n,
                BorderMode::Mirror => 2 * n - 2,
                _ => n,
            };
            for i in [-5, -1, 0, 3, n - 1, n, n + 5] {
                if matches!(mode, BorderMode::Reflect | BorderMode::Mirror | BorderMode::Wrap) {
                    for far in [i - 1000 * period, i + 1000 * period] {
                        assert_eq!(position(mode.code(), far, n), position(mode.code(), i, n), "{mode:?}, {i} of {n}");
                    }
                }
                let found = position(mode.code(), i, n);
                assert!((0..n).contains(&found) || (found == OUTSIDE && mode == BorderMode::Constant));
            }
        }
    }
}
