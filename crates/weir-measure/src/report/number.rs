//! Numbers for people: four significant digits, thousands apart, times in a unit that suits them.
//!
//! Pure.

/// A number in as many digits as a reader wants; the whole of it is in the data.
pub fn number(v: f64) -> String {
    with_digits(v, 4)
}

/// A number to so many significant digits, those before the point always whole.
pub fn with_digits(v: f64, digits: i32) -> String {
    if v == 0.0 {
        return "0".to_owned();
    }
    let size = v.abs();
    if !(1e-4..1e15).contains(&size) {
        return format!("{v:.3e}");
    }
    // Within -4 and 14.
    let magnitude = size.log10().floor() as i32;
    let decimals = usize::try_from(digits.clamp(1, 15) - 1 - magnitude).unwrap_or(0);
    let text = format!("{v:.decimals$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let part = part.trim_end_matches('0');
    let digits = whole.trim_start_matches('-');
    let mut out = if v < 0.0 { "-".to_owned() } else { String::new() };
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if !part.is_empty() {
        out.push('.');
        out.push_str(part);
    }
    out
}

/// A number and its unit.
pub fn quantity(v: f64, unit: &str) -> String {
    let shown = Shown::of(unit, [v]);
    let text = number(v * shown.factor);
    if shown.unit.is_empty() { text } else { format!("{text} {}", shown.unit) }
}

/// The unit that values are shown in, and what to multiply them by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown<'a> {
    /// Multiplies a value.
    pub factor: f64,
    /// The unit of the product.
    pub unit: &'a str,
}

const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

impl<'a> Shown<'a> {
    /// The unit in which the middle of the values' magnitudes is between 1 and 1000. Units of time
    /// alone are changed.
    pub fn of(unit: &'a str, values: impl IntoIterator<Item = f64>) -> Self {
        let same = Self { factor: 1.0, unit };
        let Some(&(_, own)) = TIMES.iter().find(|t| t.0 == unit || (unit == "us" && t.0 == "µs"))
        else {
            return same;
        };
        let sizes = values.into_iter().map(f64::abs).filter(|v| *v > 0.0 && v.is_finite());
        let (least, most) = sizes.fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        if most == 0.0 {
            return same;
        }
        // The geometric mean of the ends, by roots so that it does not overflow.
        let middle = least.sqrt() * most.sqrt() * own;
        let best = TIMES.iter().rev().find(|t| middle >= t.1).unwrap_or(&TIMES[0]);
        Self { factor: own / best.1, unit: best.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_people_write_them() {
        for (v, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (5.0, "5"),
            (-1234.0, "-1,234"),
            (1_234_567.8, "1,234,568"),
            (12.345_678, "12.35"),
            (0.001_234_56, "0.001235"),
            (99.999_9, "100"),
            (1e-9, "1.000e-9"),
            (6.02e23, "6.020e23"),
            (1000.5, "1,000"),
        ] {
            assert_eq!(number(v), text);
        }
        assert_eq!(with_digits(12_499.971, 8), "12,499.971");
        assert_eq!(quantity(1_500.0, "ns"), "1.5 µs");
        assert_eq!(quantity(0.000_2, "s"), "200 µs");
        assert_eq!(quantity(88.0, "%"), "88 %");
        assert_eq!(quantity(3.0, ""), "3");
    }

    #[test]
    fn times_in_their_unit() {
        assert_eq!(Shown::of("ns", [1e3, 1e9]), Shown { factor: 1e-6, unit: "ms" });
        assert_eq!(Shown::of("ns", [0.0]), Shown { factor: 1.0, unit: "ns" });
        assert_eq!(Shown::of("frames", [1e9]), Shown { factor: 1.0, unit: "frames" });
    }

    proptest! {
        #[test]
        fn any_number_is_survived(v in any::<f64>(), w in any::<f64>()) {
            let _ = (number(v), quantity(w, "ns"), Shown::of("ms", [v, w]));
        }

        /// What is read is what was meant, to four digits.
        #[test]
        fn four_digits_hold(v in -1e14..1e14f64) {
            let back: f64 = number(v).replace(',', "").parse().unwrap();
            prop_assert!((back - v).abs() <= v.abs() * 5e-4, "{v} {back}");
        }
    }
}
