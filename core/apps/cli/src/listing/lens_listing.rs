//! [`LensListing`]: what a logit lens read, as text.

use crate::output;
use crate::screen::escape;
use menagerie::engine::{LensCell, LensTable, LensTableRow};
use std::collections::BTreeSet;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Most columns of the text of a token in the grid.
const CELL: usize = 10;

/// What a logit lens read, for a terminal of this many columns.
pub(crate) struct LensListing<'a> {
    pub(crate) table: &'a LensTable,
    pub(crate) columns: usize,
}

impl LensListing<'_> {
    /// Tables with a column for each token and a row for each layer, as many beside each other as fit.
    pub(crate) fn grid(&self) -> String {
        let layers: BTreeSet<usize> =
            self.table.rows.iter().flat_map(|row| row.layers.iter().map(|cell| cell.layer)).collect();
        let columns: Vec<Vec<String>> = self.table.rows.iter().map(|row| column(row, &layers)).collect();
        let mut text = String::new();
        let mut left = columns.as_slice();
        while !left.is_empty() {
            let mut room = self.columns.saturating_sub("layer".len());
            let fits = left.iter().take_while(|column| {
                let needed = column.iter().map(|cell| cell.width()).max().unwrap_or(0) + 2;
                let fits = needed <= room;
                room = room.saturating_sub(needed);
                fits
            });
            let (block, rest) = left.split_at(fits.count().max(1));
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&block_text(block, &layers));
            left = rest;
        }
        text
    }

    /// For each token a list of its layers with the most likely tokens.
    pub(crate) fn lists(&self) -> String {
        let mut text = String::new();
        for row in &self.table.rows {
            if !text.is_empty() {
                text.push('\n');
            }
            let next = row
                .next
                .as_ref()
                .map_or(String::new(), |next| format!(", followed by {}", quoted(&next.text, next.id)));
            let shown = quoted(&row.text, row.id);
            let predicted = quoted(&row.predicted.text, row.predicted.id);
            text.push_str(&format!("position {}: {shown}{next}; predicted: {predicted}\n", row.position));
            let rows: Vec<Vec<String>> = row.layers.iter().map(line).collect();
            text.push_str(&output::table_text(&["layer", "rank", "probability", "most likely"], &rows));
        }
        text
    }
}

/// The columns of some tokens as a table.
fn block_text(block: &[Vec<String>], layers: &BTreeSet<usize>) -> String {
    let cells = |place: usize| block.iter().map(move |column| column.get(place).cloned().unwrap_or_default());
    let heads: Vec<String> = std::iter::once("layer".to_owned()).chain(cells(0)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let row = |(place, layer): (usize, &usize)| {
        std::iter::once(layer.to_string()).chain(cells(place + 1)).collect()
    };
    let rows: Vec<Vec<String>> = layers.iter().enumerate().map(row).collect();
    output::table_text(&heads, &rows)
}

/// The head of a column, and a cell for each layer; it is empty if the layer has no finite logits.
fn column(row: &LensTableRow, layers: &BTreeSet<usize>) -> Vec<String> {
    let head = format!("{} {}", row.position, short(&row.text, row.id));
    let cell = |layer: &usize| {
        let top = row.layers.iter().find(|cell| cell.layer == *layer).and_then(|cell| cell.top.first());
        top.map_or(String::new(), |top| {
            format!("{} {}", short(&top.text, top.id), percent(top.probability.unwrap_or(0.0)))
        })
    };
    std::iter::once(head).chain(layers.iter().map(cell)).collect()
}

/// A layer with all its tokens.
fn line(cell: &LensCell) -> Vec<String> {
    let top = cell.top.iter().map(|token| {
        format!("{} {}", quoted(&token.text, token.id), percent(token.probability.unwrap_or(0.0)))
    });
    let top: Vec<String> = top.collect();
    vec![cell.layer.to_string(), cell.rank.to_string(), percent(cell.probability), top.join("  ")]
}

/// The text of a token, in which spaces can be seen; the id of a token without text.
fn visible(text: &str, id: u32) -> String {
    match text {
        "" => format!("#{id}"),
        text => escape::line(text).replace(' ', "\u{b7}"),
    }
}

/// The same in at most [`CELL`] columns.
fn short(text: &str, id: u32) -> String {
    let text = visible(text, id);
    if text.width() <= CELL {
        return text;
    }
    let mut width = 0;
    let fits = |c: &char| {
        width += c.width().unwrap_or(0);
        width < CELL
    };
    text.chars().take_while(fits).chain(['\u{2026}']).collect()
}

fn quoted(text: &str, id: u32) -> String {
    match text {
        "" => visible(text, id),
        text => format!("\"{}\"", escape::line(text)),
    }
}

fn percent(probability: f32) -> String {
    match probability * 100.0 {
        share if share >= 9.95 => format!("{share:.0}%"),
        share if share >= 0.1 => format!("{share:.1}%"),
        _ => "<0.1%".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie::engine::NamedToken;

    fn token(text: &str, probability: Option<f32>) -> NamedToken {
        NamedToken { id: 7, text: text.to_owned(), probability }
    }

    fn table() -> LensTable {
        let cell = |layer, text: &str, rank| LensCell {
            layer,
            rank,
            probability: 0.002,
            top: vec![token(text, Some(0.5)), token("\n", Some(0.0001))],
        };
        let row = |position, text: &str| LensTableRow {
            position,
            id: 7,
            text: text.to_owned(),
            next: Some(token(" b", None)),
            predicted: token("", None),
            layers: vec![cell(0, " a very long token", 3), cell(2, "", 1)],
        };
        LensTable { prompt_tokens: 2, rows: vec![row(0, "The"), row(1, "\u{1b}[m")] }
    }

    #[test]
    fn the_grid_has_a_column_for_each_token_and_wraps() {
        let table = table();
        let wide = LensListing { table: &table, columns: 79 }.grid();
        let expected = "layer  0 The           1 \\u{1b}[m\n\
                        0      \u{b7}a\u{b7}very\u{b7}l\u{2026} 50%  \u{b7}a\u{b7}very\u{b7}l\u{2026} 50%\n\
                        2      #7 50%          #7 50%\n";
        assert_eq!(wide, expected);
        let narrow = LensListing { table: &table, columns: 24 }.grid();
        assert_eq!(narrow.lines().count(), 7);
        assert!(narrow.lines().all(|line| line.width() <= 24), "{narrow}");
    }

    #[test]
    fn lists_have_ranks_and_every_token() {
        let table = table();
        let text = LensListing { table: &table, columns: 79 }.lists();
        let first = "position 0: \"The\", followed by \" b\"; predicted: #7\n\
                     layer  rank  probability  most likely\n\
                     0      3     0.2%         \" a very long token\" 50%  \"\\n\" <0.1%\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("\nposition 1: \"\\u{1b}[m\""), "{text}");
    }
}
