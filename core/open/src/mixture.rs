//! [`LoadedMixture`]: feed-forwards of several models, or of one with adapters, as experts of a model; and how they are
//! loaded.
//!
//! What a mixture computes is AnyMoE's (Buehler, 2024; mistral.rs): in the chosen layers the model's feed-forward is the
//! first of several, of which a gate takes one. The others come from further files through the same assembly, and are
//! mapped and quantized as the model itself.

mod experts;
mod gate_file;
mod training;

pub use gate_file::{GateFile, LayerGate};
pub use training::{GateExample, GateRows, GateScore, GateTrainer, GateTrainingOptions};

use crate::adapters::MixtureRoles;
use crate::error::LoadError;
use crate::mixture_options::{GivenGate, GivenMixture};
use crate::notice::Notice;
use crate::options::LoadOptions;
use crate::resolved::ResolvedFile;
use experts::{Experts, LoadedExpert, Taking};
use menagerie_assembly::is_stack;
use menagerie_model::components::{ChooseBy, LayerMixture, MixtureGate, Mixtures};
use menagerie_model::{Compute, DenseLinear, FeedForward, ModelError, Weight, WeightGuard, WeightShape};
use menagerie_registry::Environment;
use menagerie_spec::{MixtureChoice, layer_ranges};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A mixture whose files are open and whose experts are built.
pub(crate) struct LoadedMixture {
    /// What goes around the model's feed-forwards.
    pub(crate) layers: Mixtures,
    /// Bytes of the experts beside the model's own.
    pub(crate) bytes: u64,
    /// Fail once the files are not what was opened.
    pub(crate) guards: Vec<WeightGuard>,
    /// The tensors that are parts of it.
    pub(crate) roles: MixtureRoles,
    /// What must be said at each load.
    pub(crate) notice: Notice,
}

/// What a mixture is put into, and how everything is loaded.
#[derive(Clone, Copy)]
pub(crate) struct MixtureBase<'a> {
    pub(crate) resolved: &'a ResolvedFile,
    pub(crate) environment: &'a Environment,
    pub(crate) options: &'a LoadOptions,
    pub(crate) compute: &'a Compute,
}

impl MixtureBase<'_> {
    fn fault(&self, reason: String) -> LoadError {
        LoadError::Mixture { file: self.resolved.file_name(), reason }
    }

    /// The layers that are meant, which must have feed-forwards that can be experts.
    fn layers(&self, given: &GivenMixture) -> Result<Vec<usize>, LoadError> {
        let config = self.resolved.config();
        let count = config.layers.len();
        if count > config.blocks() {
            return Err(
                self.fault("it runs its blocks several times; such a model takes no mixture".to_owned())
            );
        }
        let layers = given.layers.clone().unwrap_or_else(|| (0..count).collect());
        if let Some(layer) = layers.iter().find(|layer| **layer >= count) {
            let last = count.saturating_sub(1);
            return Err(self.fault(format!("there is no layer {layer}; its layers are 0 to {last}")));
        }
        let own = |layer: &usize| config.layers.get(*layer)?.feed_forward.as_ref();
        let unfit = |kind: Option<&'static str>| {
            let of = layers.iter().filter(|layer| {
                let part = own(layer);
                part.is_none_or(|part| is_stack(part, config.embedding_length))
                    && part.map(|part| part.kind().name) == kind
            });
            layer_ranges(&of.copied().collect())
        };
        let bad =
            layers.iter().find(|layer| own(layer).is_none_or(|part| is_stack(part, config.embedding_length)));
        let Some(bad) = bad else { return Ok(layers) };
        let kind = own(bad).map(|part| part.kind().name);
        let what = match kind {
            Some(kind) => format!("a feed-forward of kind `{kind}`, a mixture of experts already"),
            None => "no feed-forward".to_owned(),
        };
        let place = unfit(kind);
        Err(self.fault(format!("{place} has {what}; name the other layers in [mixture] layers = [..]")))
    }

    fn gate(
        &self,
        given: &GivenMixture,
        layers: &[usize],
    ) -> Result<BTreeMap<usize, MixtureGate>, LoadError> {
        let path = match &given.gate {
            GivenGate::Always(expert) => {
                return Ok(layers.iter().map(|layer| (*layer, MixtureGate::Always(*expert))).collect());
            }
            GivenGate::File(path) => path,
        };
        let width = self.resolved.config().embedding_length;
        let file = GateFile::read(path)?;
        file.check(path, layers, [given.experts.len() + 1, width])?;
        let by = match given.choose {
            MixtureChoice::Prompt => ChooseBy::Prompt,
            MixtureChoice::Token => ChooseBy::Token,
        };
        let taken = |(layer, gate): (&usize, &LayerGate)| {
            let product = self.product(*layer, gate, width)?;
            Ok((*layer, MixtureGate::Learned { product, by }))
        };
        let made = file.layers.iter().map(taken).collect::<Result<_, ModelError>>();
        made.map_err(|error| LoadError::Mixture {
            file: path.display().to_string(),
            reason: error.to_string(),
        })
    }

    /// A gate is computed in f32, whatever the weights are stored in.
    fn product(&self, layer: usize, gate: &LayerGate, width: usize) -> Result<DenseLinear, ModelError> {
        let Compute { backend, arithmetic, .. } = self.compute;
        let name = format!("moe_gate.{layer}.weight");
        let shape = WeightShape { count: 1, rows: gate.bias.len(), cols: width };
        let weight = backend.matrix(&Weight::from_f32(&name, &gate.weight, shape)?, *arithmetic)?;
        let bias = backend.vector(&format!("moe_gate.{layer}.bias"), gate.bias.clone())?;
        DenseLinear::new(weight, Some(bias))
    }
}

impl LoadedMixture {
    /// Opens the files of a mixture and builds its experts.
    ///
    /// # Errors
    /// What is wrong with a file, or does not fit the model: file, layer and tensor are named.
    pub(crate) fn load(given: &GivenMixture, base: MixtureBase) -> Result<Self, LoadError> {
        let all = 0..base.resolved.config().layers.len();
        Self::of_layers(given, base, (&all, Taking::Whole))
    }

    /// The same for a stage of the model, of whose layers alone the experts are built.
    ///
    /// # Errors
    /// As [`Self::load`].
    #[cfg(unix)]
    pub(crate) fn of_stage(
        given: &GivenMixture,
        base: MixtureBase,
        layers: &Range<usize>,
    ) -> Result<Self, LoadError> {
        Self::of_layers(given, base, (layers, Taking::Stage))
    }

    fn of_layers(
        given: &GivenMixture,
        base: MixtureBase,
        (range, taking): (&Range<usize>, Taking),
    ) -> Result<Self, LoadError> {
        let layers = base.layers(given)?;
        let gates = base.gate(given, &layers)?;
        let own: Vec<usize> = layers.iter().copied().filter(|layer| range.contains(layer)).collect();
        let roles = MixtureRoles::of(base.resolved.config(), &layers);
        let maker =
            Experts { base, layers: &own, taking, roles: &roles, components: base.environment.components() };
        let mut parts: BTreeMap<usize, Vec<Arc<dyn FeedForward>>> = BTreeMap::new();
        let (mut bytes, mut guards) = (0u64, Vec::new());
        for expert in &given.experts {
            let LoadedExpert { parts: own, bytes: more, guard } = maker.load(expert)?;
            own.into_iter().for_each(|(layer, part)| parts.entry(layer).or_default().push(part));
            bytes = bytes.saturating_add(more);
            guards.extend(guard);
        }
        let joined = gates.into_iter().filter(|(layer, _)| range.contains(layer)).map(|(layer, gate)| {
            let others = parts.remove(&layer).unwrap_or_default();
            (layer, LayerMixture { others, gate })
        });
        let mixtures = Mixtures::new(joined.collect());
        let notice = Notice::Note(format!(
            "the feed-forwards of {} are mixtures of {}: {}",
            layer_ranges(&layers.iter().copied().collect()),
            given.experts.len() + 1,
            given.names().join("; ")
        ));
        Ok(Self { layers: mixtures, bytes, guards, roles, notice })
    }
}
