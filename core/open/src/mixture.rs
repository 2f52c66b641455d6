//! [`LoadedMixture`]: feed-forwards of several models, or of one model with adapters, as experts of a model.
//!
//! A mixture computes what AnyMoE does (Buehler, 2024; mistral.rs): in the chosen layers the model's feed-forward is the
//! first of several experts, of which a gate chooses one. The other experts come from other files, which are assembled,
//! mapped and quantized like the model itself.

mod experts;
pub(crate) mod gate_file;

use crate::adapters::MixtureRoles;
use crate::error::LoadError;
use crate::mixture_option::{GateOption, MixtureOption};
use crate::notice::Notice;
use crate::request::LoadRequest;
use crate::resolved::ResolvedFile;
use experts::{ExpertLoader, ExpertScope, LoadedExpert};
use gate_file::{GateFile, LayerGate};
use menagerie_assembly::is_stack;
use menagerie_model::components::{ChooseBy, LayerMixture, MixtureGate, Mixtures};
use menagerie_model::{Compute, DenseLinear, FeedForward, ModelError, Weight, WeightGuard, WeightShape};
use menagerie_spec::{MixtureChoice, layer_ranges};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A mixture with open files and assembled experts.
pub(crate) struct LoadedMixture {
    /// The mixtures, which wrap the model's feed-forwards.
    pub(crate) layers: Mixtures,
    /// Bytes of the experts besides the model's own feed-forwards.
    pub(crate) bytes: u64,
    /// Fail once the files have changed since they were opened.
    pub(crate) guards: Vec<WeightGuard>,
    /// The tensors that are parts of it.
    pub(crate) roles: MixtureRoles,
    /// What every load reports.
    pub(crate) notice: Notice,
}

/// The model that gets a mixture, and how everything is loaded.
#[derive(Clone, Copy)]
pub(crate) struct MixtureBase<'a> {
    pub(crate) resolved: &'a ResolvedFile,
    pub(crate) request: &'a LoadRequest,
    pub(crate) compute: &'a Compute,
}

impl MixtureBase<'_> {
    fn fault(&self, reason: String) -> LoadError {
        LoadError::Mixture { file: self.resolved.file_name(), reason }
    }

    /// The layers of the mixture. They must have feed-forwards that can be experts.
    fn layers(&self, options: &MixtureOption) -> Result<Vec<usize>, LoadError> {
        let config = self.resolved.config();
        let count = config.layers.len();
        if count > config.blocks() {
            return Err(
                self.fault("it runs its blocks several times: such a model cannot have a mixture".to_owned())
            );
        }
        let layers = options.layers.clone().unwrap_or_else(|| (0..count).collect());
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
        options: &MixtureOption,
        layers: &[usize],
    ) -> Result<BTreeMap<usize, MixtureGate>, LoadError> {
        let path = match &options.gate {
            GateOption::Always(expert) => {
                return Ok(layers.iter().map(|layer| (*layer, MixtureGate::Always(*expert))).collect());
            }
            GateOption::File(path) => path,
        };
        let width = self.resolved.config().embedding_length;
        let file = GateFile::read(path)?;
        file.check(path, layers, [options.experts.len() + 1, width])?;
        let by = match options.choose {
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

    /// The linear of a gate. It is computed in f32, whatever the type of the model's weights.
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
    /// Opens the files of a mixture and assembles its experts.
    ///
    /// # Errors
    /// What is wrong with a file, or does not fit the model: file, layer and tensor are named.
    pub(crate) fn load(options: &MixtureOption, base: MixtureBase) -> Result<Self, LoadError> {
        let all = 0..base.resolved.config().layers.len();
        Self::of_layers(options, base, (&all, ExpertScope::Whole))
    }

    /// The same for a stage of the model: only the experts of its layers are assembled.
    ///
    /// # Errors
    /// As [`Self::load`].
    #[cfg(unix)]
    pub(crate) fn of_stage(
        options: &MixtureOption,
        base: MixtureBase,
        layers: &Range<usize>,
    ) -> Result<Self, LoadError> {
        Self::of_layers(options, base, (layers, ExpertScope::Stage))
    }

    fn of_layers(
        options: &MixtureOption,
        base: MixtureBase,
        (range, scope): (&Range<usize>, ExpertScope),
    ) -> Result<Self, LoadError> {
        let layers = base.layers(options)?;
        let gates = base.gate(options, &layers)?;
        let own: Vec<usize> = layers.iter().copied().filter(|layer| range.contains(layer)).collect();
        let roles = MixtureRoles::of(base.resolved.config(), &layers);
        let loader = ExpertLoader {
            base,
            layers: &own,
            scope,
            roles: &roles,
            components: base.resolved.environment.components(),
        };
        let mut parts: BTreeMap<usize, Vec<Arc<dyn FeedForward>>> = BTreeMap::new();
        let (mut bytes, mut guards) = (0u64, Vec::new());
        for expert in &options.experts {
            let LoadedExpert { parts: own, bytes: more, guard } = loader.load(expert)?;
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
            options.experts.len() + 1,
            options.names().join("; ")
        ));
        Ok(Self { layers: mixtures, bytes, guards, roles, notice })
    }
}
