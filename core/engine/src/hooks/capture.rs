//! [`Capture`]: a hook that records activations and writes them in the format of `check --reference`.

mod copies;

use crate::setters::setters;
use menagerie_model::{Checkpoint, HookInput, LayerHook, ModelError, Phases, SerializableHook};
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureOptions {
    /// Layers, 0-based; `None` = all.
    pub layers: Option<RangeInclusive<usize>>,
    /// Checkpoints in these layers.
    pub places: Vec<Checkpoint>,
    /// Steps.
    pub phases: Phases,
}

setters! { CaptureOptions:
    with_layers(layers: impl Into<Option<RangeInclusive<usize>>>),
    with_places(places: Vec<Checkpoint>),
    with_phases(phases: Phases),
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { layers: None, places: vec![Checkpoint::LayerOut], phases: Phases::All }
    }
}

/// Records the rows of one sequence at some checkpoints in an unnamed temporary file; memory holds only their offsets.
/// In the processes of stages, copies of it record the rows of their layers until it collects them.
pub struct Capture {
    folder: PathBuf,
    options: CaptureOptions,
    layers: Range<usize>,
    spool: Mutex<Spool>,
}

struct Spool {
    file: BufWriter<File>,
    bytes: u64,
    pieces: BTreeMap<(usize, Checkpoint), Vec<SpooledRows>>,
}

/// Rows of a step.
struct SpooledRows {
    first_position: usize,
    rows: usize,
    cols: usize,
    /// Their offset in the temporary file.
    at: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureSummary {
    /// The number of tensors of values.
    pub tensors: usize,
    /// The rows of each.
    pub rows: usize,
}

impl Capture {
    /// A recorder for a model of `n_layers` layers. Its temporary file is in `folder` and disappears with the process.
    ///
    /// # Errors
    /// The file cannot be created, or the model does not have the layers.
    pub fn new(folder: impl AsRef<Path>, options: CaptureOptions, n_layers: usize) -> io::Result<Self> {
        let folder = folder.as_ref();
        let layers = match &options.layers {
            None => 0..n_layers,
            Some(layers) if *layers.end() < n_layers => *layers.start()..layers.end() + 1,
            Some(layers) => {
                let last = n_layers.saturating_sub(1);
                let reason = format!("layer {} is past the last one of this model, {last}", layers.end());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
        };
        let file = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(folder)?);
        let spool = Mutex::new(Spool { file, bytes: 0, pieces: BTreeMap::new() });
        Ok(Self { folder: std::path::absolute(folder)?, options, layers, spool })
    }

    /// Writes a safetensors file: `tokens` i64 `[T]` up to the last captured one, `l_out-3` f32 `[R, D]` and so on,
    /// and `positions` i64 `[R]` unless every token has a row. If a token was computed twice, its last row counts.
    ///
    /// # Errors
    /// The temporary file cannot be read, `out` cannot be written, or nothing was captured.
    pub fn write(&self, tokens: &[u32], out: &mut dyn Write) -> io::Result<CaptureSummary> {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let Spool { file, pieces, .. } = &mut *spool;
        file.flush()?;
        let file = file.get_mut();
        let positions: Vec<usize> = match pieces.values().next() {
            Some(pieces) => rows_of(pieces).into_keys().filter(|at| *at < tokens.len()).collect(),
            None => Vec::new(),
        };
        // The token sampled last is not computed.
        let tokens = &tokens[..positions.last().map_or(0, |last| last + 1)];
        if positions.is_empty() {
            let reason = "nothing was captured: no layer was computed in the requested steps";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let (tensors, rows) = (pieces.len(), positions.len());
        out.write_all(&head(tokens.len(), &positions, pieces))?;
        let id = |id: u64| id.to_le_bytes();
        for token in tokens {
            out.write_all(&id(u64::from(*token)))?;
        }
        if rows < tokens.len() {
            for position in &positions {
                out.write_all(&id(*position as u64))?;
            }
        }
        let mut row = Vec::new();
        for pieces in pieces.values() {
            let places = rows_of(pieces);
            row.resize(pieces.first().map_or(0, |piece| piece.cols) * size_of::<f32>(), 0);
            for position in &positions {
                let at = places.get(position).ok_or_else(|| io::Error::other("a row was not captured"))?;
                file.seek(SeekFrom::Start(*at))?;
                file.read_exact(&mut row)?;
                out.write_all(&row)?;
            }
        }
        file.seek(SeekFrom::End(0))?;
        Ok(CaptureSummary { tensors, rows })
    }
}

impl Spool {
    /// Appends the values of a piece.
    fn keep(
        &mut self,
        place: (usize, Checkpoint),
        piece: SpooledRows,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        write(&mut self.file)?;
        self.bytes += (piece.rows * piece.cols * size_of::<f32>()) as u64;
        self.pieces.entry(place).or_default().push(piece);
        Ok(())
    }
}

impl LayerHook for Capture {
    fn name(&self) -> &str {
        Self::KIND
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn phases(&self) -> Phases {
        self.options.phases
    }

    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<(), ModelError> {
        if !self.options.places.contains(&checkpoint) {
            return Ok(());
        }
        let refused = |reason: String| ModelError::Hook { hook: Self::KIND.to_owned(), reason };
        let [part] = shown.layout.sequences() else {
            return Err(refused("captures one sequence at a time, and the step has several".to_owned()));
        };
        let (rows, cols) = (shown.rows.rows(), shown.rows.cols());
        if rows != part.rows.len() {
            return Err(refused(format!(
                "expected a row for each of {} tokens at {}, found {rows}",
                part.rows.len(),
                checkpoint.name()
            )));
        }
        let values = shown.compute.backend.read(shown.rows)?;
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = SpooledRows { first_position: part.first_position, rows, cols, at: spool.bytes };
        let kept = spool.keep((shown.layer, checkpoint), piece, |file| {
            values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
        });
        kept.map_err(|error| refused(format!("cannot store rows: {error}")))
    }

    fn serializable(&self) -> Option<&dyn SerializableHook> {
        Some(self)
    }
}

/// The offset of the row of each position; the last one if it was computed twice.
fn rows_of(pieces: &[SpooledRows]) -> BTreeMap<usize, u64> {
    let rows = pieces.iter().flat_map(|piece| {
        let at = |row: usize| piece.at + (row * piece.cols * size_of::<f32>()) as u64;
        (0..piece.rows).map(move |row| (piece.first_position + row, at(row)))
    });
    rows.collect()
}

/// The header of a safetensors file.
fn head(
    tokens: usize,
    positions: &[usize],
    pieces: &BTreeMap<(usize, Checkpoint), Vec<SpooledRows>>,
) -> Vec<u8> {
    let mut end = 0;
    let mut entry = |dtype: &str, shape: &[usize]| {
        let size = if dtype == "I64" { size_of::<i64>() } else { size_of::<f32>() };
        let start = end;
        end += shape.iter().product::<usize>() * size;
        json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] })
    };
    let mut header = Map::new();
    header.insert("tokens".to_owned(), entry("I64", &[tokens]));
    if positions.len() < tokens {
        header.insert("positions".to_owned(), entry("I64", &[positions.len()]));
    }
    for ((layer, place), pieces) in pieces {
        let cols = pieces.first().map_or(0, |piece| piece.cols);
        header.insert(format!("{}-{layer}", place.name()), entry("F32", &[positions.len(), cols]));
    }
    let header = serde_json::Value::Object(header).to_string();
    // Spaces, so that the data starts at a multiple of eight.
    let padded = header.len().next_multiple_of(8);
    let mut bytes = (padded as u64).to_le_bytes().to_vec();
    bytes.extend(format!("{header:<padded$}").into_bytes());
    bytes
}
