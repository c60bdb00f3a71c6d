//! The same results on the host: in `f64`, rounded once.

/// A format of 16 bits: a sign, the exponent, the fraction.
struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
}

const F16: Format = Format { exponent_bits: 5, fraction_bits: 10 };
const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7 };

/// The bits of a NaN that an instruction returns.
const NAN: u16 = 0x7fff;

/// 2 to this power, for the exponents of `f64`'s normal numbers.
fn power_of_2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

impl Format {
    /// The exponent of the least normal number.
    fn least_exponent(&self) -> i32 {
        2 - (1 << (self.exponent_bits - 1))
    }

    /// The bits of infinity.
    fn infinity(&self) -> u16 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// The nearest number; ties round to even. `value` is 0, or not below the normal numbers of `f64`.
    fn round(&self, value: f64) -> u16 {
        if value.is_nan() {
            return NAN;
        }
        let sign = u16::from(value.is_sign_negative()) << 15;
        let magnitude = value.abs();
        if magnitude.is_infinite() {
            return sign | self.infinity();
        }
        let exponent = (magnitude.to_bits() >> 52) as i32 - 1023;
        let exponent = exponent.max(self.least_exponent());
        // In units of the last place, below twice the implicit bit. The scaling is exact.
        let units = (magnitude * power_of_2(self.fraction_bits as i32 - exponent)).round_ties_even() as i64;
        // The implicit bit of a normal number adds 1 to the field of the exponent, and so does a carry.
        let bits = (i64::from(exponent - self.least_exponent()) << self.fraction_bits) + units;
        sign | bits.min(self.infinity().into()) as u16
    }

    /// The number of these bits.
    fn value(&self, bits: u16) -> f64 {
        let fraction = bits & ((1 << self.fraction_bits) - 1);
        let field = (bits & 0x7fff) >> self.fraction_bits;
        let unit = self.least_exponent() - self.fraction_bits as i32;
        let magnitude = if (bits & 0x7fff) > self.infinity() {
            f64::NAN
        } else if (bits & 0x7fff) == self.infinity() {
            f64::INFINITY
        } else if field == 0 {
            f64::from(fraction) * power_of_2(unit)
        } else {
            f64::from(fraction | 1 << self.fraction_bits) * power_of_2(unit + i32::from(field) - 1)
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    /// `a * b + c`, rounded once.
    fn fma(&self, a: u16, b: u16, c: u16) -> u16 {
        // At most 22 significant bits: exact.
        let product = self.value(a) * self.value(b);
        self.round(sum_to_odd(product, self.value(c)))
    }
}

/// The sum of two numbers, rounded to odd: where it is not exact, to the neighbour whose last bit is 1.
///
/// A second rounding, to at most 51 significant bits, then gives the result of a single one.
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // The error of the sum is exact (Knuth's TwoSum).
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let is_larger = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if is_larger { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// The functions of a format, with the names of the module `device`.
macro_rules! functions {
    ($($module:ident, $format:ident;)*) => {$(
        pub(crate) mod $module {
            use super::$format as FORMAT;

            /// -0, which keeps the sign of a product that is 0.
            const NEGATIVE_ZERO: u16 = 0x8000;

            pub(crate) fn from_f32(value: f32) -> u16 {
                FORMAT.round(value.into())
            }

            pub(crate) fn to_f32(bits: u16) -> f32 {
                FORMAT.value(bits) as f32
            }

            pub(crate) fn pair_from_f32(low: f32, high: f32) -> u32 {
                u32::from(from_f32(low)) | u32::from(from_f32(high)) << 16
            }

            pub(crate) fn fma(a: u16, b: u16, c: u16) -> u16 {
                FORMAT.fma(a, b, c)
            }

            pub(crate) fn add(a: u16, b: u16) -> u16 {
                fma(a, from_f32(1.0), b)
            }

            pub(crate) fn sub(a: u16, b: u16) -> u16 {
                fma(b, from_f32(-1.0), a)
            }

            pub(crate) fn mul(a: u16, b: u16) -> u16 {
                fma(a, b, NEGATIVE_ZERO)
            }

            /// A function of the lower and of the upper halves.
            fn pairs(words: [u32; 3], of: impl Fn(u16, u16, u16) -> u16) -> u32 {
                let [a, b, c] = words;
                let high = of((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
                u32::from(of(a as u16, b as u16, c as u16)) | u32::from(high) << 16
            }

            pub(crate) fn fma_pair(a: u32, b: u32, c: u32) -> u32 {
                pairs([a, b, c], fma)
            }

            pub(crate) fn add_pair(a: u32, b: u32) -> u32 {
                pairs([a, b, 0], |a, b, _| add(a, b))
            }

            pub(crate) fn sub_pair(a: u32, b: u32) -> u32 {
                pairs([a, b, 0], |a, b, _| sub(a, b))
            }

            pub(crate) fn mul_pair(a: u32, b: u32) -> u32 {
                pairs([a, b, 0], |a, b, _| mul(a, b))
            }
        }
    )*};
}

functions! {
    f16, F16;
    bf16, BF16;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of a format that are not NaN, and not negative, with their bits.
    fn numbers(format: &Format) -> Vec<(u16, f64)> {
        (0..=format.infinity()).map(|bits| (bits, format.value(bits))).collect()
    }

    #[test]
    fn known_numbers_of_both_formats() {
        for (bits, value) in [
            (0x0001, 2.0_f64.powi(-24)),
            (0x03ff, 1023.0 * 2.0_f64.powi(-24)),
            (0x0400, 2.0_f64.powi(-14)),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!((F16.value(bits), F16.round(value)), (value, bits), "{bits:#x}");
        }
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7fff <= 0x7f80) {
            let value = f32::from_bits(u32::from(bits) << 16);
            assert_eq!((BF16.value(bits), BF16.round(value.into())), (value.into(), bits), "{bits:#x}");
        }
        assert_eq!([F16.round(f64::NAN), BF16.round(-f64::NAN)], [NAN, NAN]);
    }

    /// Each number, and the values below, at and above the middle of each pair of neighbours.
    #[test]
    fn values_round_to_the_nearest_number_and_ties_to_even() {
        for format in [&F16, &BF16] {
            for pair in numbers(format).windows(2) {
                let [(bits, value), (next_bits, next)] = [pair[0], pair[1]];
                assert_eq!((format.round(value), format.round(-value)), (bits, bits | 0x8000));
                // The number after the largest finite one, if the exponent had no end.
                let next = if next.is_finite() { next } else { 2.0 * value - format.value(bits - 1) };
                let middle = (value + next) / 2.0;
                let even = if bits & 1 == 0 { bits } else { next_bits };
                assert_eq!(format.round(middle), even, "{middle:e}");
                assert_eq!(format.round(middle.next_down()), bits, "{middle:e}");
                assert_eq!(format.round(middle.next_up()), next_bits, "{middle:e}");
            }
        }
    }

    /// The bits of `a * b + c` from integers: every number of F16 is a multiple of 2^-24.
    fn exact_fma(a: u16, b: u16, c: u16) -> u16 {
        let units = |bits: u16, unit: i32| (F16.value(bits) * 2.0_f64.powi(unit)) as i128;
        let sum = units(a, 24) * units(b, 24) + (units(c, 24) << 24);
        // The nearest number by its definition.
        let distance = |bits: u16| (sum.abs() - (units(bits, 24) << 24)).abs();
        // Infinity stands for 2^16, the next number if the exponent had no end.
        let (mut low, mut high) = (0, 0x7c00_u16);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if units(middle, 24) << 24 <= sum.abs() { low = middle } else { high = middle }
        }
        let to_high = if high == 0x7c00 { ((1_i128 << 64) - sum.abs()).abs() } else { distance(high) };
        let nearest = match distance(low).cmp(&to_high) {
            std::cmp::Ordering::Less => low,
            std::cmp::Ordering::Greater => high,
            std::cmp::Ordering::Equal => low + (low & 1),
        };
        nearest | if sum < 0 { 0x8000 } else { 0 }
    }

    #[test]
    fn fused_multiply_adds_round_once() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as u16
        };
        let mut rounded_twice = 0;
        for _ in 0..200_000 {
            let [a, b, c] = [next(), next(), next()];
            if [a, b, c].iter().any(|bits| bits & 0x7c00 == 0x7c00) {
                continue;
            }
            let expected = exact_fma(a, b, c);
            let found = F16.fma(a, b, c);
            // The sign of a sum that is 0 depends on its terms.
            assert!(found == expected || found & 0x7fff == 0 && expected & 0x7fff == 0, "{a:#x} {b:#x} {c:#x}");
            let in_f32 = (F16.value(a) * F16.value(b)) as f32 + F16.value(c) as f32;
            rounded_twice += usize::from(F16.round(in_f32.into()) != found);
        }
        assert!(rounded_twice > 0, "no number shows the difference to a sum that is rounded to f32 first");
        // The products lie in the middle of two numbers, and the terms decide. In f64 alone they would be lost.
        let [factor, term] = [192.0, 2.0_f64.powi(-100)].map(|value| BF16.round(value));
        for (other, term, expected) in [(250.0, term | 0x8000, 47872.0), (246.0, term, 47360.0)] {
            assert_eq!(BF16.value(BF16.fma(factor, BF16.round(other), term)), expected);
        }
    }

    #[test]
    fn zeros_and_infinities_have_their_signs() {
        let [zero, negative, infinity, one] = [0, 0x8000, 0x7c00, 0x3c00];
        assert_eq!([f16::mul(negative, one), f16::mul(zero, one), f16::mul(negative, 0xbc00)], [negative, zero, zero]);
        assert_eq!([f16::add(zero, negative), f16::add(negative, negative)], [zero, negative]);
        assert_eq!([f16::sub(one, one), f16::sub(infinity, one)], [zero, infinity]);
        assert_eq!([f16::sub(infinity, infinity), f16::mul(infinity, zero)], [NAN, NAN]);
        assert_eq!(f16::add(0x7bff, 0x7bff), infinity);
        assert_eq!(f16::fma_pair(0x3c00_4000, 0x4200_4200, 0x0000_3c00), 0x4200_4700);
    }
}
