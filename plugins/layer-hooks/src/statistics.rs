//! [`Statistics`]: how large rows are, layer by layer, in a file.

use menagerie_plugin::{
    Build, Component, Error, LayerCall, LayerObserver, LogLevel, Phase, Result, log, options,
};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

options! {
    /// Options of `statistics`.
    pub struct StatisticsOptions {
        /// The file that is written when the model is let go: a table, its columns between tabs.
        file: String = Required,
    }
}

/// Sizes of the rows that a layer left.
#[derive(Clone, Debug, Default)]
struct Layer {
    prefill: u64,
    decode: u64,
    /// The sum of the rows' roots of the mean square.
    sizes: f64,
    largest: f32,
    /// The token of the row that has it.
    token: Option<u32>,
}

/// Counts the rows after every layer and keeps how large they are; writes a table when it ends.
#[derive(Debug)]
pub struct Statistics {
    file: PathBuf,
    layers: Mutex<Vec<Layer>>,
}

impl Statistics {
    /// A line per layer: rows of prompts, rows of what was generated, the mean of their sizes, the largest number, and the id of
    /// the token whose row has it.
    fn table(&self) -> String {
        let mut table = "layer\tprefill\tdecode\tsize\tlargest\ttoken\n".to_owned();
        let layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, layer) in layers.iter().enumerate() {
            let Layer { prefill, decode, sizes, largest, token } = layer;
            let token = token.map_or("-".to_owned(), |id| id.to_string());
            let mean = sizes / (prefill + decode).max(1) as f64;
            // Writing to a string does not fail.
            let _ = writeln!(table, "{index}\t{prefill}\t{decode}\t{mean}\t{largest}\t{token}");
        }
        table
    }

    /// Writes the whole table, or nothing.
    fn write(&self) -> io::Result<()> {
        let mut unfinished = self.file.clone().into_os_string();
        unfinished.push(format!(".{}.unfinished", std::process::id()));
        let written = fs::write(&unfinished, self.table()).and_then(|()| fs::rename(&unfinished, &self.file));
        if written.is_err() {
            // What cannot be removed was not made.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

impl Component for Statistics {
    const NAME: &'static str = "statistics";
    const DOC: &'static str = "Writes how many rows each layer gave, and how large they were, to a file.";
    type Options = StatisticsOptions;

    fn create(options: StatisticsOptions, build: &mut Build) -> Result<Self> {
        let file = PathBuf::from(options.file);
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let text = format!("file = {}: the folder {} does not exist", file.display(), folder.display());
            return Err(Error::new(text));
        }
        if file.file_name().is_none() || file.is_dir() {
            return Err(Error::new(format!("file = {}: expected the name of a file", file.display())));
        }
        Ok(Self { file, layers: Mutex::new(vec![Layer::default(); build.layers()]) })
    }
}

impl LayerObserver for Statistics {
    fn observe(&self, call: LayerCall) -> Result<()> {
        let LayerCall { x, layer, sequences, token_ids, .. } = call;
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = layers.len();
        let layer = layers.get_mut(layer);
        let layer = layer.ok_or_else(|| Error::new(format!("the model has {known} layers, not more")))?;
        for sequence in sequences.iter() {
            let count = match sequence.phase() {
                Phase::Prefill => &mut layer.prefill,
                Phase::Decode => &mut layer.decode,
            };
            *count += sequence.rows().len() as u64;
            for index in sequence.rows() {
                let row = x.row(index);
                let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
                layer.sizes += (squares / row.len().max(1) as f64).sqrt();
                let largest = row.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
                if largest > layer.largest {
                    layer.largest = largest;
                    // Rows that were given in the place of tokens have none.
                    layer.token = token_ids.and_then(|ids| ids.get(index).copied());
                }
            }
        }
        Ok(())
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if let Err(error) = self.write() {
            log(LogLevel::Error, &format!("statistics: {}: {error}", self.file.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_plugin::testing::{self, Feed, Setup};

    #[test]
    fn a_table_is_written_at_the_end() {
        let file = std::env::temp_dir().join(format!("menagerie-statistics-{}.tsv", std::process::id()));
        let component = testing::layer_observer::<Statistics>();
        let given = Setup::new(2).layer(1, 2).option("file", file.to_str().unwrap());
        let mut model = given.create(&component).unwrap();
        model.step(&[Feed::new(0, &[3.0, 3.0, -4.0, 4.0]), Feed::new(1, &[1.0, 1.0])]).unwrap();
        model.step(&[Feed::new(0, &[0.0, 0.0])]).unwrap();
        assert!(!file.exists());
        drop(model);
        let table = fs::read_to_string(&file).unwrap();
        assert_eq!(
            table,
            "layer\tprefill\tdecode\tsize\tlargest\ttoken\n0\t0\t0\t0\t0\t-\n1\t3\t1\t2\t4\t7\n"
        );
        for outcome in testing::check(&component, &given) {
            assert!(outcome.fault.is_none(), "{outcome}");
        }
        fs::remove_file(&file).unwrap();
        let nowhere = given.option("file", "/nowhere/at/all.tsv").create(&component);
        assert!(nowhere.unwrap_err().to_string().contains("the folder /nowhere/at does not exist"));
    }
}
