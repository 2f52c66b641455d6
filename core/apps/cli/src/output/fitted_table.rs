//! [`FittedTable`]: a table that fits into the width of the terminal.

use crate::failure::Failure;
use crate::output;
use crate::screen::style::OutputStream;
use unicode_width::UnicodeWidthStr;

/// Width of output that is not a terminal: one less than the usual 80 columns of a terminal.
const WIDTH: usize = 79;

/// Minimum width of the last column of a table.
const LEAST: usize = 24;

/// A table whose last column is a text that may be shortened.
pub(crate) struct FittedTable<'a> {
    pub(crate) heads: &'a [&'a str],
    pub(crate) rows: Vec<Vec<String>>,
    /// Columns that are left out, in this order, if the last one would be too narrow.
    pub(crate) spared: &'a [usize],
}

impl FittedTable<'_> {
    /// Writes the table in the width of the terminal, or in 79 columns.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        output::painted(&self.text(OutputStream::Out.columns().unwrap_or(WIDTH)))
    }

    /// The table in this number of columns.
    fn text(&self, columns: usize) -> String {
        let Some(last) = self.heads.len().checked_sub(1) else { return String::new() };
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].width());
            cells.chain([self.heads[at].width()]).max().unwrap_or(0)
        };
        let mut kept: Vec<usize> = (0..last).collect();
        let room = |kept: &[usize]| columns.saturating_sub(kept.iter().map(|&at| width(at) + 2).sum());
        for column in self.spared {
            if room(&kept) < LEAST.min(width(last)) {
                kept.retain(|kept| kept != column);
            }
        }
        let room = room(&kept);
        let heads: Vec<&str> = kept.iter().chain([&last]).map(|&at| self.heads[at]).collect();
        let row = |row: &Vec<String>| {
            kept.iter().map(|&at| row[at].clone()).chain([shortened(&row[last], room)]).collect()
        };
        output::table_text(&heads, &self.rows.iter().map(row).collect::<Vec<_>>())
    }
}

/// Shortens a text to at most `room` columns, between words.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for word in text.split(' ') {
        if short.width() + word.width() + 4 > room {
            break;
        }
        short.push_str(word);
        short.push(' ');
    }
    short.trim_end().trim_end_matches([',', ':']).to_owned() + " ..."
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened on a terminal of medium width, complete on a wide one, with fewer columns on a narrow one.
    #[test]
    fn a_table_is_as_wide_as_the_terminal() {
        let summary =
            "A decoder with grouped queries, rotary positions, a gated feed-forward and no biases anywhere";
        let row = |id: &str| [id, "a-family", "llama.cpp", summary].map(str::to_owned).to_vec();
        let heads = ["id", "family", "proved by", "what it is"];
        let table =
            FittedTable { heads: &heads, rows: vec![row("one"), row("gemma-embedding")], spared: &[1, 2] };
        for columns in [50, 79, 100, 180] {
            let text = table.text(columns);
            let widest = text.lines().map(str::len).max().unwrap();
            assert!(widest <= columns, "{columns}: {widest}\n{text}");
            assert_eq!(text.contains(summary), columns == 180, "{text}");
            assert_eq!(text.contains("a-family"), columns > 50, "{text}");
            // No more is cut than has to be: the longest word that was left out does not fit.
            assert!(columns == 180 || widest + 12 > columns, "{columns}: {widest}\n{text}");
        }
    }
}
