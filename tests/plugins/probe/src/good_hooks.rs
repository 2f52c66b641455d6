//! Layer hooks that do what they should.

use menagerie_plugin::{
    Build, Component, LayerCall, LayerObserver, LayerReplacer, Phase, Point, Result, RowsMut, options,
};
use std::fmt::Write;
use std::sync::Mutex;

options! {
    /// Options of `row-log`.
    pub(crate) struct RowLogOptions {
        /// Where the lines go.
        file: String = Required,
    }
}

/// Notes every row that it is shown: side and layer, sequence, position, phase, the bits of its first and last number.
pub(crate) struct RowLog {
    file: String,
    lines: Mutex<String>,
}

impl Component for RowLog {
    const NAME: &'static str = "row-log";
    const DOC: &'static str = "A line for every row.";
    type Options = RowLogOptions;

    fn create(options: RowLogOptions, build: &mut Build) -> Result<Self> {
        let lines = format!("{} {} {:?}\n", build.layers(), build.width(), build.layer());
        Ok(Self { file: options.file, lines: Mutex::new(lines) })
    }
}

impl LayerObserver for RowLog {
    const POINTS: &'static [Point] = &[Point::Before, Point::After];

    fn observe(&self, call: LayerCall) -> Result<()> {
        let LayerCall { x, layer, point, sequences, .. } = call;
        let mut lines = self.lines.lock().map_err(|error| error.to_string())?;
        for sequence in sequences.iter() {
            let (id, phase) = (sequence.id(), sequence.phase());
            for (row, place) in sequence.rows().zip(sequence.past()..) {
                let position = sequence.positions()[place - sequence.past()];
                let row = x.row(row);
                let bits = [row[0].to_bits(), row[row.len() - 1].to_bits()];
                let (pool, number) = (id.pool, id.number);
                let line =
                    format!("{point:?} {layer} {pool}/{number} {place} {position} {phase:?} {bits:x?}");
                writeln!(lines, "{line}").map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl Drop for RowLog {
    fn drop(&mut self) {
        let lines = self.lines.lock().map(|lines| lines.clone()).unwrap_or_default();
        let _ = std::fs::write(&self.file, lines);
    }
}

options! {
    /// Options of `adding`.
    pub(crate) struct AddingOptions {
        /// What is added.
        amount: f32 = Number(0.25),
        /// Of no matter.
        note: String = Text("none"),
    }
}

/// Adds to what layers are going to read of what was generated.
pub(crate) struct Adding {
    amount: f32,
}

impl Component for Adding {
    const NAME: &'static str = "adding";
    const DOC: &'static str = "Adds a number that depends on the position.";
    type Options = AddingOptions;

    fn create(options: AddingOptions, _build: &mut Build) -> Result<Self> {
        let AddingOptions { amount, note } = options;
        if note.contains("refuse") {
            return Err(menagerie_plugin::Error::new(format!("note = {note}: as you wish")));
        }
        Ok(Self { amount })
    }
}

impl LayerReplacer for Adding {
    const POINTS: &'static [Point] = &[Point::Before];
    const PHASES: &'static [Phase] = &[Phase::Decode];

    fn replace(&self, call: LayerCall, mut output: RowsMut) -> Result<()> {
        let LayerCall { x, sequences, .. } = call;
        for sequence in sequences.iter() {
            for (row, place) in sequence.rows().zip(sequence.past()..) {
                for (y, x) in output.row_mut(row).iter_mut().zip(x.row(row)) {
                    *y = x + self.amount * (place % 3) as f32;
                }
            }
        }
        Ok(())
    }
}
