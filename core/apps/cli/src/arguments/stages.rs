//! Arguments of the commands that can run a model in stages, and the process that serves a stage.

#[cfg(feature = "cluster")]
use crate::arguments::cluster::ClusterArguments;
#[cfg(feature = "cluster")]
use crate::arguments::plugins::plugin_names;
use crate::failure::Failure;
use clap::Args;
use menagerie::open::{
    StageLauncher, StageOptions, StageOverlap, StageProbe, StageRestart, StageSplit, StageStart,
};
use menagerie::registry::Environment;
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Environment variable that makes a process serve a stage; set by the process that starts it with the same arguments.
pub(crate) const VARIABLE: &str = "MENAGERIE_STAGE_START";

/// How a model is split into stages.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StageArguments {
    /// Split the model into N stages, each with some of the layers, on threads of this process; the results are
    /// bit-identical
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with = "stage_processes", help_heading = "Stages")]
    stages: Option<u16>,
    /// Split the model into N stages, each in its own process that loads only the weights of its layers
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Stages")]
    stage_processes: Option<u16>,
    /// The layers of each stage, e.g. 0-7,8-15 [default: balanced by the size of the weights]
    #[arg(long, hide_short_help = true, value_name = "FIRST-LAST", value_delimiter = ',', value_parser = layers, help_heading = "Stages")]
    stage_layers: Vec<Range<usize>>,
    /// Longest time that a step may take, in seconds; a stage that takes longer counts as failed
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Stages")]
    stage_deadline: u64,
    /// Most steps that the stages compute at the same time, each with other sequences [default: one for each stage process
    /// if this machine has cores for the threads of all of them, otherwise 1]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Stages")]
    stage_overlap: Option<u16>,
    /// Do not start the processes of stages again after one of them died or did not answer: requests then fail
    #[arg(long, hide_short_help = true, requires = "stage_processes", help_heading = "Stages")]
    no_stage_restart: bool,
    /// Skip the comparison of the stages with the whole model on a few tokens at the start
    #[arg(long, hide_short_help = true, help_heading = "Stages")]
    no_stage_probe: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Let other machines connect without certificates: everybody who reaches the address can read and change prompts
    #[cfg(feature = "cluster")]
    #[arg(long, hide_short_help = true, requires = "cluster", help_heading = "Cluster")]
    insecure: bool,
}

/// Parses FIRST-LAST.
pub(crate) fn layers(text: &str) -> Result<Range<usize>, String> {
    let number =
        |text: &str| text.trim().parse::<usize>().map_err(|_| format!("`{text}` is not a layer; e.g. 0-7"));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if last < first {
        return Err(format!("the last layer, {last}, comes before the first, {first}"));
    }
    let end = last.checked_add(1).ok_or("the number of the layer is too large")?;
    Ok(first..end)
}

impl StageArguments {
    /// How the model is split; `None` if it is not.
    pub(crate) fn options(&self, installed: &Environment) -> Result<Option<StageOptions>, Failure> {
        match self.elsewhere(installed)? {
            Some(elsewhere) => {
                let deadline = Duration::from_secs(self.stage_deadline);
                Ok(Some(elsewhere.with_deadline(deadline).with_overlap(self.overlap())))
            }
            None => self.here(),
        }
    }

    /// Stages of a cluster, if one is given.
    #[cfg(feature = "cluster")]
    fn elsewhere(&self, installed: &Environment) -> Result<Option<StageOptions>, Failure> {
        let stages = self.cluster.stages(plugin_names(installed), self.insecure);
        let is_split = self.stages.or(self.stage_processes).is_some() || !self.stage_layers.is_empty();
        if stages.is_some() && (is_split || self.no_stage_probe) {
            let reason = "the stages of a cluster determine the split: use --cluster without --stages, --stage-processes, \
                          --stage-layers and --no-stage-probe";
            return Err(Failure::Usage(reason.to_owned()));
        }
        Ok(stages)
    }

    /// This build has no clusters.
    #[cfg(not(feature = "cluster"))]
    fn elsewhere(&self, _installed: &Environment) -> Result<Option<StageOptions>, Failure> {
        Ok(None)
    }

    fn overlap(&self) -> StageOverlap {
        self.stage_overlap.map_or(StageOverlap::default(), |most| StageOverlap::Steps(most.into()))
    }

    /// Stages that this process starts.
    fn here(&self) -> Result<Option<StageOptions>, Failure> {
        let given = self.stages.or(self.stage_processes).map(usize::from);
        let split = match (given, self.stage_layers.as_slice()) {
            (None, []) => return Ok(None),
            (Some(count), []) => StageSplit::Count(count),
            (Some(count), ranges) if count != ranges.len() => {
                return Err(Failure::Usage(format!(
                    "--stage-layers has {} ranges, but {count} stages were requested",
                    ranges.len()
                )));
            }
            (_, ranges) => StageSplit::Layers(ranges.to_vec()),
        };
        let options = StageOptions::count(1)
            .with_split(split)
            .with_deadline(Duration::from_secs(self.stage_deadline))
            .with_overlap(self.overlap())
            .with_restart(if self.no_stage_restart { StageRestart::Never } else { StageRestart::default() })
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
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let start = serde_json::to_string(start).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).env(VARIABLE, start);
        Ok(command)
    }))
}

/// The stage that this process serves, if any.
pub(crate) fn stage_of_process() -> Result<Option<StageStart>, Failure> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let start = serde_json::from_str(&text.to_string_lossy());
    start.map(Some).map_err(|error| {
        Failure::about(VARIABLE, error).with_help("unset it: menagerie sets it only for its stage processes")
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
        assert!(layers("x-3").unwrap_err().contains("not a layer"));
    }
}
