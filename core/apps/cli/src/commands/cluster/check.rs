//! `cluster check MODEL`: whether the stages of a cluster compute what the whole model computes, bit by bit.

use super::joining::joined;
use super::status::ranges;
use crate::arguments::cluster::ClusterArguments;
use crate::arguments::model::ModelArguments;
use crate::arguments::plugins::plugin_names;
use crate::commands::CommandContext;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::TextPipeline;
use menagerie::cluster::{StageDescription, StageState};
use menagerie::engine::{Capture, CaptureOptions};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::model::LayerHook;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Time to wait for the stages' answers.
const ANSWERS: Duration = Duration::from_secs(3);

/// Compare the stages of a cluster with the whole model, or with another replica, bit by bit
///
/// Computes the same tokens on both sides and compares the rows after every layer and the logits. The stage whose rows differ
/// first is named: another processor, program or file is at fault there, or a defect. The whole model is mapped from its file
/// here, so it need not fit into memory, but is slow then; --against REPLICA compares with another replica instead.
#[derive(Args)]
pub(crate) struct ClusterCheckCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Let other machines connect without certificates: everybody who reaches the address can read and change prompts
    #[arg(long, hide_short_help = true, requires = "cluster", help_heading = "Cluster")]
    insecure: bool,
    /// Compare with this replica instead of the whole model on this machine
    #[arg(long, value_name = "NAME")]
    against: Option<String>,
    /// Number of tokens that are computed
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(2..=4096))]
    count: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What one side computed.
struct SideRows {
    /// The rows after each layer, as bytes.
    layers: Vec<Vec<u8>>,
    /// `[T, V]`, as bytes.
    logits: Vec<u8>,
    /// The stages, if the side has any.
    stages: Vec<StageDescription>,
}

/// A stage and whether it agrees.
struct StageVerdict {
    name: String,
    layers: Range<usize>,
    /// A hash of the rows after its last layer, on both sides.
    hashes: [u64; 2],
    /// The first of its layers whose rows differ.
    differs_at: Option<usize>,
}

impl ClusterCheckCommand {
    pub(crate) fn run(self, context: &CommandContext) -> Result<(), Failure> {
        if !self.cluster.is_given() {
            return Err(Failure::Usage("the cluster is missing: add --cluster NAME".to_owned()));
        }
        let own = self.side(Some(self.cluster.clone()), context)?;
        let reference = match &self.against {
            Some(replica) => self.side(Some(self.cluster.with_replica(replica)), context)?,
            None => self.side(None, context)?,
        };
        if own.layers.len() != reference.layers.len() || own.logits.len() != reference.logits.len() {
            return Err(Failure::Failed(
                "the two sides have different numbers of layers or logits".to_owned(),
            ));
        }
        let verdicts = verdicts(&own, &reference);
        let logits_agree = own.logits == reference.logits;
        let with =
            self.against.as_ref().map_or("the whole model".to_owned(), |name| format!("replica {name}"));
        let first = verdicts.iter().find(|verdict| verdict.differs_at.is_some());
        if self.json {
            output::json(&as_json(&verdicts, logits_agree, &with))?;
        } else {
            let rows: Vec<Vec<String>> = verdicts.iter().map(row).collect();
            output::table(&["layers", "stage", "hash of rows", "compared"], &rows)?;
        }
        match first {
            Some(verdict) => Err(Failure::Failed(format!(
                "{} differs from {with}: its rows after layer {} are the first that differ",
                verdict.name,
                verdict.differs_at.unwrap_or(verdict.layers.start)
            ))
            .with_help("compare program, processor and file there: `menagerie version`, `menagerie doctor`")),
            None if !logits_agree => {
                let last = verdicts.last().map_or("the last stage", |verdict| verdict.name.as_str());
                Err(Failure::Failed(format!(
                    "{last} differs from {with}: all rows agree, but its logits do not"
                )))
            }
            None if self.json => Ok(()),
            None => {
                output::line(&format!("all rows and logits of {} tokens are those of {with}", self.count))
            }
        }
    }

    /// Computes the tokens over the stages of a cluster, or with the whole model.
    fn side(&self, cluster: Option<ClusterArguments>, context: &CommandContext) -> Result<SideRows, Failure> {
        let installed = &context.environment;
        let stages =
            cluster.as_ref().and_then(|cluster| cluster.stages(plugin_names(installed), self.insecure));
        let arguments = self.model.in_stages(stages);
        let mut pipeline = arguments.opening(installed)?.open_text()?;
        let count = pipeline.engine().model.shape().n_layers;
        let folder = std::env::temp_dir();
        let capture = Capture::new(&folder, CaptureOptions::default(), count);
        let capture = Arc::new(capture.map_err(|error| Failure::about(folder.display(), error))?);
        pipeline.hooks_mut().layers.push(Arc::clone(&capture) as Arc<dyn LayerHook>);
        let tokens = self.tokens(&pipeline)?;
        let half = tokens.len() / 2;
        // A prompt in chunks and single tokens, or the whole prompt where chunks are not possible.
        let chunk = (!pipeline.engine().takes_whole_prompts()).then_some((half / 2).max(1));
        let options = LogitsOptions::default().with_chunk(chunk).with_decode_from(half.max(1));
        let computed = logits(&pipeline, &tokens, &options)?;
        pipeline.settle()?;
        let mut bytes = Vec::new();
        capture.write(&tokens, &mut bytes).map_err(|error| Failure::about("the captured rows", error))?;
        let stages = match cluster.and_then(|cluster| cluster.node_options(self.insecure)) {
            Some(options) => serving_here(joined(&options, ANSWERS)?.1.stages),
            None => Vec::new(),
        };
        let logits = computed.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(SideRows { layers: layers_of(&bytes, count)?, logits, stages })
    }

    /// Tokens spread over the vocabulary, the same on every machine.
    fn tokens(&self, pipeline: &TextPipeline) -> Result<Vec<u32>, Failure> {
        let (count, vocabulary) = (self.count as usize, pipeline.vocabulary().max(1));
        if count > pipeline.engine().context {
            let context = pipeline.engine().context;
            return Err(Failure::Usage(format!("--count {count}: the context has {context} tokens")));
        }
        Ok((0..count).map(|index| ((index * 7919 + 17) % vocabulary) as u32).collect())
    }
}

/// The rows after each layer, from a capture.
fn layers_of(bytes: &[u8], count: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let tensors = SafeTensors::deserialize(bytes)?;
    (0..count).map(|layer| Ok(tensors.tensor(&format!("l_out-{layer}"))?.data().to_vec())).collect()
}

/// The stages that serve this process, in order.
fn serving_here(stages: Vec<StageDescription>) -> Vec<StageDescription> {
    let own = format!("process {},", std::process::id());
    let is_own =
        |stage: &StageDescription| matches!(&stage.state, StageState::Serving(head) if head.contains(&own));
    let mut stages: Vec<StageDescription> = stages.into_iter().filter(is_own).collect();
    stages.sort_by_key(|stage| stage.first);
    stages
}

fn verdicts(own: &SideRows, reference: &SideRows) -> Vec<StageVerdict> {
    let whole = || vec![("the stages of the cluster".to_owned(), 0..own.layers.len())];
    let named = |stage: &StageDescription| {
        (format!("the stage with {stage}"), stage.first..stage.end.min(own.layers.len()))
    };
    let stages = if own.stages.is_empty() { whole() } else { own.stages.iter().map(named).collect() };
    let verdict = |(name, layers): (String, Range<usize>)| {
        let last = layers.end.saturating_sub(1);
        let hash = |side: &SideRows| side.layers.get(last).map_or(0, |rows| hash(rows));
        let differs_at = layers.clone().find(|&layer| own.layers[layer] != reference.layers[layer]);
        StageVerdict { name, hashes: [hash(own), hash(reference)], differs_at, layers }
    };
    stages.into_iter().map(verdict).collect()
}

/// FNV-1a with 64 bits, to show; rows themselves are compared.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn row(verdict: &StageVerdict) -> Vec<String> {
    let compared = match verdict.differs_at {
        None => "the same".to_owned(),
        Some(layer) => format!("differs from layer {layer} ({:016x})", verdict.hashes[1]),
    };
    vec![
        ranges(std::slice::from_ref(&verdict.layers)),
        verdict.name.clone(),
        format!("{:016x}", verdict.hashes[0]),
        compared,
    ]
}

fn as_json(verdicts: &[StageVerdict], logits_agree: bool, with: &str) -> Value {
    let stage = |verdict: &StageVerdict| {
        json!({
            "stage": verdict.name, "layers": [verdict.layers.start, verdict.layers.end],
            "hash": format!("{:016x}", verdict.hashes[0]), "reference_hash": format!("{:016x}", verdict.hashes[1]),
            "first_layer_that_differs": verdict.differs_at,
        })
    };
    json!({
        "compared_with": with,
        "stages": verdicts.iter().map(stage).collect::<Vec<_>>(),
        "logits_agree": logits_agree,
        "agree": logits_agree && verdicts.iter().all(|verdict| verdict.differs_at.is_none()),
    })
}
