//! How long after its slot a run begins, where a job spreads its starts.
//!
//! It follows from job and slot alone: a restart changes nothing, and two jobs of one hour do not begin together.

use chrono::TimeDelta;

/// Between no time and less than `minutes`, in whole seconds.
pub fn delay(job: i64, slot_ms: i64, minutes: u32) -> TimeDelta {
    let spread = u64::from(minutes) * 60;
    let mixed = mix(job.cast_unsigned() ^ mix(slot_ms.cast_unsigned()));
    let seconds = mixed.checked_rem(spread).unwrap_or_default();
    TimeDelta::seconds(i64::try_from(seconds).unwrap_or_default())
}

/// The last step of SplitMix64: neighbours end up far apart.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_spread_over_all_of_it_and_never_past_it() {
        let day = 86_400_000;
        for job in 1..=20 {
            let delays = (0..500).map(|n| delay(job, n * day, 10).num_seconds());
            let delays: Vec<i64> = delays.collect();
            assert!(delays.iter().all(|delay| (0..600).contains(delay)));
            let early = delays.iter().filter(|delay| **delay < 300).count();
            assert!((200..300).contains(&early), "{early} of 500");
        }
        assert_eq!(delay(1, day, 10), delay(1, day, 10));
        assert_eq!(delay(1, day, 0), TimeDelta::zero());
    }
}
