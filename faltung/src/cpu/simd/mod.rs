//! The vector instructions of the CPU, as far as the tiles and passes need them.
//!
//! A few operations on `f32`, conversions from and to integers, and hints, straight from `std::arch`. Crate `pulp`
//! has most of them too, among hundreds. It lacks non-temporal stores and prefetches. `byte_rows` and `recompute` have
//! loops in AVX-512's instructions for bytes, which no other level has.
//!
//! A closure and a call of `array::map` are functions of their own. They are not compiled with the target features of
//! the function around them, so loops here are plain `for` loops.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::{Error, Result};
use portable::Portable;

/// The environment variable that forces a level, with the word of [`Level::word`]. It is read once. Empty is as unset.
const VARIABLE: &str = "FALTUNG_CPU";

/// A set of vector instructions. A value of an implementing type is the proof that the CPU has them.
pub(crate) trait Simd: Copy {
    /// A register of [`LANES`](Self::LANES) values.
    type Vector: Copy;
    /// Values of a register.
    const LANES: usize;
    /// Whether the registers hold the sums of a whole tile. Otherwise a tile computes at most two rows at a time.
    const HOLDS_TILE: bool = true;

    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::Vector;

    /// `a * b + c` in one rounding, lane by lane.
    fn fma(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// [`LANES`](Self::LANES) values from `from` on, which need not be aligned.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load(self, from: *const f32) -> Self::Vector;

    /// Writes [`LANES`](Self::LANES) values from `to` on, which need not be aligned.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values.
    unsafe fn store(self, to: *mut f32, vector: Self::Vector);

    /// [`store`](Self::store) past the caches, if the CPU can: the line is not read from memory before.
    ///
    /// # Safety
    /// As for `store`; `to` is aligned to the size of a vector, and [`fence`](Self::fence) comes before anything else
    /// reads or writes what was written.
    unsafe fn stream(self, to: *mut f32, vector: Self::Vector) {
        // SAFETY: `to` has room for a vector, as this function requires.
        unsafe { self.store(to, vector) }
    }

    /// Ends a number of [`stream`](Self::stream)s.
    fn fence(self) {}

    /// Returns `vector`. On x86-64 the compiler must compute it here, and can't delay it to where it is used. Other
    /// levels do nothing.
    #[inline(always)]
    fn keep(self, vector: Self::Vector) -> Self::Vector {
        vector
    }

    /// [`LANES`](Self::LANES) bytes from `from` on, as `f32`.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load_u8(self, from: *const u8) -> Self::Vector;

    /// [`LANES`](Self::LANES) values of 16 bits from `from` on, as `f32`.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values, aligned or not.
    unsafe fn load_u16(self, from: *const u16) -> Self::Vector;

    /// Rounds the lanes of `N` vectors half to even, limits them to `0..=255`, and writes them as bytes. NaN becomes 0.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values.
    unsafe fn store_u8<const N: usize>(self, to: *mut u8, vectors: &[Self::Vector; N]);

    /// Rounds the lanes of `N` vectors half to even, limits them to `0..=65535`, and writes them. NaN becomes 0.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values, aligned or not.
    unsafe fn store_u16<const N: usize>(self, to: *mut u16, vectors: &[Self::Vector; N]);

    /// The lanes that are further than `limit` from the nearest whole number, as bits. A lane that is NaN is none.
    fn far_from_whole(self, vector: Self::Vector, limit: f32) -> u16;

    /// Whether a lane of any of `N` vectors is further than `limit` from the nearest whole number.
    #[inline(always)]
    fn any_far_from_whole<const N: usize>(self, vectors: &[Self::Vector; N], limit: f32) -> bool {
        // Not `any`: a closure would not be compiled with the level's instructions.
        let mut far = 0;
        for &vector in vectors {
            far |= self.far_from_whole(vector, limit);
        }
        far != 0
    }

    /// The lanes that are less than `limit`, as bits.
    fn below(self, vector: Self::Vector, limit: f32) -> u16;

    /// The lanes in which `a` and `b` are different whole numbers once their fractions are dropped, as bits. All
    /// magnitudes are below 2^31.
    fn differ_without_fractions(self, a: Self::Vector, b: Self::Vector) -> u16;

    /// `a + b`, lane by lane.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a - b`, lane by lane.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// A register of half as many values of `f64`.
    type Doubles: Copy;

    /// `value` in every lane.
    fn splat_f64(self, value: f64) -> Self::Doubles;

    /// `a + b`, lane by lane.
    fn add_f64(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;

    /// `a - b`, lane by lane.
    fn sub_f64(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;

    /// `a * b`, rounded, lane by lane.
    fn mul_f64(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;

    /// Half of [`LANES`](Self::LANES) values from `from` on, which need not be aligned.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load_f64(self, from: *const f64) -> Self::Doubles;

    /// Writes half of [`LANES`](Self::LANES) values from `to` on, which need not be aligned.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values.
    unsafe fn store_f64(self, to: *mut f64, vector: Self::Doubles);

    /// Half of [`LANES`](Self::LANES) values of `f32` from `from` on, as `f64`.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load_wide(self, from: *const f32) -> Self::Doubles;

    /// A register of twice as many integers of 16 bits.
    type Shorts: Copy;

    /// `value` in every lane.
    fn splat_shorts(self, value: u16) -> Self::Shorts;

    /// The low 16 bits of `a + b`, lane by lane.
    fn add_shorts(self, a: Self::Shorts, b: Self::Shorts) -> Self::Shorts;

    /// The low 16 bits of `a * b`, lane by lane.
    fn mul_shorts(self, a: Self::Shorts, b: Self::Shorts) -> Self::Shorts;

    /// Twice [`LANES`](Self::LANES) values from `from` on, which need not be aligned.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load_shorts(self, from: *const u16) -> Self::Shorts;

    /// Writes twice [`LANES`](Self::LANES) values from `to` on, which need not be aligned.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values.
    unsafe fn store_shorts(self, to: *mut u16, vector: Self::Shorts);

    /// The low 16 bits of `a - b`, lane by lane.
    fn sub_shorts(self, a: Self::Shorts, b: Self::Shorts) -> Self::Shorts;

    /// `a & b`, lane by lane.
    fn and_shorts(self, a: Self::Shorts, b: Self::Shorts) -> Self::Shorts;

    /// The high 16 bits of the 32 bits of `a * b`, lane by lane. `b` stays in memory: LLVM takes the instruction for
    /// this only where it sees both operands widened, and it would widen a constant one before the loop.
    fn mul_high_shorts(self, a: Self::Shorts, b: &Self::Shorts) -> Self::Shorts;

    /// `a >> count`, lane by lane; `count` is below 16.
    fn shift_right_shorts(self, a: Self::Shorts, count: u32) -> Self::Shorts;

    /// Twice [`LANES`](Self::LANES) bytes from `from` on.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load_u8_shorts(self, from: *const u8) -> Self::Shorts;

    /// Writes twice [`LANES`](Self::LANES) lanes as bytes. What becomes of a lane above 255 is not specified.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values.
    unsafe fn store_shorts_u8(self, to: *mut u8, vector: Self::Shorts);

    /// `value` in each lane of 32 bits: a pair of 16-bit numbers, the first one in the lower half.
    fn splat_pairs(self, value: u32) -> Self::Shorts;

    /// `sums + a[0] * b[0] + a[1] * b[1]` for each pair of signed numbers, the last 32 bits. No pair of `a` and of `b`
    /// is four times -2^15.
    fn dot_pairs<D: Dot>(self, dot: D, sums: Self::Shorts, a: Self::Shorts, b: Self::Shorts) -> Self::Shorts;

    /// 16 bits of each lane of 32 bits, from bit `shift` on: those of `even` in the lower half, those of `odd` in the
    /// upper half. `shift` is at most 16.
    fn join_pairs(self, even: Self::Shorts, odd: Self::Shorts, shift: u32) -> Self::Shorts;

    /// The lanes of 16 bits whose last 8 bits are less than `limit`, as bits.
    fn low_bytes_below(self, a: Self::Shorts, limit: u16) -> u32;

    /// Asks for the cache line at `at`, which will be read soon. It may be any address: nothing is accessed.
    fn prefetch(self, at: *const f32) {
        let _ = at;
    }

    /// Does `work` in a function of its own, with the same instructions. The compiler's time grows faster than the size
    /// of a function.
    fn outlined<W: Work>(self, work: W) -> W::Output;
}

/// How [`Simd::dot_pairs`] multiplies.
///
/// # Safety
/// If `VNNI`, a value of the type is the proof that the CPU has AVX-512 VNNI.
pub(crate) unsafe trait Dot: Copy {
    /// Whether it is one instruction of AVX-512 VNNI, `vpdpwssd`.
    const VNNI: bool;
}

/// With AVX-512 VNNI. [`Level::vnni`] makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vnni(());

// SAFETY: only `Level::vnni` makes it, on such a CPU.
unsafe impl Dot for Vnni {
    const VNNI: bool = true;
}

/// With the instructions that every CPU of the level has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoVnni;

// SAFETY: `VNNI` is false.
unsafe impl Dot for NoVnni {
    const VNNI: bool = false;
}

/// Something to do with vectors, whichever the CPU has. Dispatch is once for each piece of work: all of it is inlined
/// into one function for each level, which is compiled with the level's instructions.
pub(crate) trait Work {
    /// What comes of it.
    type Output;

    /// Does it; `V` is [`Level::vectors`]. To be `#[inline(always)]`, with all that it calls in its loops.
    fn run<S: Simd, const V: usize>(self, simd: S) -> Self::Output;
}

/// The sets of instructions there are instances for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// x86-64 with AVX-512 F, BW, DQ and VL: 32 registers of 16 values.
    Avx512,
    /// x86-64 with AVX2, FMA, BMI1 and POPCNT: 16 registers of 8 values.
    Avx2,
    /// 64-bit Arm, where every CPU has it: 32 registers of 4 values.
    Neon,
    /// What the compiler makes of arrays of 4 values, on every CPU. On an x86-64 without FMA (older than 2013) the
    /// fused multiply-add is a function call: right, and slow.
    Portable,
}

impl Level {
    /// All levels, the fastest first.
    pub(super) const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    /// Whether this CPU has it. The CPU is asked once; after that the answer costs one load.
    #[inline]
    pub(crate) fn is_available(self) -> bool {
        static AVAILABLE: OnceLock<[bool; Level::ALL.len()]> = OnceLock::new();
        AVAILABLE.get_or_init(|| Self::ALL.map(Self::is_detected))[self as usize]
    }

    /// [`is_available`](Self::is_available), by asking the CPU.
    fn is_detected(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && Self::Avx2.is_detected()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Portable => true,
            _ => false,
        }
    }

    /// The proof that this level and this CPU have AVX-512 VNNI, if they have.
    pub(super) fn vnni(self) -> Option<Vnni> {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Avx512 && self.is_available() && is_x86_feature_detected!("avx512vnni") {
            return Some(Vnni(()));
        }
        None
    }

    /// Whether this level and this CPU have dot products and permutations of bytes: AVX-512 VNNI and VBMI.
    pub(super) fn has_byte_instructions(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.vnni().is_some() && is_x86_feature_detected!("avx512vbmi");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The levels of this CPU, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|level| level.is_available())
    }

    /// The level to compute with: the one that `FALTUNG_CPU` names, else the fastest of this CPU.
    ///
    /// # Errors
    /// [`Error::Parse`] if the variable names no level, or one that this CPU lacks.
    pub(crate) fn chosen() -> Result<Self> {
        static CHOSEN: OnceLock<Result<Level>> = OnceLock::new();
        let choose = || choose(std::env::var_os(VARIABLE).as_deref(), &Self::available().collect::<Vec<_>>());
        CHOSEN.get_or_init(choose).clone()
    }

    /// Values of a vector.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Neon | Self::Portable => 4,
        }
    }

    /// Vectors of a row of a tile. With 6 rows, a tile has 24 sums in 32 registers, or 12 in 16. The portable level has
    /// 2 rows, so 8.
    pub(super) const fn vectors(self) -> usize {
        match self {
            Self::Avx512 | Self::Neon | Self::Portable => 4,
            Self::Avx2 => 2,
        }
    }

    /// Does `work` with this level's instructions.
    ///
    /// # Panics
    /// If the CPU does not have them.
    #[inline(always)]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        if !self.is_available() {
            self.is_missing();
        }
        match self {
            // SAFETY: the CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { x86_64::avx512(work) },
            // SAFETY: the CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86_64::avx2(work) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: the CPU has the instructions.
            Self::Neon => unsafe { aarch64::neon(work) },
            _ => Portable.outlined(work),
        }
    }

    #[cold]
    #[inline(never)]
    fn is_missing(self) -> ! {
        panic!("this CPU has no {}", self.name())
    }

    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Neon => "NEON",
            Self::Portable => "portable",
        }
    }

    /// The word for it in `FALTUNG_CPU`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }
}

/// The level for a value of `FALTUNG_CPU`, on a CPU with the levels `available`, the fastest first.
///
/// # Errors
/// As for [`Level::chosen`].
pub(super) fn choose(value: Option<&OsStr>, available: &[Level]) -> Result<Level> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(available.first().copied().unwrap_or(Level::Portable));
    };
    let error = |required| {
        let found = value.to_string_lossy().into_owned();
        Err(Error::Parse { what: "the environment variable FALTUNG_CPU", required, found })
    };
    match Level::ALL.into_iter().find(|level| value == level.word()) {
        Some(level) if available.contains(&level) => Ok(level),
        Some(_) => error(format!("an instruction set of this CPU ({})", words(available))),
        None => error(words(&Level::ALL)),
    }
}

/// The words of some levels, for people: "avx2 or portable".
fn words(levels: &[Level]) -> String {
    let words: Vec<_> = levels.iter().map(|level| level.word()).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
