//! Floats as people write them (0.1, 1.0 / 3.0) to exact ratios of integers.

use super::MAX_EXACT;

/// A positive ratio in lowest terms, both parts at most 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// The numerator.
    pub numerator: u64,
    /// The denominator.
    pub denominator: u64,
}

impl Ratio {
    /// One.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// The first convergent of `value` whose quotient is `value` again: 0.1 gives 1/10 and 1.0 / 3.0 gives 1/3.
    ///
    /// The binary value of 0.1 is a little more than a tenth; counted exactly, it would drift from what was written.
    /// `None` for anything but a positive finite number, and for numbers too large or small for 53 bits each.
    // Equality is the point: the ratio has to give this very float again.
    #[allow(clippy::cast_precision_loss, clippy::float_cmp)]
    pub fn from_float(value: f64) -> Option<Self> {
        let (mut a, mut b) = dyadic(value)?;
        let (mut before, mut last) = ((0_u128, 1_u128), (1_u128, 0_u128));
        while b > 0 {
            let whole = a / b;
            let next =
                (whole.checked_mul(last.0)?.checked_add(before.0)?, whole.checked_mul(last.1)?.checked_add(before.1)?);
            if next.0 > u128::from(MAX_EXACT) || next.1 > u128::from(MAX_EXACT) {
                return None;
            }
            if next.0 as f64 / next.1 as f64 == value {
                return Some(Self { numerator: u64::try_from(next.0).ok()?, denominator: u64::try_from(next.1).ok()? });
            }
            (before, last) = (last, next);
            (a, b) = (b, a % b);
        }
        None
    }

    /// One of `parts` equal parts. A denominator beyond 64 bits becomes the largest there is, which no policy takes.
    #[must_use]
    pub fn divided_by(self, parts: u32) -> Self {
        Self { denominator: self.denominator.saturating_mul(u64::from(parts)), ..self }
    }
}

/// A positive finite float as the exact fraction it is.
fn dyadic(value: f64) -> Option<(u128, u128)> {
    if !value.is_finite() || value <= 0.0 {
        return None;
    }
    let bits = value.to_bits();
    let exponent = i32::try_from(bits >> 52).ok()? - 1075;
    let mantissa = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
    match exponent {
        0..=70 => Some((mantissa << exponent, 1)),
        -126..0 => Some((mantissa, 1 << -exponent)),
        // Subnormals end up here too; their mantissa would need another reading.
        _ => None,
    }
}

/// The greatest common divisor.
pub fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    fn ratio(value: f64) -> Option<(u64, u64)> {
        Ratio::from_float(value).map(|ratio| (ratio.numerator, ratio.denominator))
    }

    #[test]
    fn floats_become_the_ratio_a_person_meant() {
        assert_eq!(ratio(1.0), Some((1, 1)));
        assert_eq!(ratio(0.5), Some((1, 2)));
        assert_eq!(ratio(0.1), Some((1, 10)));
        assert_eq!(ratio(1.0 / 3.0), Some((1, 3)));
        assert_eq!(ratio(100.0 / 7.0), Some((100, 7)));
        assert_eq!(ratio(16.67), Some((1667, 100)));
        assert_eq!(ratio(600.001), Some((600_001, 1000)));
        assert_eq!(ratio(1e-6), Some((1, 1_000_000)));
        assert_eq!(ratio(9_007_199_254_740_992.0), Some((1 << 53, 1)));
    }

    #[test]
    fn what_is_no_positive_finite_ratio_is_refused() {
        for value in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300, f64::MIN_POSITIVE / 2.0] {
            assert_eq!(ratio(value), None, "{value}");
        }
    }
}
