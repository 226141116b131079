//! Numbers for people.

/// A number of bytes, in the largest binary unit that holds it exactly.
pub fn bytes(count: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if count != 0 && count.trailing_zeros() >= shift {
            return format!("{} {unit}", count >> shift);
        }
    }
    format!("{count} B")
}

/// A time in microseconds, with four digits.
pub fn microseconds(nanoseconds: u64) -> String {
    let microseconds = nanoseconds as f64 / 1000.0;
    let decimals = match microseconds {
        ..9.9995 => 3,
        ..99.995 => 2,
        ..999.95 => 1,
        _ => 0,
    };
    format!("{microseconds:.decimals$}")
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place != 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_the_unit_that_divides_them() {
        let texts = [0, 1, 1000, 1024, 1536, 65536, 1 << 20, 1 << 31, (1 << 20) + 1].map(bytes);
        assert_eq!(
            texts,
            ["0 B", "1 B", "1000 B", "1 KiB", "1536 B", "64 KiB", "1 MiB", "2 GiB", "1048577 B"]
        );
    }

    #[test]
    fn times_have_four_digits() {
        let texts = [0, 1, 1234, 9999, 10_000, 99_994, 99_995, 999_949, 999_950, 12_345_678]
            .map(microseconds);
        assert_eq!(
            texts,
            [
                "0.000", "0.001", "1.234", "9.999", "10.00", "99.99", "100.0", "999.9", "1000",
                "12346"
            ]
        );
    }

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
