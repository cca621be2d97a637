//! Priors in two bytes: a small float for 0..=1, as the tree and the cache store them.
//!
//! Five bits of exponent and eleven of mantissa: values from 2^-31 to 1 with a relative error of at most 2^-12, and zero.
//! [`decode`] after [`encode`] changes a value once and never again, so a cached evaluation is exactly the one that was
//! stored in the tree.

/// The bits of 2^-31, below which everything is zero; what is subtracted to make the exponent fit five bits.
const BASE: u32 = (127 - 31) << 23;

/// A probability in two bytes, rounded to the nearest value (ties to even). Values outside 0..=1 (and NaN) are clamped.
#[inline]
#[expect(clippy::manual_clamp, reason = "clamp would keep NaN")]
pub fn encode(p: f32) -> u16 {
    // `max` before `min`, because it makes NaN 0.
    let bits = p.max(0.0).min(1.0).to_bits();
    let rounded = bits + 0x7ff + (bits >> 12 & 1);
    // At most 1.0, whose code is 0xf800.
    (rounded.saturating_sub(BASE) >> 12) as u16
}

/// The probability that [`encode`] packed, 0..=1.
#[inline]
pub fn decode(code: u16) -> f32 {
    let nonzero = u32::from(code != 0).wrapping_neg();
    f32::from_bits(((u32::from(code) << 12) + BASE) & nonzero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_stable() {
        for code in 0..=0xf800 {
            assert_eq!(encode(decode(code)), code);
        }
        assert_eq!((decode(0), decode(0xf800)), (0.0, 1.0));
        assert_eq!((encode(0.0), encode(1.0)), (0, 0xf800));
        assert_eq!(
            (encode(-1.0), encode(2.0), encode(f32::NAN)),
            (0, 0xf800, 0)
        );
    }

    #[test]
    fn rounding_is_to_the_nearest_and_unbiased() {
        let (mut sum, mut exact) = (0.0f64, 0.0f64);
        for i in 1..=100_000u32 {
            let p = i as f32 / 100_000.0;
            let error = (decode(encode(p)) - p).abs() / p;
            assert!(error <= 1.0 / 4096.0, "{p}: {error}");
            sum += f64::from(decode(encode(p)));
            exact += f64::from(p);
        }
        assert!((sum / exact - 1.0).abs() < 1e-7);
    }
}
