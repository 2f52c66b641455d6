//! `stage MODEL`: serves some of the layers of a model to the other machines of a cluster.

use crate::arguments::cluster::{NodeArguments, cluster_failure, key_name};
use crate::arguments::model::ModelArguments;
use crate::arguments::plugins::plugin_names;
use crate::arguments::stages::layers;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::report;
use crate::{interrupt, output};
use clap::{ArgGroup, Args};
use menagerie::cluster::{
    AcceptedPipeline, ClusterNode, MemoryFigures, ServedStage, StageFigures, StageServer, StepFigures,
};
use menagerie::open::{ChainPlace, LoadedStage, StageShare, available_memory, byte_text};
use std::ops::Range;
use std::time::Duration;

/// Serve some of the layers of a model to the other machines of a cluster
///
/// Loads only the weights of its layers, announces itself in the cluster, and computes for one head after the other: `run`,
/// `chat`, `batch`, `bench`, `logits` and `serve` with --cluster. Together the stages of a replica must have every layer
/// once. All of them and the head need the model file and the same options.
///
/// A line is printed when the stage is ready. SIGTERM and Ctrl-C drain it: it accepts no further head, and ends once
/// nothing is computed, at the latest after --drain seconds; a second Ctrl-C ends it at once.
#[derive(Args)]
#[command(group(ArgGroup::new("share").required(true).args(["layers", "index"])))]
pub(crate) struct StageCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Name of the cluster
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    cluster: String,
    /// Address where other nodes reach this one (repeatable); port 0 is a free port [default: a free port of 127.0.0.1, for
    /// nodes on this machine]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Cluster")]
    listen: Vec<String>,
    #[command(flatten)]
    node: NodeArguments,
    /// The layers of this stage, e.g. 0-7
    #[arg(long, value_name = "FIRST-LAST", value_parser = layers)]
    layers: Option<Range<usize>>,
    /// Serve part I, counted from 0, of the parts that --of names; they have about as many bytes of weights
    #[arg(long, value_name = "I", requires = "of")]
    index: Option<usize>,
    /// Number of parts for --index
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "index")]
    of: Option<u16>,
    /// Name of the replica: the stages of a replica work together
    #[arg(long, value_name = "NAME", default_value = "main", help_heading = "Cluster")]
    replica: String,
    /// Longest time in seconds to wait for running requests when the stage is drained
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SECONDS",
        default_value_t = 30,
        help_heading = "Cluster"
    )]
    drain: u64,
}

impl Runnable for StageCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        // An address that cannot be used is refused before the model is loaded.
        let options = self.node.options(&self.cluster, &self.listen);
        let node = ClusterNode::join(&options).map_err(|error| cluster_failure(&error))?;
        let mut stage = self.model.opening(installed)?.open_stage(&self.share())?;
        let served = self.served(&stage, plugin_names(installed));
        let (name, replica) = (served.model.clone(), self.replica.clone());
        let (report, patience) = (Box::new(|text: &str| report::note(text)), Duration::from_secs(self.drain));
        let server = StageServer::announce(&node, served, figures(&stage), report, patience)
            .map_err(|error| cluster_failure(&error))?;
        let stop = interrupt::flag()?;
        let _orderly = interrupt::orderly()?;
        output::line(&format!(
            "layers {} of {} of {name} serve in cluster {} as replica {replica} at {}",
            server.describe().layer_range(),
            stage.all_layers(),
            self.cluster,
            node.endpoints().join(", ")
        ))?;
        server.serve(&stop, |pipeline| serve(&mut stage, pipeline));
        report::line("the stage is drained");
        Ok(())
    }
}

/// Serves a head until it ends.
fn serve(stage: &mut LoadedStage, pipeline: AcceptedPipeline) -> Result<(), String> {
    let AcceptedPipeline { head, names, index, credits, transport } = pipeline;
    report::line(&format!("stage {index} of {} for head {head}", names.len()));
    let place = ChainPlace { names, index, credits, cancelled: transport.gone() };
    let ended = stage.serve(place, Box::new(transport)).map_err(|error| error.to_string());
    match &ended {
        Ok(()) => report::line(&format!("head {head} has ended")),
        Err(reason) => report::line(&format!("head {head} has ended: {reason}")),
    }
    ended
}

impl StageCommand {
    fn share(&self) -> StageShare {
        match (&self.layers, self.index, self.of) {
            (None, Some(index), Some(of)) => StageShare::Part { index, of: usize::from(of) },
            (layers, _, _) => StageShare::Layers(layers.clone().unwrap_or_default()),
        }
    }

    fn served(&self, stage: &LoadedStage, plugins: Vec<String>) -> ServedStage {
        let identity = stage.identity();
        ServedStage {
            model: key_name(stage.file(), &identity.weights),
            replica: self.replica.clone(),
            identity,
            plugins,
            layers: stage.layers(),
            all_layers: stage.all_layers(),
        }
    }
}

/// The current figures of a stage.
fn figures(stage: &LoadedStage) -> Box<StageFigures> {
    let (meter, weights, states) = (stage.meter(), stage.weight_bytes(), stage.state_memory());
    let layers = stage.layers().len().max(1) as f64;
    report::line(&format!("{} of weights", byte_text(weights)));
    Box::new(move || {
        let counts = meter.counts();
        let steps = StepFigures {
            steps: counts.steps,
            rows: counts.rows,
            is_computing: counts.is_computing,
            requests: counts.requests,
            layer_ms: counts.single.map(|time| time.as_secs_f64() * 1e3 / layers),
        };
        (MemoryFigures { weights, states, free: available_memory() }, steps)
    })
}
