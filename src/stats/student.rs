//! Student's distribution: by how much the mean of a few samples errs when their spread is estimated from them, too
//! (Student, "The probable error of a mean", 1908). With many samples it is the normal distribution.

/// More degrees of freedom count as this number: the quantile is then 1.9623, and never below 1.9599.
const MAX_FREEDOM: u64 = 1000;

/// The 97.5 % quantile, for 95 % intervals; of at least one degree of freedom.
pub(super) fn quantile(freedom: u64) -> f64 {
    // The bounds are those of very many degrees and of one, 1.96 and 12.71.
    let (mut low, mut high) = (1.9, 13.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if within(middle, freedom) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability of a value below `t`.
pub(super) fn cumulative(t: f64, freedom: u64) -> f64 {
    f64::midpoint(1.0, within(t, freedom))
}

/// The probability of a value between -t and t; negative if `t` is. The sums of M. Abramowitz and I. A. Stegun,
/// *Handbook of Mathematical Functions*, 26.7.3 (odd degrees of freedom) and 26.7.4 (even ones), which are exact.
fn within(t: f64, freedom: u64) -> f64 {
    let freedom = freedom.min(MAX_FREEDOM);
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    // Terms with each second power of the cosine.
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut power = freedom % 2;
    let mut sum = 0.0;
    while power + 2 <= freedom {
        sum += term;
        power += 2;
        term *= cosine * cosine * (power - 1) as f64 / power as f64;
    }
    if is_odd {
        std::f64::consts::FRAC_2_PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, table 26.10.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (9, 2.262),
            (30, 2.042),
            (60, 2.000),
            (120, 1.980),
            (1000, 1.962),
            (50_000, 1.962),
        ] {
            let found = quantile(freedom);
            assert!((found - expected).abs() < 0.0006, "{freedom}: {found}");
            for (t, p) in [(found, 0.975), (-found, 0.025), (0.0, 0.5)] {
                assert!((cumulative(t, freedom) - p).abs() < 1e-9, "{freedom}");
            }
        }
        assert!(cumulative(f64::NAN, 4).is_nan());
    }
}
