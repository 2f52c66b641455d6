//! [`BatchOutput`]: where the results of `batch` go.

use crate::failure::Failure;
use crate::output;
use crate::output::output_file;
use menagerie_openai::{EarlierResults, LineResult, ResultFile};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// A result file, or an output that does not keep results.
pub(crate) enum BatchOutput {
    /// A file, which can be continued after a crash.
    File(ResultFile),
    /// Standard output, a device or a pipe.
    Unkept(UnkeptOutput),
}

/// An output that does not keep results.
pub(crate) struct UnkeptOutput {
    /// A device or a pipe, and its name; `None` is standard output.
    device: Option<(File, String)>,
    /// The results of this run, by id.
    done: HashMap<String, LineResult>,
}

impl BatchOutput {
    /// Opens an output, `-` for standard output. Results in a file are kept as [`ResultFile::open`] says.
    ///
    /// # Errors
    /// As [`ResultFile::open`]; a device cannot be opened.
    pub(crate) fn open(
        path: &Path,
        made: &Map<String, Value>,
        earlier: EarlierResults,
    ) -> Result<Self, Failure> {
        let unkept = |device| Ok(Self::Unkept(UnkeptOutput { device, done: HashMap::new() }));
        if path.as_os_str() == "-" {
            return unkept(None);
        }
        if output_file::is_device(path) {
            let name = path.display().to_string();
            let device = File::options().write(true).open(path);
            let device = device.map_err(|error| Failure::about(&name, error))?;
            return unkept(Some((device, name)));
        }
        Ok(Self::File(ResultFile::open(path, made, earlier)?))
    }

    /// The lines that have a result, by id.
    pub(crate) fn done(&self) -> &HashMap<String, LineResult> {
        match self {
            Self::File(file) => file.done(),
            Self::Unkept(output) => &output.done,
        }
    }

    /// Whether failed lines are computed again.
    pub(crate) fn retries(&self) -> bool {
        matches!(self, Self::File(file) if file.retries())
    }

    /// The numbers of answered and failed lines in the output.
    pub(crate) fn counts(&self) -> [usize; 2] {
        let answered = self.done().values().filter(|line| line.answered).count();
        [answered, self.done().len() - answered]
    }

    /// Writes a result: one line in one write.
    ///
    /// # Errors
    /// The output cannot be written. A file may then end with an incomplete line, which the next run removes.
    pub(crate) fn write(&mut self, result: &Value) -> Result<(), Failure> {
        match self {
            Self::File(file) => Ok(file.write(result)?),
            Self::Unkept(output) => output.write(result),
        }
    }

    /// Syncs a file to disk, and replaces failures with the results that were computed again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File(file) => Ok(file.finish()?),
            Self::Unkept(_) => Ok(()),
        }
    }
}

impl UnkeptOutput {
    fn write(&mut self, result: &Value) -> Result<(), Failure> {
        let line = format!("{result}\n");
        match &mut self.device {
            None => output::json_text(&line)?,
            Some((device, name)) => device.write_all(line.as_bytes()).map_err(|error| {
                if error.kind() == ErrorKind::BrokenPipe {
                    return Failure::OutputClosed;
                }
                Failure::about(&*name, error)
            })?,
        }
        self.done.extend(LineResult::of(result));
        Ok(())
    }
}
