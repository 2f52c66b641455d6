//! [`Delimited`]: tables in Markdown or as comma-separated values.

/// The format of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimited {
    /// Bars between the cells and at both ends.
    Markdown,
    /// Commas between the cells; cells are quoted if necessary.
    Csv,
}

impl Delimited {
    /// One line for the headings and one for each row.
    pub(crate) fn table(self, heads: &[&str], rows: &[Vec<String>]) -> String {
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        let mut text = self.line(&heads);
        if self == Self::Markdown {
            text.push_str(&self.line(&vec!["---".to_owned(); heads.len()]));
        }
        rows.iter().for_each(|row| text.push_str(&self.line(row)));
        text
    }

    fn line(self, cells: &[String]) -> String {
        match self {
            Self::Markdown => format!("| {} |\n", cells.join(" | ")),
            Self::Csv => {
                let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
                format!("{}\n", cells.join(","))
            }
        }
    }
}

/// A cell of comma-separated values (RFC 4180).
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_told_apart() {
        let rows = [vec!["a, \"b\"".to_owned(), "1".to_owned()]];
        assert_eq!(Delimited::Csv.table(&["x", "y"], &rows), "x,y\n\"a, \"\"b\"\"\",1\n");
        assert_eq!(
            Delimited::Markdown.table(&["x", "y"], &rows),
            "| x | y |\n| --- | --- |\n| a, \"b\" | 1 |\n"
        );
    }
}
