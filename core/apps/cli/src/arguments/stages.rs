//! Arguments of commands that may run a model in stages, and the process that is one of them.

use crate::failure::Failure;
use clap::Args;
use menagerie::open::{StageLauncher, StageOptions, StageProbe, StageSplit, StageStart};
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// What tells a process that it is a stage, and which: set by the process that starts it, which has the same arguments.
pub(crate) const VARIABLE: &str = "MENAGERIE_STAGE_START";

/// How a model is split.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StageArguments {
    /// Split the model into N stages on threads of this process, each with a part of the layers; the result is the same, bit
    /// for bit
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with = "stage_processes", help_heading = "Stages")]
    stages: Option<u16>,
    /// Split the model into N stages, each a process that reads the weights of its layers only
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Stages")]
    stage_processes: Option<u16>,
    /// The layers of each stage, e.g. 0-7,8-15 [default: such that the largest has as few bytes as can be]
    #[arg(long, hide_short_help = true, value_name = "FIRST-LAST", value_delimiter = ',', value_parser = layers, help_heading = "Stages")]
    stage_layers: Vec<Range<usize>>,
    /// Longest time that a step may take, in seconds: a stage that is stopped is noticed after it
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Stages")]
    stage_deadline: u64,
    /// Do not compare the stages with the whole model on a few tokens before they are used
    #[arg(long, hide_short_help = true, help_heading = "Stages")]
    no_stage_probe: bool,
}

fn layers(text: &str) -> Result<Range<usize>, String> {
    let number =
        |text: &str| text.trim().parse::<usize>().map_err(|_| format!("`{text}` is no layer; e.g. 0-7"));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if last < first {
        return Err(format!("the last layer, {last}, is before the first, {first}"));
    }
    let end = last.checked_add(1).ok_or("there are not so many layers")?;
    Ok(first..end)
}

impl StageArguments {
    /// How the model is split, where it is.
    pub(crate) fn options(&self) -> Result<Option<StageOptions>, Failure> {
        let given = self.stages.or(self.stage_processes).map(usize::from);
        let split = match (given, self.stage_layers.as_slice()) {
            (None, []) => return Ok(None),
            (Some(count), []) => StageSplit::Count(count),
            (Some(count), ranges) if count != ranges.len() => {
                return Err(Failure::Usage(format!(
                    "--stage-layers names {} stages, and {count} were asked for",
                    ranges.len()
                )));
            }
            (_, ranges) => StageSplit::Layers(ranges.to_vec()),
        };
        let options = StageOptions::count(1)
            .with_split(split)
            .with_deadline(Duration::from_secs(self.stage_deadline))
            .with_probe(if self.no_stage_probe { StageProbe::Never } else { StageProbe::default() });
        Ok(Some(match self.stage_processes {
            None => options,
            Some(_) => options.in_processes(launcher()),
        }))
    }
}

/// Starts this program again with the same arguments.
fn launcher() -> StageLauncher {
    StageLauncher(Arc::new(|start: &StageStart| {
        let program =
            std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
        let start = serde_json::to_string(start).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).env(VARIABLE, start);
        Ok(command)
    }))
}

/// Which stage this process is, if it is one.
pub(crate) fn stage_of_process() -> Result<Option<StageStart>, Failure> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let start = serde_json::from_str(&text.to_string_lossy());
    start.map(Some).map_err(|error| {
        Failure::about(VARIABLE, error).with_help("it is set by menagerie for its stages: unset it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_given_by_the_first_and_the_last() {
        assert_eq!(layers("0-7").unwrap(), 0..8);
        assert_eq!(layers("3").unwrap(), 3..4);
        assert!(layers("7-3").unwrap_err().contains("before the first"));
        assert!(layers("x-3").unwrap_err().contains("no layer"));
    }
}
