//! Chance without a generator: a number that depends on the seed, on the decision and on its subject.
//!
//! Invariant: the same question has the same answer, in any order and on any thread.

/// The decision of a draw. Two decisions about one page must be independent, so each has a tag of its own.
#[derive(Clone, Copy)]
pub(crate) enum Tag {
    Fate = 1,
    Scheme,
    Addresses,
    Robots,
    Sitemap,
    Feed,
    FeedPeriod,
    Kind,
    KindDetail,
    Private,
    Original,
    Target,
    Absolute,
    Change,
    ChangePeriod,
    Size,
    Link,
    LinkHost,
    LinkPage,
    Fragment,
    Latency,
    Text,
    Busy,
    Ipv6,
}

/// A number for this question about `(a, b)`.
pub(crate) fn draw(seed: u64, tag: Tag, a: u64, b: u64) -> u64 {
    let x = mix(seed ^ (tag as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let x = mix(x.wrapping_add(a.wrapping_mul(0xD6E8_FEB8_6659_FD93)));
    mix(x.wrapping_add(b.wrapping_mul(0xA24B_AED4_963E_E407)))
}

/// The number as a fraction in 0..1.
pub(crate) fn unit(x: u64) -> f64 {
    (x >> 11) as f64 / (1u64 << 53) as f64
}

/// The number as one of `0..n`; 0 when there is no choice.
pub(crate) fn below(x: u64, n: u64) -> u64 {
    ((u128::from(x) * u128::from(n)) >> 64) as u64
}

/// A draw from the log-normal law with median 1. The normal part is a sum of four uniform ones, which is close
/// enough and never further out than 3.5 sigma.
pub(crate) fn log_normal(x: u64, sigma: f64) -> f64 {
    if sigma == 0.0 {
        return 1.0;
    }
    let sum: u64 = (0..4).map(|part| (x >> (16 * part)) & 0xFFFF).sum();
    let normal = (sum as f64 / 65_536.0 - 2.0) * 3f64.sqrt();
    (sigma * normal).exp()
}

/// The finaliser of SplitMix64, a well-mixed bijection of 64 bits.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_fill_the_range_evenly() {
        let mut tenths = [0u32; 10];
        for n in 0..100_000 {
            tenths[(unit(draw(7, Tag::Kind, 3, n)) * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (9_500..10_500).contains(count)), "{tenths:?}");
    }

    #[test]
    fn a_log_normal_has_the_mean_its_law_promises() {
        let sigma = 0.6;
        let sum: f64 = (0..100_000).map(|n| log_normal(draw(7, Tag::Size, 3, n), sigma)).sum();
        let expected = (sigma * sigma / 2.0f64).exp();
        assert!((sum / 100_000.0 / expected - 1.0).abs() < 0.02);
    }
}
