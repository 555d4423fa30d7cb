//! Days and moments as text, in UTC (RFC 3339, section 5.6).
//!
//! Room: printing. Pure. Called for lines of a log, and for what is said of a certificate.

use std::time::Duration;

const DAY_S: u64 = 86_400;

/// A day by seconds since 1970: `2026-11-29`.
pub fn day(seconds: u64) -> String {
    let mut days = seconds / DAY_S;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut month) = (1970, 1);
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// A moment by what has gone by since 1970, to the millisecond: `2026-11-29T08:05:00.250Z`.
pub fn moment(since_1970: Duration) -> String {
    let (all, millis) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (hours, minutes, seconds) = (all / 3600 % 24, all / 60 % 60, all % 60);
    format!("{}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z", day(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `date -u -d @SECONDS`.
    #[test]
    fn days_and_moments_are_those_of_date() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (1_764_590_701, "2025-12-01T12:05:01.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(moment(Duration::new(seconds, 7_999_999)), expected);
        }
    }
}
