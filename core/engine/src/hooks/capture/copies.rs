//! Copies of a [`Capture`] in the processes of stages, and the transfer of their rows.

use super::{Capture, CaptureOptions, Spool, SpooledRows};
use crate::hooks::RecipeOrigin;
use menagerie_model::{Checkpoint, HookRecipe, ModelError, Phases, Result, SerializableHook};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::PoisonError;

/// Bytes of values per message, unless a row has more.
const PIECE: usize = 1 << 20;

/// Bytes before the values of a message: layer, checkpoint, first position, columns.
const HEAD: usize = 20;

/// The content of a recipe.
#[derive(Serialize, Deserialize)]
struct CaptureRecipe {
    /// The folder of the output file, which has enough space.
    folder: String,
    first: usize,
    end: usize,
    places: Vec<String>,
    phases: String,
}

const PHASES: [(&str, Phases); 3] =
    [("all", Phases::All), ("prefill", Phases::Prefill), ("decode", Phases::Decode)];

impl Capture {
    /// The kind of recipe of its copies.
    pub(crate) const KIND: &str = "capture";

    /// A copy in another process. Its temporary file is in the folder of the output file, or in the system's temporary folder
    /// if that folder does not exist here or is that of another machine.
    ///
    /// # Errors
    /// The recipe is invalid, or the file cannot be created.
    pub(crate) fn copied(recipe: &[u8], n_layers: usize, origin: RecipeOrigin) -> Result<Self, String> {
        let recipe: CaptureRecipe = serde_json::from_slice(recipe).map_err(|error| error.to_string())?;
        let CaptureRecipe { folder, first, end, places, phases } = recipe;
        let place = |name: &String| Checkpoint::named(name).ok_or_else(|| format!("no place `{name}`"));
        let phases = PHASES.iter().find(|(name, _)| *name == phases).map(|(_, phases)| *phases);
        let options = CaptureOptions {
            layers: end.checked_sub(1).map(|last| first..=last),
            places: places.iter().map(place).collect::<Result<_, String>>()?,
            phases: phases.ok_or("unknown phase")?,
        };
        let own = std::env::temp_dir();
        let given = Some(Path::new(&folder)).filter(|_| origin == RecipeOrigin::SameMachine);
        let folder = given.filter(|folder| folder.is_dir()).unwrap_or(&own);
        Self::new(folder, options, n_layers).map_err(|error| format!("{}: {error}", folder.display()))
    }

    fn unkept(error: &io::Error) -> ModelError {
        ModelError::Hook { hook: Self::KIND.to_owned(), reason: format!("cannot store rows: {error}") }
    }
}

impl SerializableHook for Capture {
    fn recipe(&self) -> HookRecipe {
        let phases = PHASES.iter().find(|(_, phases)| *phases == self.options.phases);
        let recipe = CaptureRecipe {
            folder: self.folder.to_string_lossy().into_owned(),
            first: self.layers.start,
            end: self.layers.end,
            places: self.options.places.iter().map(|place| place.name().to_owned()).collect(),
            phases: phases.map_or("all", |(name, _)| name).to_owned(),
        };
        // Numbers and texts: JSON can represent them.
        let content = serde_json::to_vec(&recipe).unwrap_or_default();
        HookRecipe { kind: Self::KIND.to_owned(), content }
    }

    fn give(&self, piece: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        spool.file.flush().map_err(|error| Self::unkept(&error))?;
        let Spool { file, pieces, bytes } = &mut *spool;
        let file = file.get_mut();
        let mut out = Vec::new();
        for ((layer, place), pieces) in pieces.iter() {
            for SpooledRows { first_position, rows, cols, at } in pieces {
                let row_bytes = (cols * size_of::<f32>()).max(1);
                let at_once = (PIECE / row_bytes).max(1);
                file.seek(SeekFrom::Start(*at)).map_err(|error| Self::unkept(&error))?;
                for first in (0..*rows).step_by(at_once) {
                    out.clear();
                    let number = Checkpoint::ALL.iter().position(|one| one == place).unwrap_or(0);
                    out.extend((*layer as u32).to_le_bytes());
                    out.extend((number as u32).to_le_bytes());
                    out.extend(((first_position + first) as u64).to_le_bytes());
                    out.extend((*cols as u32).to_le_bytes());
                    out.resize(HEAD + at_once.min(rows - first) * row_bytes, 0);
                    file.read_exact(&mut out[HEAD..]).map_err(|error| Self::unkept(&error))?;
                    piece(&out)?;
                }
            }
        }
        pieces.clear();
        *bytes = 0;
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        emptied.map_err(|error| Self::unkept(&error))
    }

    fn take(&self, piece: &[u8]) -> Result<()> {
        let broken = || Self::unkept(&io::Error::other("the rows that a stage sent are incomplete"));
        let (head, values) = piece.split_at_checked(HEAD).ok_or_else(broken)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (layer, place, cols) = (number(0) as usize, number(4) as usize, number(16) as usize);
        let first_position = usize::try_from(u64::from(number(8)) | u64::from(number(12)) << 32);
        let first_position = first_position.map_err(|_| broken())?;
        let place = *Checkpoint::ALL.get(place).ok_or_else(broken)?;
        let row_bytes = cols * size_of::<f32>();
        if row_bytes == 0 || !values.len().is_multiple_of(row_bytes) || !self.layers.contains(&layer) {
            return Err(broken());
        }
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = values.len() / row_bytes;
        let piece = SpooledRows { first_position, rows, cols, at: spool.bytes };
        spool.keep((layer, place), piece, |file| file.write_all(values)).map_err(|error| Self::unkept(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More rows than fit into a message, of two layers, one of them computed twice.
    #[test]
    fn a_folder_of_another_machine_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = Capture::new(folder.path(), CaptureOptions::default(), 3).unwrap().recipe().content;
        let place = |origin| Capture::copied(&recipe, 3, origin).unwrap().folder;
        assert_eq!(place(RecipeOrigin::SameMachine), std::path::absolute(folder.path()).unwrap());
        assert_eq!(place(RecipeOrigin::OtherMachine), std::path::absolute(std::env::temp_dir()).unwrap());
    }

    #[test]
    fn what_copies_give_is_written_as_if_it_had_been_kept_here() {
        let folder = tempfile::tempdir().unwrap();
        let options = CaptureOptions { phases: Phases::Decode, ..CaptureOptions::default() };
        let own = Capture::new(folder.path(), options.clone(), 3).unwrap();
        let expected = Capture::new(folder.path(), options, 3).unwrap();
        let copies =
            [0, 1].map(|_| Capture::copied(&own.recipe().content, 3, RecipeOrigin::SameMachine).unwrap());
        assert!(copies.iter().all(|copy| copy.layers == (0..3) && copy.options.phases == Phases::Decode));
        let (cols, rows) = (100_000, 7);
        let bytes = |from: usize| -> Vec<u8> {
            (0..rows * cols).flat_map(|value| ((value + from) as f32).to_le_bytes()).collect()
        };
        for (copy, layers) in copies.iter().zip([0..2, 2..3]) {
            for layer in layers {
                for (first_position, from) in [(0, layer), (5, 2 * layer + 1)] {
                    for capture in [copy, &expected] {
                        let mut spool = capture.spool.lock().unwrap();
                        let piece = SpooledRows { first_position, rows, cols, at: spool.bytes };
                        let place = (layer, Checkpoint::LayerOut);
                        spool.keep(place, piece, |file| file.write_all(&bytes(from))).unwrap();
                    }
                }
            }
        }
        let mut count = 0;
        for copy in &copies {
            for _ in 0..2 {
                // The second time there are no rows left.
                copy.give(&mut |piece| {
                    count += 1;
                    assert!(piece.len() <= PIECE + HEAD, "{}", piece.len());
                    assert!(own.take(&piece[..piece.len() - 1]).is_err());
                    own.take(piece)
                })
                .unwrap();
            }
        }
        assert_eq!(count, 3 * 2 * 4, "two rows at once");
        let tokens: Vec<u32> = (0..12).collect();
        let [mut made, mut wanted] = [Vec::new(), Vec::new()];
        assert_eq!(own.write(&tokens, &mut made).unwrap(), expected.write(&tokens, &mut wanted).unwrap());
        assert!(made == wanted && made.len() > 12 * 3 * cols * 4);
    }
}
