//! The instructions.

/// Functions of one instruction, of registers alone.
macro_rules! instructions {
    ($(
        $name:ident($($argument:ident: $type:ty, $class:ident);*) -> $result:ty, $of_result:ident = $text:literal;
    )*) => {$(
        #[inline(always)]
        pub(crate) fn $name($($argument: $type),*) -> $result {
            require::<()>();
            let result: $result;
            // SAFETY: the instruction computes with registers and accesses no memory.
            unsafe {
                core::arch::asm!(
                    $text,
                    result = out($of_result) result, $($argument = in($class) $argument,)*
                    options(nostack, nomem, pure, preserves_flags),
                );
            }
            result
        }
    )*};
}

/// `__half`, on every architecture that `cuda_builder` knows.
pub(crate) mod f16 {
    fn require<T>() {}

    instructions! {
        from_f32(value: f32, reg32) -> u16, reg16 = "cvt.rn.f16.f32 {result}, {value};";
        to_f32(bits: u16, reg16) -> f32, reg32 = "cvt.f32.f16 {result}, {bits};";
        // With `.rn` the assembler fuses no product with a sum.
        add(a: u16, reg16; b: u16, reg16) -> u16, reg16 = "add.rn.f16 {result}, {a}, {b};";
        sub(a: u16, reg16; b: u16, reg16) -> u16, reg16 = "sub.rn.f16 {result}, {a}, {b};";
        mul(a: u16, reg16; b: u16, reg16) -> u16, reg16 = "mul.rn.f16 {result}, {a}, {b};";
        fma(a: u16, reg16; b: u16, reg16; c: u16, reg16) -> u16, reg16 = "fma.rn.f16 {result}, {a}, {b}, {c};";
        add_pair(a: u32, reg32; b: u32, reg32) -> u32, reg32 = "add.rn.f16x2 {result}, {a}, {b};";
        sub_pair(a: u32, reg32; b: u32, reg32) -> u32, reg32 = "sub.rn.f16x2 {result}, {a}, {b};";
        mul_pair(a: u32, reg32; b: u32, reg32) -> u32, reg32 = "mul.rn.f16x2 {result}, {a}, {b};";
        fma_pair(a: u32, reg32; b: u32, reg32; c: u32, reg32) -> u32, reg32 = "fma.rn.f16x2 {result}, {a}, {b}, {c};";
    }

    /// The word of two numbers. The instruction for both needs `sm_80`.
    #[inline(always)]
    pub(crate) fn pair_from_f32(low: f32, high: f32) -> u32 {
        u32::from(from_f32(low)) | u32::from(from_f32(high)) << 16
    }
}

/// `__nv_bfloat16`, from `sm_80` on. Sums and products have instructions from `sm_90` on only; a fused
/// multiply-add gives the same bits.
pub(crate) mod bf16 {
    /// A compile error in a build for an older architecture. Generic, so that only kernels that call it are checked.
    #[inline(always)]
    fn require<T>() {
        const { assert!(cfg!(target_feature = "sm_80"), "bfloat16 needs a build for sm_80 or newer") };
    }

    const ONE: u16 = 0x3f80;
    const NEGATIVE_ONE: u16 = 0xbf80;
    const NEGATIVE_ZERO: u16 = 0x8000;

    instructions! {
        from_f32(value: f32, reg32) -> u16, reg16 = "cvt.rn.bf16.f32 {result}, {value};";
        pair_from_f32(low: f32, reg32; high: f32, reg32) -> u32, reg32 = "cvt.rn.bf16x2.f32 {result}, {high}, {low};";
        fma(a: u16, reg16; b: u16, reg16; c: u16, reg16) -> u16, reg16 = "fma.rn.bf16 {result}, {a}, {b}, {c};";
        fma_pair(a: u32, reg32; b: u32, reg32; c: u32, reg32) -> u32, reg32 = "fma.rn.bf16x2 {result}, {a}, {b}, {c};";
    }

    #[inline(always)]
    pub(crate) fn to_f32(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    pub(crate) fn add(a: u16, b: u16) -> u16 {
        fma(a, ONE, b)
    }

    #[inline(always)]
    pub(crate) fn sub(a: u16, b: u16) -> u16 {
        fma(b, NEGATIVE_ONE, a)
    }

    /// The summand -0 keeps the sign of a product that is 0.
    #[inline(always)]
    pub(crate) fn mul(a: u16, b: u16) -> u16 {
        fma(a, b, NEGATIVE_ZERO)
    }

    /// The word with one number twice.
    const fn both(bits: u16) -> u32 {
        bits as u32 | (bits as u32) << 16
    }

    #[inline(always)]
    pub(crate) fn add_pair(a: u32, b: u32) -> u32 {
        fma_pair(a, const { both(ONE) }, b)
    }

    #[inline(always)]
    pub(crate) fn sub_pair(a: u32, b: u32) -> u32 {
        fma_pair(b, const { both(NEGATIVE_ONE) }, a)
    }

    #[inline(always)]
    pub(crate) fn mul_pair(a: u32, b: u32) -> u32 {
        fma_pair(a, b, const { both(NEGATIVE_ZERO) })
    }
}
