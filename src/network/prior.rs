//! Priors in 16 bits: 5 bits of exponent and 11 of mantissa, for probabilities.
//!
//! The tree and the cache keep priors in this form. It covers 2^-31 to just under 2 with a relative error of at most
//! 2^-12; anything smaller becomes zero. A decoded value encodes to itself, so a cache hit
//! gives the same prior as a miss.

/// Exponent of the smallest representable number: codes count up from here, in the order of their values.
const BASE: u32 = (127 - 31) << 23;

/// Bits of a float's mantissa that are dropped.
const DROPPED: u32 = 12;

/// The code of a probability (0..=1), rounded to nearest, ties to even. Larger values have larger codes.
#[inline]
pub fn encode(p: f32) -> u16 {
    let bits = p.to_bits();
    let rounded = bits + (1 << (DROPPED - 1)) - 1 + (bits >> DROPPED & 1);
    (rounded.saturating_sub(BASE) >> DROPPED) as u16
}

/// The probability that a code stands for.
#[inline]
pub fn decode(code: u16) -> f32 {
    if code == 0 {
        0.0
    } else {
        f32::from_bits((u32::from(code) << DROPPED) + BASE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_one_are_exact_and_order_is_kept() {
        assert_eq!(decode(encode(0.0)), 0.0);
        assert_eq!(decode(encode(1.0)), 1.0);
        assert!(encode(0.5) < encode(0.5003) && encode(1e-12) == 0);
    }

    #[test]
    fn codes_survive_decoding_and_errors_are_small() {
        for code in 0..=encode(1.0) {
            assert_eq!(encode(decode(code)), code);
        }
        for step in 1..10_000 {
            let p = step as f32 / 10_000.0;
            assert!((decode(encode(p)) / p - 1.0).abs() <= 1.0 / 4096.0);
        }
    }
}
