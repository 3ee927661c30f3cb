//! Sizes and times as people write them.

use std::fmt;
use std::time::Duration;

/// Text that is not a size or a time; says what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAQuantity(String);

const SIZE_UNITS: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

const TIME_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60 * 1000), ("h", 60 * 60 * 1000), ("d", 24 * 60 * 60 * 1000)];

/// Reads a number of bytes such as `4 MiB`; a bare number is bytes.
///
/// # Errors
/// Decimal units such as `MB` are refused with the binary one that was probably meant, because queue managers and
/// brokers count in powers of two.
pub fn parse_size(text: &str) -> Result<u64, NotAQuantity> {
    let (number, unit) = split(text);
    let quoted = super::problem::Quoted(text);
    let expected = |hint: &str| NotAQuantity(format!("{quoted} is not a size; {hint}"));
    let number: u64 =
        number.parse().map_err(|_| expected("a whole number with B, KiB, MiB, GiB or TiB is expected"))?;
    if unit.is_empty() {
        return Ok(number);
    }
    let Some((_, factor)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        let meant = SIZE_UNITS.iter().find(|(name, _)| {
            unit.eq_ignore_ascii_case(name) || unit.eq_ignore_ascii_case(&name[..1]) || is_decimal_form(unit, name)
        });
        return Err(match meant {
            Some((name, _)) => expected(&format!("did you mean \"{number} {name}\"?")),
            None => expected("a whole number with B, KiB, MiB, GiB or TiB is expected"),
        });
    };
    number.checked_mul(*factor).ok_or_else(|| expected("it is too large"))
}

/// Reads a time such as `30s`, `500ms`, `12h` or `4d`.
///
/// # Errors
/// A bare number is refused: nobody knows whether it is seconds.
pub fn parse_time(text: &str) -> Result<Duration, NotAQuantity> {
    let (number, unit) = split(text);
    let quoted = super::problem::Quoted(text);
    let expected = |hint: &str| NotAQuantity(format!("{quoted} is not a time; {hint}"));
    let number: u64 = number.parse().map_err(|_| expected("a whole number with ms, s, m, h or d is expected"))?;
    let Some((_, factor)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit {
            "" => expected(&format!("the unit is missing: \"{number}s\" is {number} seconds")),
            "sec" | "secs" | "second" | "seconds" => expected(&format!("did you mean \"{number}s\"?")),
            "min" | "mins" | "minute" | "minutes" => expected(&format!("did you mean \"{number}m\"?")),
            "hour" | "hours" => expected(&format!("did you mean \"{number}h\"?")),
            "day" | "days" => expected(&format!("did you mean \"{number}d\"?")),
            _ => expected("a whole number with ms, s, m, h or d is expected"),
        });
    };
    number.checked_mul(*factor).map(Duration::from_millis).ok_or_else(|| expected("it is too long"))
}

/// A size in the largest unit that divides it, as it is written in the files.
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS.iter().rev().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) => write!(f, "{} {name}", self.0 / factor),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A time in the largest unit that divides it, as it is written in the files.
pub(super) struct Time(pub(super) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let unit = TIME_UNITS.iter().rev().find(|(_, factor)| millis >= *factor && millis.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) => write!(f, "{}{name}", millis / factor),
            None => write!(f, "{millis}ms"),
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    (number, unit.trim_start())
}

/// `MB` for `MiB` and the like.
fn is_decimal_form(unit: &str, binary: &str) -> bool {
    binary.len() == 3 && unit.len() == 2 && unit.eq_ignore_ascii_case(&format!("{}B", &binary[..1]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn sizes_are_read_in_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17 B", 17),
            ("64 KiB", 65_536),
            ("4MiB", 4 << 20),
            (" 1 GiB ", 1 << 30),
            ("2 TiB", 2 << 40),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn sizes_that_are_none_say_what_was_meant() {
        for (text, why) in [
            ("4 MB", "\"4 MB\" is not a size; did you mean \"4 MiB\"?"),
            ("4 mib", "\"4 mib\" is not a size; did you mean \"4 MiB\"?"),
            ("4k", "\"4k\" is not a size; did you mean \"4 KiB\"?"),
            ("four", "\"four\" is not a size; a whole number with B, KiB, MiB, GiB or TiB is expected"),
            ("-1", "\"-1\" is not a size; a whole number with B, KiB, MiB, GiB or TiB is expected"),
            ("1.5 GiB", "\"1.5 GiB\" is not a size; a whole number with B, KiB, MiB, GiB or TiB is expected"),
            ("20000000 TiB", "\"20000000 TiB\" is not a size; it is too large"),
        ] {
            assert_eq!(parse_size(text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn times_need_a_unit() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("5 m", 300_000), ("12h", 43_200_000), ("4d", 345_600_000)]
        {
            assert_eq!(parse_time(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for (text, why) in [
            ("30", "\"30\" is not a time; the unit is missing: \"30s\" is 30 seconds"),
            ("30 min", "\"30 min\" is not a time; did you mean \"30m\"?"),
            ("soon", "\"soon\" is not a time; a whole number with ms, s, m, h or d is expected"),
            ("1h30m", "\"1h30m\" is not a time; a whole number with ms, s, m, h or d is expected"),
        ] {
            assert_eq!(parse_time(text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn quantities_print_as_they_are_written() {
        assert_eq!(Size(4 << 20).to_string(), "4 MiB");
        assert_eq!(Size(1000).to_string(), "1000 B");
        assert_eq!(Size(0).to_string(), "0 B");
        assert_eq!(Time(Duration::from_secs(90)).to_string(), "90s");
        assert_eq!(Time(Duration::from_hours(96)).to_string(), "4d");
        assert_eq!(Time(Duration::ZERO).to_string(), "0ms");
    }
}
