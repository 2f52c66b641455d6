//! `--capture WHAT FILE`: activations of a run, written in the format that `check --reference` reads.

use crate::arguments::layer_range::layer_range;
use crate::failure::Failure;
use crate::output::output_file;
use crate::output::output_file::OutputFile;
use crate::screen::report;
use menagerie::engine::{Capture, CaptureOptions, PipelineHooks, TextPipeline};
use menagerie::model::{Checkpoint, LayerHook, Phases};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A capture under way, and the file that it goes to.
pub(crate) struct ActiveCapture {
    capture: Arc<Capture>,
    target: PathBuf,
    force: bool,
}

impl ActiveCapture {
    /// Parses the option and refuses a file that must not be written.
    pub(crate) fn ask(
        given: &[OsString],
        force: bool,
        model: &Path,
    ) -> Result<Option<CaptureRequest>, Failure> {
        let [what, file] = given else { return Ok(None) };
        let what = what.to_string_lossy();
        let options = options(&what).map_err(|fault| Failure::Usage(format!("--capture {what}: {fault}")))?;
        let target = PathBuf::from(file);
        output_file::may_write(&target, force, &[model])?;
        Ok(Some(CaptureRequest { options, target, force }))
    }

    /// Writes the captured activations of these tokens, including those of the model's stages.
    pub(crate) fn finish(self, pipeline: &TextPipeline, tokens: &[u32]) -> Result<(), Failure> {
        pipeline.settle()?;
        let about = |error: std::io::Error| Failure::about(self.target.display(), error);
        let mut file = OutputFile::create(&self.target, self.force, &[])?;
        let captured = self.capture.write(tokens, &mut file).map_err(about)?;
        file.commit()?;
        let (tensors, rows) = (captured.tensors, captured.rows);
        report::note(&format!(
            "{}: {} of {}",
            self.target.display(),
            crate::output::counted(tensors, "tensor"),
            crate::output::counted(rows, "row")
        ));
        Ok(())
    }
}

/// A parsed `--capture` option.
pub(crate) struct CaptureRequest {
    options: CaptureOptions,
    target: PathBuf,
    force: bool,
}

impl CaptureRequest {
    /// Starts to capture with these hooks.
    pub(crate) fn begin(self, layers: usize, hooks: &mut PipelineHooks) -> Result<ActiveCapture, Failure> {
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let capture = Capture::new(folder.unwrap_or(Path::new(".")), self.options, layers);
        let capture = Arc::new(capture.map_err(|error| Failure::about("--capture", error))?);
        hooks.layers.push(Arc::clone(&capture) as Arc<dyn LayerHook>);
        Ok(ActiveCapture { capture, target: self.target, force: self.force })
    }
}

/// Parses `layers=A-B,at=l_out+attn_out,phase=decode`; each part is optional.
fn options(text: &str) -> Result<CaptureOptions, String> {
    let mut options = CaptureOptions::default();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            format!("`{pair}` is not KEY=VALUE; the options are layers=A-B, at=PLACE|PLACE and phase=prefill")
        })?;
        match (key, value) {
            ("layers", "all") => options.layers = None,
            ("layers", layers) => options.layers = Some(layer_range(layers)?),
            ("at", places) => {
                let place = |name: &str| {
                    let known = Checkpoint::ALL.map(Checkpoint::name).join(", ");
                    Checkpoint::named(name)
                        .ok_or_else(|| format!("unknown place `{name}`; the places are {known}"))
                };
                options.places = places.split(['|', '+']).map(place).collect::<Result<_, _>>()?;
            }
            ("phase", "all") => options.phases = Phases::All,
            ("phase", "prefill") => options.phases = Phases::Prefill,
            ("phase", "decode") => options.phases = Phases::Decode,
            ("phase", other) => {
                return Err(format!("unknown phase `{other}`; the phases are prefill, decode and all"));
            }
            _ => return Err(format!("unknown option `{key}`; the options are layers, at and phase")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_described_by_pairs() {
        let found = options("layers=2-5,at=l_out|attn_out,phase=decode").unwrap();
        assert_eq!(found.layers, Some(2..=5));
        assert_eq!(found.places, [Checkpoint::LayerOut, Checkpoint::AttnOut]);
        assert_eq!(found.phases, Phases::Decode);
        assert_eq!(options("layers=all").unwrap(), CaptureOptions::default());
        for (text, words) in [
            ("layers", "KEY=VALUE"),
            ("layers=x", "`x` is not a layer"),
            ("at=l_in", "the places are attn_out, ffn_out, last_out, l_out"),
            ("phase=1", "prefill, decode"),
            ("rows=3", "unknown option `rows`"),
        ] {
            assert!(options(text).unwrap_err().contains(words), "{text}");
        }
    }
}
