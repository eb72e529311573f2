//! When an entry was written, in the two words of MS-DOS: to two seconds, from 1980 on, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modified {
    pub(super) time: u16,
    pub(super) date: u16,
}

const DAY: u64 = 24 * 3600;
/// From 1970 to 1980.
const DAYS_BEFORE: u64 = 3652;
const YEARS_MAX: u64 = 127;

impl Modified {
    pub(crate) fn now() -> Self {
        Self::at(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// This many seconds after 1970 began.
    fn at(seconds: u64) -> Self {
        let Some(mut days) = (seconds / DAY).checked_sub(DAYS_BEFORE) else {
            return Self { time: 0, date: 1 << 5 | 1 };
        };
        // Until 2099, each fourth year has a day more.
        let mut year = 0;
        while days >= days_of_year(year) && year < YEARS_MAX {
            days -= days_of_year(year);
            year += 1;
        }
        let mut month = 0;
        while month < 11 && days >= days_of_month(year, month) {
            days -= days_of_month(year, month);
            month += 1;
        }
        let day = days.min(30);
        let second = seconds % DAY;
        let time = (second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
        let date = year << 9 | (month as u64 + 1) << 5 | (day + 1);
        Self { time: time as u16, date: date as u16 }
    }
}

fn days_of_year(year: u64) -> u64 {
    if year.is_multiple_of(4) { 366 } else { 365 }
}

fn days_of_month(year: u64, month: usize) -> u64 {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    DAYS[month] + u64::from(month == 1 && year.is_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(seconds: u64) -> [u16; 6] {
        let Modified { time, date } = Modified::at(seconds);
        [1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, (time & 31) * 2]
    }

    #[test]
    fn a_calendar_agrees() {
        assert_eq!(parts(0), [1980, 1, 1, 0, 0, 0]);
        assert_eq!(parts(315_532_800), [1980, 1, 1, 0, 0, 0]);
        assert_eq!(parts(951_782_399), [2000, 2, 28, 23, 59, 58]);
        assert_eq!(parts(951_868_799), [2000, 2, 29, 23, 59, 58]);
        assert_eq!(parts(951_868_800), [2000, 3, 1, 0, 0, 0]);
        assert_eq!(parts(1_790_000_000), [2026, 9, 21, 14, 13, 20]);
        assert_eq!(parts(1_798_761_599), [2026, 12, 31, 23, 59, 58]);
        // Later than the field can say.
        assert_eq!(parts(u64::MAX)[0], 2107);
    }
}
