//! Layer hooks of plugins: their kinds, and the hooks between the layers of a model.

use crate::calling::{ActiveCall, MOST_INPUTS, PluginFunction, StepAccess};
use crate::component::{ComponentDescription, FamilyFunctions, Hook, HookMode, HookTiming};
use crate::detached::{self, DetachedContext, DetachedInstance, OptionValues, SettingValue};
use crate::operands;
use crate::output_check::{self, OutputCheck};
use crate::scratch::Frame;
use menagerie_engine::{HOST_OPTIONS, HookKind, HookSite, NamedHook, RelayOptions, RelayedRows};
use menagerie_model::{
    Effect, HookInput, HookRecipe, LayerHook, ModelError, Phases, Result, Rows, SequenceRows,
    SerializableHook,
};
use menagerie_plugin::abi::{self, Header, HookCall, OptionDef, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// An instance of a layer hook: one for all layers of a model.
struct PluginLayerHook {
    detached: DetachedInstance,
    run: Hook,
    around: HookTiming,
    site: HookSite,
    effect: Effect,
}

/// Rows between layers, for a call of a hook.
struct HookRows<'a> {
    point: u32,
    layer: usize,
    values: &'a [f32],
    cols: usize,
    step: StepAccess<'a, 'a>,
    /// Has their sequences.
    frame: Frame,
}

/// Checks the table of a layer hook.
///
/// # Errors
/// The fault, with the name of the component.
pub(crate) fn check(described: &ComponentDescription) -> std::result::Result<(), String> {
    if !matches!(described.work, FamilyFunctions::LayerHook(..)) {
        return Ok(());
    }
    let refused = |why: String| Err(format!("its component `{}`: {why}", described.name));
    if let Some(role) = described.roles.first() {
        let name = role.name;
        return refused(format!("it requests the tensor `{name}`, but a layer hook has no tensors"));
    }
    for row in &described.options {
        let name = row.name;
        if HOST_OPTIONS.contains(&name) {
            return refused(format!(
                "option `{name}`: the name is reserved: every hook has this option, which the host reads"
            ));
        }
        if !(OptionDef::COUNT..=OptionDef::TEXT).contains(&row.kind) {
            return refused(format!("option `{name}`: kind {} is not known", row.kind));
        }
        if !row.key.is_empty() {
            return refused(format!(
                "option `{name}`: its default is a key of a file, but a hook has no file"
            ));
        }
    }
    Ok(())
}

/// The kind of a hook, for `--hook`.
pub(crate) fn kind_of(described: &'static ComponentDescription, run: Hook, around: HookTiming) -> HookKind {
    HookKind {
        name: described.name,
        doc: described.doc,
        options: detached::option_docs(described),
        registered_by: described.record.shown,
        with_options: Arc::new(move |given| {
            let values = detached::values(described, given)?;
            Ok(Arc::new(move |site: &HookSite| {
                let between = PluginLayerHook::new((described, run, around), &values, site)?;
                Ok(Arc::new(between) as Arc<dyn LayerHook>)
            }))
        }),
    }
}

impl PluginLayerHook {
    fn new(
        (described, run, around): (&'static ComponentDescription, Hook, HookTiming),
        values: &OptionValues,
        site: &HookSite,
    ) -> std::result::Result<PluginLayerHook, String> {
        let phases = match (around.phases, site.phases) {
            (Phases::All, one) | (one, Phases::All) => one,
            (own, wanted) if own == wanted => own,
            (Phases::Prefill, _) => return Err("it only runs on prompts; remove phase=decode".to_owned()),
            (Phases::Decode, _) => {
                return Err("it only runs on generated tokens; remove phase=prefill".to_owned());
            }
        };
        let beside =
            DetachedContext { layers: site.n_layers, width: site.width, ..DetachedContext::default() };
        let detached = DetachedInstance::new(described, values, beside)?;
        let effect = match around.handling {
            HookMode::Observes => Effect::Observes,
            HookMode::Replaces => Effect::Replaces(effect(described, values)),
        };
        Ok(PluginLayerHook { detached, run, around, site: HookSite { phases, ..site.clone() }, effect })
    }

    /// Calls it for rows `[T, D]`; returns the new rows if it replaces rows.
    fn call(&self, point: u32, shown: &HookInput) -> Result<Option<Rows>> {
        let backend = &*shown.compute.backend;
        let mut frame = Frame::take();
        let past = |part: &SequenceRows| Ok(part.first_position);
        operands::sequences(shown.layout, &past, &mut frame)?;
        let values = backend.read(shown.rows)?;
        let (rows, cols) = (shown.rows.rows(), shown.rows.cols());
        let step = StepAccess::Hooked(Some(shown.compute), shown.tokens);
        let given = HookRows { point, layer: shown.layer, values: &values, cols, step, frame };
        match self.around.handling {
            HookMode::Observes => self.ask(given, None).map(|()| None),
            HookMode::Replaces => {
                let mut given = Some(given);
                let made = backend.written(rows, cols, &mut |out| {
                    given.take().map_or(Ok(()), |given| self.ask(given, Some(out)))
                });
                made.map(Some)
            }
        }
    }

    /// Calls it for rows; `out` receives the new rows.
    fn ask(&self, given: HookRows<'_>, out: Option<&mut [f32]>) -> Result<()> {
        let HookRows { point, layer, values, cols, step, frame } = given;
        let before = (output_check::how() == OutputCheck::EveryRow).then(|| values.to_vec());
        let rows = values.len() / cols.max(1);
        let x = [Tensor::rows(values.as_ptr().cast_mut(), rows, cols, Tensor::READ_ONLY)];
        let (instance, inputs) = (&self.detached.instance, [const { None }; MOST_INPUTS]);
        let mut calling = ActiveCall::new(instance, step, inputs, frame);
        let asked: PluginFunction<'_> = ("hook", &|handle, call| {
            let header = Header::of::<HookCall>();
            let call = HookCall { header, call, layer: layer as u64, point, padding: 0 };
            // SAFETY: the plugin's `hook` of this instance; what the call points to outlives it.
            unsafe { (self.run)(handle, &call) }
        });
        let made = match out {
            None => calling.ask(asked, &x, &[]),
            Some(out) => calling.write(asked, &x, cols, out),
        };
        calling.frame.give();
        let changed = |before: &Vec<f32>| {
            before.iter().zip(values).any(|(one, other)| one.to_bits() != other.to_bits())
        };
        if before.as_ref().is_some_and(changed) {
            return Err(self.error("it changed rows that it may only read (a defect of the plugin)"));
        }
        made
    }

    /// The rows of layers in other processes that an observing hook receives.
    fn relay(&self) -> RelayOptions {
        let (points, phases) = (self.around.points, self.site.phases);
        RelayOptions::new(self.name(), self.site.layers.clone())
            .with_before(points & abi::Component::BEFORE_LAYERS != 0)
            .with_after(points & abi::Component::AFTER_LAYERS != 0)
            .with_prefill(phases != Phases::Decode)
            .with_decode(phases != Phases::Prefill)
    }

    fn error(&self, reason: &str) -> ModelError {
        self.detached.instance.error(reason)
    }
}

impl LayerHook for PluginLayerHook {
    fn name(&self) -> &str {
        self.detached.instance.described.name
    }

    fn layers(&self) -> Range<usize> {
        self.site.layers.clone()
    }

    fn phases(&self) -> Phases {
        self.site.phases
    }

    fn effect(&self) -> Effect {
        self.effect.clone()
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        match self.around.points & abi::Component::BEFORE_LAYERS {
            0 => Ok(None),
            _ => self.call(HookCall::BEFORE, shown),
        }
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        match self.around.points & abi::Component::AFTER_LAYERS {
            0 => Ok(None),
            _ => self.call(HookCall::AFTER, shown),
        }
    }

    fn serializable(&self) -> Option<&dyn SerializableHook> {
        Some(self)
    }
}

/// Replacing hooks are copied into other processes. Observing hooks stay in this process and receive the rows of the
/// others.
impl SerializableHook for PluginLayerHook {
    fn recipe(&self) -> HookRecipe {
        match self.around.handling {
            HookMode::Observes => self.relay().recipe(),
            HookMode::Replaces => NamedHook::recipe(&self.site, &self.effect),
        }
    }

    fn is_followed(&self) -> bool {
        matches!(self.around.handling, HookMode::Observes)
    }

    fn take(&self, piece: &[u8]) -> Result<()> {
        let RelayedRows { head, values } =
            RelayedRows::decode(piece).map_err(|reason| self.error(&reason))?;
        let mut frame = Frame::take();
        operands::relayed(&head, &mut frame);
        let step = StepAccess::Hooked(None, head.tokens.as_deref());
        let point = if head.before { HookCall::BEFORE } else { HookCall::AFTER };
        let given = HookRows { point, layer: head.layer, values: &values, cols: head.cols, step, frame };
        self.ask(given, None)
    }
}

/// A text that identifies the effect of a replacing hook: equal texts mean equal results.
fn effect(described: &ComponentDescription, values: &OptionValues) -> String {
    let value = |(name, value): &(&str, SettingValue)| match value {
        SettingValue::Count(count) => format!(", {name} = {count}"),
        SettingValue::Real(real) => format!(", {name} = {real:?}"),
        SettingValue::Name(text) => format!(", {name} = {text:?}"),
        SettingValue::Text(text) => format!(", {name} = {text:?}"),
    };
    let options: String = values.iter().map(value).collect();
    format!("plugin {}{options}", described.record.code)
}
