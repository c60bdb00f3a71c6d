//! The border around the image: one index map for the GPU, the CPU and the oracle.
//!
//! A border maps any position on an axis to a position in the image, or to [`OUTSIDE`], where the border's value
//! stands. Rows and columns are mapped separately. The map also holds far outside, for 1-pixel images and for masks
//! larger than the image.

/// How pixels outside of the image get their values.
///
/// The patterns show a row `a b c d` and the values to both sides of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BorderMode {
    /// `v v v | a b c d | v v v`: one constant value, 0 by default.
    Constant = 0,
    /// `a a a | a b c d | d d d`: the nearest pixel.
    Clamp = 1,
    /// `c b a | a b c d | d c b`: reflected about the edge of the last pixel, which is repeated.
    Reflect = 2,
    /// `d c b | a b c d | c b a`: reflected about the center of the last pixel, which is not repeated.
    Mirror = 3,
    /// `b c d | a b c d | a b c`: the image repeats.
    Wrap = 4,
}

impl BorderMode {
    /// All modes, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Constant, Self::Clamp, Self::Reflect, Self::Mirror, Self::Wrap];

    /// The number that stands for the mode in the launch parameters.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// The result of [`map`] where the border's value stands.
pub const OUTSIDE: i32 = -1;

/// The position in `0..length` that stands for position `i` under the border mode with this code, or [`OUTSIDE`].
///
/// `length` must be from 1 to 2^30 - 1; the host checks it for every image. Then no position overflows. An unknown code
/// counts as [`BorderMode::Constant`].
#[inline(always)]
#[must_use]
pub const fn map(code: u32, i: i32, length: i32) -> i32 {
    if 0 <= i && i < length {
        return i;
    }
    const CLAMP: u32 = BorderMode::Clamp.code();
    const REFLECT: u32 = BorderMode::Reflect.code();
    const MIRROR: u32 = BorderMode::Mirror.code();
    const WRAP: u32 = BorderMode::Wrap.code();
    match code {
        CLAMP => {
            if i < 0 {
                0
            } else {
                length - 1
            }
        }
        REFLECT => {
            // The period is `a b c d d c b a`.
            let i = modulo(i, 2 * length);
            if i < length { i } else { 2 * length - 1 - i }
        }
        MIRROR => {
            // The period is `a b c d c b`, or `a` for a single pixel.
            if length == 1 {
                return 0;
            }
            let i = modulo(i, 2 * length - 2);
            if i < length { i } else { 2 * length - 2 - i }
        }
        WRAP => modulo(i, length),
        _ => OUTSIDE,
    }
}

/// `i` modulo `n`, in `0..n`. Unlike `rem_euclid` it has no panic for `n == 0`.
#[inline(always)]
const fn modulo(i: i32, n: i32) -> i32 {
    // Every caller passes n >= 1. The comparison shows it to the compiler, which then drops the panic of wrapping_rem.
    let n = if n < 1 { 1 } else { n };
    let remainder = i.wrapping_rem(n);
    if remainder < 0 { remainder + n } else { remainder }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The patterns of the documentation, written out.
    #[test]
    fn patterns() {
        let row = ['a', 'b', 'c', 'd'];
        let seen = |mode: BorderMode| -> [char; 14] {
            core::array::from_fn(|j| match map(mode.code(), j as i32 - 5, 4) {
                OUTSIDE => 'v',
                i => row[i as usize],
            })
        };
        let letters = |text: &str| -> [char; 14] {
            let mut all = text.chars();
            core::array::from_fn(|_| all.next().unwrap())
        };
        assert_eq!(seen(BorderMode::Constant), letters("vvvvvabcdvvvvv"));
        assert_eq!(seen(BorderMode::Clamp), letters("aaaaaabcdddddd"));
        assert_eq!(seen(BorderMode::Reflect), letters("ddcbaabcddcbaa"));
        assert_eq!(seen(BorderMode::Mirror), letters("bcdcbabcdcbabc"));
        assert_eq!(seen(BorderMode::Wrap), letters("dabcdabcdabcda"));
    }

    /// No position overflows, and the result is a position or OUTSIDE.
    #[test]
    fn any_position_is_safe() {
        for mode in BorderMode::ALL {
            for n in [1, 2, 3, 1_000, (1 << 30) - 2, (1 << 30) - 1] {
                for i in [i32::MIN, i32::MIN + 1, -(1 << 30), -1, 0, n - 1, n, 1 << 30, i32::MAX - 1, i32::MAX] {
                    let position = map(mode.code(), i, n);
                    assert!((0..n).contains(&position) || position == OUTSIDE, "{mode:?}, {i} of {n}: {position}");
                    assert!(position != OUTSIDE || mode == BorderMode::Constant, "{mode:?}, {i} of {n}");
                }
            }
        }
    }

    /// Far outside, against maps that step back one reflection at a time.
    #[test]
    fn far_outside() {
        fn by_steps(mode: BorderMode, mut i: i32, n: i32) -> i32 {
            while !(0..n).contains(&i) {
                i = match mode {
                    BorderMode::Constant => return OUTSIDE,
                    BorderMode::Clamp => i.clamp(0, n - 1),
                    BorderMode::Reflect if i < 0 => -1 - i,
                    BorderMode::Reflect => 2 * n - 1 - i,
                    BorderMode::Mirror if n == 1 => 0,
                    BorderMode::Mirror if i < 0 => -i,
                    BorderMode::Mirror => 2 * (n - 1) - i,
                    BorderMode::Wrap if i < 0 => i + n,
                    BorderMode::Wrap => i - n,
                };
            }
            i
        }
        for mode in BorderMode::ALL {
            for n in 1..9 {
                for i in -40..40 {
                    assert_eq!(map(mode.code(), i, n), by_steps(mode, i, n), "{mode:?}, {i} of {n}");
                }
            }
        }
    }
}
