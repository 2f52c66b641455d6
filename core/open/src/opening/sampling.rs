//! The defaults of sampling that a file recommends.

use crate::error::LoadError;
use crate::notice::Notice;
use crate::resolved::ResolvedFile;
use menagerie_engine::SamplingOptions;

impl ResolvedFile {
    /// llama.cpp's defaults of sampling with the values that the file recommends, and notices of recommendations that
    /// have no effect.
    ///
    /// # Errors
    /// A key of the file has the wrong type.
    pub fn sampling(&self) -> Result<(SamplingOptions, Vec<Notice>), LoadError> {
        let mut notices = Vec::new();
        let options = defaults(self, &mut notices)?;
        Ok((options, notices))
    }
}

fn defaults(resolved: &ResolvedFile, notices: &mut Vec<Notice>) -> Result<SamplingOptions, LoadError> {
    let stated = resolved.file.sampling_defaults()?;
    let mut options = SamplingOptions::default();
    let set = |target: &mut f32, value: Option<f32>| {
        if let Some(value) = value {
            *target = value;
        }
    };
    set(&mut options.temperature, stated.temperature);
    set(&mut options.top_p, stated.top_p);
    set(&mut options.min_p, stated.min_p);
    set(&mut options.xtc_probability, stated.xtc_probability);
    set(&mut options.xtc_threshold, stated.xtc_threshold);
    set(&mut options.repeat_penalty, stated.penalty_repeat);
    options.repeat_last_n = stated.penalty_last_n.unwrap_or(options.repeat_last_n);
    // llama.cpp reads 0 and negative numbers as "all".
    options.top_k = stated.top_k.map_or(options.top_k, |k| usize::try_from(k).unwrap_or(0));
    let unused = [
        ("general.sampling.mirostat", stated.mirostat.is_some_and(|mode| mode != 0)),
        ("general.sampling.sequence", stated.sequence.is_some()),
    ];
    for (key, _) in unused.into_iter().filter(|(_, stated)| *stated) {
        notices.push(Notice::Note(format!(
            "{key} of the file is not followed: the usual sampling chain is used"
        )));
    }
    if let Err(error) = options.check() {
        notices.push(Notice::Note(format!("the file's sampling defaults are not used: {error}")));
        return Ok(SamplingOptions::default());
    }
    Ok(options)
}
