//! `cluster plan MODEL`: which node should compute which layers.

use super::joining::joined;
use super::layer_sizes::{StateRoomRequest, layer_sizes};
use super::status::ranges;
use crate::arguments::cluster::NodeArguments;
use crate::arguments::model::KvTypeArgument;
use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::CommandContext;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::assembly::open_model;
use menagerie::cluster::{
    ClusterPlan, ExpectedSpeed, NodeMeasure, NodesFile, PlannedStage, expected_speed, measured_nodes,
    plan_layers,
};
use menagerie::engine::KvType;
use menagerie::files::path_text;
use menagerie::open::{KeyOptions, ResolvedFile};
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time to wait for the stages' answers.
const ANSWERS: Duration = Duration::from_secs(3);
/// Milliseconds of a hop, if no file states them.
const HOP_MS: f64 = 0.1;
/// The most bytes of a file with nodes.
const MOST_BYTES: u64 = 1 << 20;

/// Plan which node computes which layers of a model, with the expected time of a token
///
/// The slowest stage becomes as fast as possible within the memory of the nodes. Memory and milliseconds per layer are those
/// that the stages of a running cluster measured, or of a file: {"nodes": [{"name": "a", "memory_bytes": 17179869184,
/// "ms_per_layer": 0.8}], "hop_ms": 0.1}. `bench` measures them: tokens per second on one machine are 1000 / (ms_per_layer x
/// layers).
#[derive(Args)]
pub(crate) struct ClusterPlanCommand {
    /// A .gguf file, a folder with config.json, or a model by name; only its sizes are read
    model: NameOrPath,
    #[command(flatten)]
    specs: SpecArguments,
    /// File with the nodes (JSON), instead of those of a running cluster
    #[arg(long, value_name = "FILE", required_unless_present = "cluster")]
    nodes: Option<PathBuf>,
    /// Name of the cluster; without --nodes its stages are asked for their memory and speed
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    node: NodeArguments,
    /// Context length in tokens for which every stage has memory
    #[arg(short = 'c', long, value_name = "TOKENS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    context: u32,
    /// Sequences at once for which every stage has memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    /// Element type of the KV cache
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE", default_value_t = KvTypeArgument::F16)]
    kv_type: KvTypeArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ClusterPlanCommand {
    pub(crate) fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let environment = self.specs.environment(&context.environment)?;
        let source = find_source(&self.model, &self.specs, &environment)?;
        let file = open_model(&source.path, environment.entries(), true)?;
        let resolved = ResolvedFile::new(file, &environment, source.keys(KeyOptions::default()))?;
        let room = StateRoomRequest {
            context: self.context as usize,
            sequences: usize::from(self.parallel),
            kv_type: KvType::from(self.kv_type),
        };
        let shape = layer_sizes(&resolved, room)?;
        let (nodes, hop_ms) = self.nodes(&source.path)?;
        let plan = plan_layers(&shape, &nodes)?;
        let speeds = self.speeds(&plan, hop_ms);
        let commands = self.commands(&plan);
        if self.json {
            return output::json(&as_json(&resolved.file_name(), &plan, &speeds, &commands));
        }
        print(&resolved.file_name(), &plan, &speeds, &commands)
    }

    /// The nodes, and the milliseconds of a hop.
    fn nodes(&self, model: &Path) -> Result<(Vec<NodeMeasure>, f64), Failure> {
        if let Some(path) = &self.nodes {
            let about = |error: &dyn std::fmt::Display| Failure::about(path_text(path), error);
            let mut text = String::new();
            let file = std::fs::File::open(path).map_err(|error| about(&error))?;
            file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| about(&error))?;
            let file = NodesFile::parse(&text).map_err(|reason| about(&reason))?;
            return Ok((file.nodes, file.hop_ms));
        }
        let cluster = self.cluster.as_deref().unwrap_or_default();
        let (_node, status) = joined(&self.node.options(cluster, &[]), ANSWERS)?;
        let name = model.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let nodes = measured_nodes(&status.stages, &name);
        Ok((nodes.map_err(|reason| Failure::Failed(format!("cluster {cluster}: {reason}")))?, HOP_MS))
    }

    /// The speed with one sequence, with as many as there are stages, with twice as many, and with --parallel.
    fn speeds(&self, plan: &ClusterPlan, hop_ms: f64) -> Vec<ExpectedSpeed> {
        let stages = plan.stages.len();
        let mut counts = vec![1, stages, 2 * stages, usize::from(self.parallel)];
        counts.sort_unstable();
        counts.dedup();
        counts.into_iter().map(|sequences| expected_speed(&plan.stages, hop_ms, sequences)).collect()
    }

    /// The command that starts each stage.
    fn commands(&self, plan: &ClusterPlan) -> Vec<String> {
        let (model, cluster) = (path_text(self.model.path()), self.cluster.as_deref().unwrap_or("NAME"));
        let first = plan.stages.first().map_or("HOST", |stage| stage.node.as_str());
        let command = |(index, stage): (usize, &PlannedStage)| {
            let layers = ranges(std::slice::from_ref(&stage.layers));
            let connect = if index == 0 { String::new() } else { format!(" --connect {first}:7447") };
            format!(
                "menagerie stage {model} --cluster {cluster} --layers {layers} --listen {}:7447{connect} --tls-dir DIR",
                stage.node
            )
        };
        plan.stages.iter().enumerate().map(command).collect()
    }
}

fn print(
    file: &str,
    plan: &ClusterPlan,
    speeds: &[ExpectedSpeed],
    commands: &[String],
) -> Result<(), Failure> {
    output::line(file)?;
    let row = |(index, stage): (usize, &PlannedStage)| {
        vec![
            index.to_string(),
            stage.node.clone(),
            ranges(std::slice::from_ref(&stage.layers)),
            output::bytes(stage.bytes),
            output::bytes(stage.memory_bytes),
            format!("{:.2}", stage.ms_per_token),
        ]
    };
    let rows: Vec<Vec<String>> = plan.stages.iter().enumerate().map(row).collect();
    output::table(&["stage", "node", "layers", "needs", "has", "ms/token"], &rows)?;
    output::line("\nexpected")?;
    let row = |speed: &ExpectedSpeed| {
        vec![
            speed.sequences.to_string(),
            format!("{:.2}", speed.ms_per_token),
            format!("{:.2}", speed.tokens_per_second),
            format!("{:.0} %", speed.idle * 100.0),
        ]
    };
    let rows: Vec<Vec<String>> = speeds.iter().map(row).collect();
    output::table(&["sequences", "ms per token of each", "tokens/s of all", "idle"], &rows)?;
    output::line("\nstart")?;
    commands.iter().try_for_each(|command| output::line(&format!("  {command}")))
}

fn as_json(file: &str, plan: &ClusterPlan, speeds: &[ExpectedSpeed], commands: &[String]) -> Value {
    let stage = |(stage, command): (&PlannedStage, &String)| {
        json!({
            "node": stage.node, "layers": [stage.layers.start, stage.layers.end], "bytes": stage.bytes,
            "memory_bytes": stage.memory_bytes, "ms_per_token": stage.ms_per_token, "command": command,
        })
    };
    let speed = |speed: &ExpectedSpeed| {
        json!({
            "sequences": speed.sequences, "ms_per_token": speed.ms_per_token,
            "tokens_per_second": speed.tokens_per_second, "idle": speed.idle,
        })
    };
    json!({
        "file": file,
        "stages": plan.stages.iter().zip(commands).map(stage).collect::<Vec<_>>(),
        "expected": speeds.iter().map(speed).collect::<Vec<_>>(),
    })
}
