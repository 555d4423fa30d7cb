//! Other ways to estimate, for comparison: instructions times a constant, and a linear regression. Both
//! learn from the other functions alone: what a function is estimated by never saw it.
//!
//! Room: arithmetic over rows.

use super::Row;

/// Fills in what instructions times a constant say. The constant is the median of the others' cycles by
/// instructions.
pub fn by_instructions(rows: &mut [Row]) {
    let known: Vec<(&'static str, f64)> = rows
        .iter()
        .filter_map(|r| Some((r.function, r.measured / r.instructions.filter(|i| *i > 0.0)?)))
        .collect();
    for r in rows {
        let mut others: Vec<f64> =
            known.iter().filter(|k| k.0 != r.function).map(|k| k.1).collect();
        others.sort_by(f64::total_cmp);
        let constant = others.get(others.len() / 2);
        r.by_instructions = constant.zip(r.instructions).map(|(c, i)| c * i);
    }
}

/// Fills in what a regression over the rows' features says. It weighs relative errors, as the score does.
pub fn by_regression(rows: &mut [Row]) {
    let all: Vec<(&'static str, Vec<f64>, f64)> =
        rows.iter().map(|r| (r.function, r.features.clone(), r.measured)).collect();
    let mut fitted: Vec<(&'static str, Option<Vec<f64>>)> = Vec::new();
    for r in rows {
        if !fitted.iter().any(|f| f.0 == r.function) {
            let others: Vec<(&[f64], f64)> =
                all.iter().filter(|a| a.0 != r.function).map(|a| (&*a.1, a.2)).collect();
            fitted.push((r.function, least_squares(&others)));
        }
        let weights = fitted.iter().find(|f| f.0 == r.function).and_then(|f| f.1.as_ref());
        let value = weights.map(|w| w.iter().zip(&r.features).map(|(w, x)| w * x).sum::<f64>());
        // A cost below a cycle is none.
        r.by_regression = value.map(|v| v.max(1.0));
    }
}

/// Weights that make the squares of relative errors least: normal equations by Gauss' elimination, with a
/// little on the diagonal, so that features which never vary do no harm.
fn least_squares(points: &[(&[f64], f64)]) -> Option<Vec<f64>> {
    let n = points.first()?.0.len();
    if points.len() < n {
        return None;
    }
    let mut m = vec![vec![0.0; n + 1]; n];
    for (x, y) in points {
        let weight = 1.0 / (y * y);
        for (i, row) in m.iter_mut().enumerate() {
            let xi = x.get(i).copied().unwrap_or(0.0) * weight;
            for (j, cell) in row.iter_mut().enumerate() {
                *cell += xi * if j == n { *y } else { x.get(j).copied().unwrap_or(0.0) };
            }
        }
    }
    for (i, row) in m.iter_mut().enumerate() {
        if let Some(d) = row.get_mut(i) {
            *d *= 1.0 + 1e-9;
            *d += 1e-12;
        }
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs()))?;
        m.swap(i, pivot);
        let lead = m[i].clone();
        if lead[i].abs() < 1e-300 {
            return None;
        }
        for (k, row) in m.iter_mut().enumerate() {
            if k != i {
                let f = row[i] / lead[i];
                row.iter_mut().zip(&lead).for_each(|(c, l)| *c -= f * l);
            }
        }
    }
    Some((0..n).map(|i| m[i][n] / m[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &'static str, x: f64, measured: f64, instructions: f64) -> Row {
        Row {
            function,
            entries: 1,
            frame_bytes: 64,
            traffic: String::new(),
            measured,
            twice: None,
            spread: 0.0,
            yardstick: None,
            estimate: 0.0,
            parts: Vec::new(),
            paper: None,
            instructions: Some(instructions),
            by_instructions: None,
            by_regression: None,
            veth: None,
            ovs: None,
            features: vec![1.0, x],
        }
    }

    #[test]
    fn what_is_estimated_was_not_learned_from() {
        // Three functions on a line; the fourth far off it does not move its own estimate.
        let mut rows: Vec<Row> = (1..=3u8)
            .flat_map(|i| {
                let name = ["a", "b", "c"][usize::from(i) - 1];
                let x = f64::from(i);
                [row(name, x, 10.0 + 5.0 * x, 20.0 + 10.0 * x), row(name, 9.0, 55.0, 110.0)]
            })
            .collect();
        rows.push(row("d", 4.0, 900.0, 60.0));
        by_regression(&mut rows);
        by_instructions(&mut rows);
        let d = rows.last().expect("a row");
        assert!((d.by_regression.expect("a value") - 30.0).abs() < 1e-3, "{d:?}");
        assert!((d.by_instructions.expect("a value") - 30.0).abs() < 1e-9, "{d:?}");
    }
}
