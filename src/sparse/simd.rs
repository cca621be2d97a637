//! One piece of code for several instruction sets, chosen when the program runs.
//!
//! A [`Kernel`] is plain Rust; [`Level::run`] calls a copy of it that was compiled for the processor's wide vectors, if
//! it has them. Sums of products of bytes, which compilers do not vectorise by themselves for x86, are an operation of
//! the instruction set ([`Isa::dot`]).
//!
//! Two things here are unsafe, the only ones of sparse networks: entering such a copy, and calling an instruction from
//! code that is generic over the instruction sets. Both are sound because a [`Level`] other than `PLAIN` is only
//! created by [`Level::detect`] and [`Level::available`], which query the processor, and a token (`Avx2`, `Avx512`,
//! `DotProducts`) is only created inside a function that was entered through such a level.

#![allow(
    unsafe_code,
    reason = "calling code compiled for instructions that were detected: without them an evaluation takes several times as long"
)]

/// Vector instructions that code can be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(InstructionSet);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstructionSet {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    DotProducts,
}

/// A computation. `run` and everything that it calls in hot loops must be `#[inline(always)]`, because only inlined
/// code is compiled for the caller's instructions. This includes the standard library: `array::map` in the innermost
/// loop was not inlined in some builds, which made them three times as slow.
pub trait Kernel {
    /// The result.
    type Output;
    /// Computes it.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// Operations that are written for each instruction set; all give the same results.
pub trait Isa: Copy {
    /// Whether its registers hold 256 sums of 16 bits besides what is added to them.
    const HAS_MANY_REGISTERS: bool;

    /// The sum of `a[i] * b[i]`; both are equally long. Numbers in `a` are at most 127.
    fn dot(self, a: &[u8], b: &[i8]) -> i32;
}

impl Level {
    /// What every processor of this architecture can do (on aarch64 that includes NEON).
    pub const PLAIN: Level = Level(InstructionSet::Plain);

    /// The best that this processor can do.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            // Every processor with AVX-512 has AVX2; it is tested nevertheless, because `available` relies on it.
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                return Level(InstructionSet::Avx512);
            }
            if avx2 {
                return Level(InstructionSet::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("dotprod") {
            return Level(InstructionSet::DotProducts);
        }
        Level::PLAIN
    }

    /// All that this processor can do, the plainest first.
    pub fn available() -> Vec<Level> {
        let best = Level::detect();
        let mut levels = vec![Level::PLAIN];
        #[cfg(target_arch = "x86_64")]
        if best.0 == InstructionSet::Avx512 {
            levels.push(Level(InstructionSet::Avx2));
        }
        if best != Level::PLAIN {
            levels.push(best);
        }
        levels
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self.0 {
            InstructionSet::Plain if cfg!(target_arch = "aarch64") => "NEON",
            InstructionSet::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => "AVX-512 VNNI",
            #[cfg(target_arch = "aarch64")]
            InstructionSet::DotProducts => "NEON with dot products",
        }
    }

    /// Runs a kernel, compiled for these instructions.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            InstructionSet::Plain => kernel.run(Plain),
            // SAFETY: a level with this kind exists only where the processor was found to have AVX2 and FMA.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { x86::avx2(kernel) },
            // SAFETY: a level with this kind exists only where the processor was found to have all of these.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { x86::avx512(kernel) },
            // SAFETY: a level with this kind exists only where the processor was found to have them.
            #[cfg(target_arch = "aarch64")]
            InstructionSet::DotProducts => unsafe { arm::dot_products(kernel) },
        }
    }
}

/// No particular instructions.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Isa for Plain {
    const HAS_MANY_REGISTERS: bool = false;

    #[inline(always)]
    fn dot(self, a: &[u8], b: &[i8]) -> i32 {
        let pairs = a.iter().zip(b);
        pairs.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Isa, Kernel, Plain};

    /// Shows that AVX2 is there.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx2(());

    /// Shows that AVX-512 with VNNI is there.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx512(());

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Avx2(()))
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) fn avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Avx512(()))
    }

    impl Isa for Avx2 {
        const HAS_MANY_REGISTERS: bool = false;

        #[inline(always)]
        fn dot(self, a: &[u8], b: &[i8]) -> i32 {
            // SAFETY: a token is only made in `avx2`, which was entered because the processor has AVX2.
            unsafe { dot_avx2(a, b) }
        }
    }

    impl Isa for Avx512 {
        const HAS_MANY_REGISTERS: bool = true;

        #[inline(always)]
        fn dot(self, a: &[u8], b: &[i8]) -> i32 {
            // SAFETY: a token is only made in `avx512`, which was entered because the processor has all of these.
            unsafe { dot_avx512(a, b) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn dot_avx2(a: &[u8], b: &[i8]) -> i32 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<32>(), b.as_chunks::<32>());
        let ones = _mm256_set1_epi16(1);
        let mut sums = _mm256_setzero_si256();
        for (a, b) in a.iter().zip(b) {
            // Two products of at most 127 x 128 each fit into 16 bits: nothing saturates.
            let pairs = _mm256_maddubs_epi16(load(a), load_signed(b));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
        }
        let halves = _mm_add_epi32(
            _mm256_castsi256_si128(sums),
            _mm256_extracti128_si256(sums, 1),
        );
        let pairs = _mm_add_epi32(halves, _mm_unpackhi_epi64(halves, halves));
        let sum = _mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 1));
        _mm_cvtsi128_si32(sum) + Plain.dot(a_rest, b_rest)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn dot_avx512(a: &[u8], b: &[i8]) -> i32 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<64>(), b.as_chunks::<64>());
        let mut sums = _mm512_setzero_si512();
        for (a, b) in a.iter().zip(b) {
            sums = _mm512_dpbusd_epi32(sums, load_wide(a), load_wide_signed(b));
        }
        if !a_rest.is_empty() {
            sums = _mm512_dpbusd_epi32(sums, load_rest(a_rest), load_rest_signed(b_rest));
        }
        _mm512_reduce_add_epi32(sums)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: there are as many bytes as are read, and any address will do.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_signed(bytes: &[i8; 32]) -> __m256i {
        // SAFETY: as for bytes without a sign.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_wide(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: there are as many bytes as are read, and any address will do.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// The bytes, at most 63 of them, and zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load_rest(bytes: &[u8]) -> __m512i {
        // SAFETY: no more bytes are read than there are, because the mask has a bit for each of them.
        unsafe { _mm512_maskz_loadu_epi8(mask(bytes.len()), bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load_rest_signed(bytes: &[i8]) -> __m512i {
        // SAFETY: as for bytes without a sign.
        unsafe { _mm512_maskz_loadu_epi8(mask(bytes.len()), bytes.as_ptr()) }
    }

    /// A bit for each of `bytes` bytes, at most 63.
    fn mask(bytes: usize) -> u64 {
        (1 << bytes.min(63)) - 1
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_wide_signed(bytes: &[i8; 64]) -> __m512i {
        // SAFETY: as for bytes without a sign.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Isa, Kernel};

    /// Shows that the code is compiled for NEON with dot products.
    #[derive(Clone, Copy, Debug)]
    pub struct DotProducts(());

    #[target_feature(enable = "dotprod")]
    pub(super) fn dot_products<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(DotProducts(()))
    }

    impl Isa for DotProducts {
        const HAS_MANY_REGISTERS: bool = false;

        #[inline(always)]
        fn dot(self, a: &[u8], b: &[i8]) -> i32 {
            // Numbers in `a` are at most 127. As both have a sign, the compiler makes this one instruction for 16
            // products.
            let pairs = a.iter().zip(b);
            pairs
                .map(|(&a, &b)| i32::from(a as i8) * i32::from(b))
                .sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [f32]);

    impl Kernel for Sum<'_> {
        type Output = f32;
        #[inline(always)]
        fn run<I: Isa>(self, _: I) -> f32 {
            self.0.iter().sum()
        }
    }

    struct Dot<'a>(&'a [u8], &'a [i8]);

    impl Kernel for Dot<'_> {
        type Output = i32;
        #[inline(always)]
        fn run<I: Isa>(self, isa: I) -> i32 {
            isa.dot(self.0, self.1)
        }
    }

    #[test]
    fn every_level_computes_the_same() {
        let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        let expected = Sum(&values).run(Plain);
        let levels = Level::available();
        assert_eq!(levels.first(), Some(&Level::PLAIN));
        assert_eq!(levels.last(), Some(&Level::detect()));
        for level in levels {
            assert_eq!(level.run(Sum(&values)), expected, "{}", level.name());
        }
    }

    #[test]
    fn products_of_bytes_are_exact_at_their_limits_and_at_every_length() {
        let mixed_a: Vec<u8> = (0..300_u32).map(|i| (i * 89 % 128) as u8).collect();
        let mixed_b: Vec<i8> = (0..300_u32).map(|i| (i * 57 % 256) as u8 as i8).collect();
        for length in [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 256, 300] {
            for (a, b) in [
                (vec![127; length], vec![-128; length]),
                (vec![127; length], vec![127; length]),
                (mixed_a[..length].to_vec(), mixed_b[..length].to_vec()),
            ] {
                let pairs = a.iter().zip(&b);
                let expected: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                for level in Level::available() {
                    let found = level.run(Dot(&a, &b));
                    assert_eq!(found, expected, "{} of {length}", level.name());
                }
            }
        }
    }
}
