//! Layer hooks for the tests.

use menagerie_plugin::{
    Build, Component, Error, LayerCall, LayerObserver, LayerReplacer, Point, Result, RowsMut, SequenceId,
    options,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

options! {
    /// Options of `halved`.
    pub struct HalvedOptions {
        /// Where notes would go.
        note: String = Text("nowhere"),
    }
}

/// Rows times a number that depends on layer and position.
pub struct Halved {
    layers: usize,
}

impl Component for Halved {
    const NAME: &'static str = "halved";
    const DOC: &'static str = "Rows times a number that depends on layer and position.";
    type Options = HalvedOptions;

    fn create(options: HalvedOptions, build: &mut Build) -> Result<Self> {
        match (build.layer(), &*options.note) {
            (None, "nowhere") => Ok(Self { layers: build.layers() }),
            (layer, note) => Err(Error::new(format!("layer {layer:?}, note {note}"))),
        }
    }
}

impl LayerReplacer for Halved {
    const POINTS: &'static [Point] = &[Point::Before, Point::After];

    fn replace(&self, call: LayerCall, mut output: RowsMut) -> Result<()> {
        let LayerCall { x, layer, point, sequences, .. } = call;
        let side = if point == Point::Before { 0.5 } else { 0.25 };
        for sequence in sequences.iter() {
            for (row, place) in sequence.rows().zip(sequence.past()..) {
                let factor = side * (self.layers * 10 + layer) as f32 + place as f32;
                output.row_mut(row).iter_mut().zip(x.row(row)).for_each(|(y, x)| *y = x * factor);
            }
        }
        Ok(())
    }
}

/// Counts the rows of each sequence.
#[derive(Default)]
pub struct Counting {
    counts: Mutex<BTreeMap<SequenceId, usize>>,
}

impl Component for Counting {
    const NAME: &'static str = "counting";
    const DOC: &'static str = "Counts rows, and fails at the thousandth of a sequence.";
    type Options = ();

    fn create(_options: (), _build: &mut Build) -> Result<Self> {
        Ok(Self::default())
    }
}

impl LayerObserver for Counting {
    fn observe(&self, call: LayerCall) -> Result<()> {
        let mut counts = self.counts.lock().map_err(|error| error.to_string())?;
        for sequence in call.sequences.iter() {
            let count = counts.entry(sequence.id()).or_default();
            *count += sequence.rows().len();
            if *count >= 1000 {
                return Err(Error::new(format!("{:?} has {count} rows", sequence.id())));
            }
        }
        Ok(())
    }
}
