//! What lies outside of the image: one index map for the GPU, the CPU and the oracle.
//!
//! A border is a map from any position on an axis to a position inside it, or to "nothing there", for which the
//! border's value stands. It is applied to rows and columns apart. The map holds far outside too, on 1-pixel images and for
//! masks larger than the image.

/// What the pixels outside of the image are. The patterns show a row `a b c d` and what stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BorderMode {
    /// `v v v | a b c d | v v v`: one value, 0 by default.
    Constant = 0,
    /// `a a a | a b c d | d d d`: the nearest pixel.
    Clamp = 1,
    /// `c b a | a b c d | d c b`: reflected at the edge of the image, the last pixel twice.
    Reflect = 2,
    /// `d c b | a b c d | c b a`: reflected at the centre of the last pixel, which stands once.
    Mirror = 3,
    /// `b c d | a b c d | a b c`: the image repeated.
    Wrap = 4,
}

impl BorderMode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Constant, Self::Clamp, Self::Reflect, Self::Mirror, Self::Wrap];

    /// The number that launch parameters carry.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Returned by [`map`] where the border's value stands.
pub const OUTSIDE: i32 = -1;

/// The position inside `0..length` that stands for position `i` under the border with number `code`, or [`OUTSIDE`].
///
/// `length` is from 1 to 2^30 - 1 and `i` within 2^30 of it, which [`Params`](crate::abi::params::Params) guarantees, so
/// that nothing here overflows. An unknown number counts as [`BorderMode::Constant`].
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
            // The pattern `a b c d d c b a` repeats.
            let i = modulo(i, 2 * length);
            if i < length { i } else { 2 * length - 1 - i }
        }
        MIRROR => {
            // The pattern `a b c d c b` repeats; of a single pixel, just that.
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

/// `i` modulo `n` in `0..n`. Written out because `rem_euclid` checks for zero, and a check is a panic's worth of code.
#[inline(always)]
const fn modulo(i: i32, n: i32) -> i32 {
    // `n` is at least 1 for every caller; wrapping_rem by 0 would panic, so 0 is taken out for the compiler.
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
