//! Tables for people: columns as wide as they must be, numbers to the right.

/// Rows of cells under a heading.
#[derive(Debug)]
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// With these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()] }
    }
    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    /// As text, a line a row. A column whose cells all are numbers stands to the right.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |c: usize| self.rows.iter().filter_map(move |r| r.get(c));
        let width: Vec<usize> =
            (0..columns).map(|c| cells(c).map(|t| t.chars().count()).max().unwrap_or(0)).collect();
        let number = |t: &String| {
            t == "-" || !t.is_empty() && t.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        let right: Vec<bool> = (0..columns).map(|c| cells(c).skip(1).all(number)).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&width).zip(&right) {
                let pad = " ".repeat(width - cell.chars().count());
                let (before, after) = if *right { (pad.as_str(), "") } else { ("", pad.as_str()) };
                line.push_str(before);
                line.push_str(cell);
                line.push_str(after);
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let mut c = Columns::new(&["port", "frames"]);
        c.row(vec!["lan".into(), "7".into()]);
        c.row(vec!["uplink".into(), "12345".into()]);
        assert_eq!(c.text(), "port    frames\nlan          7\nuplink   12345\n");
    }
}
