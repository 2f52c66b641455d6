//! [`NamedHook`]: a hook around layers of a plugin or another crate, as named on the command line.

use crate::named::{NamedEntry, check_options};
use menagerie_entries::{Entries, Entry};
use menagerie_model::{Effect, HookRecipe, LayerHook, Phases};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Options that every hook has: the layers and the phase in which it is called. No hook may declare options of these
/// names.
pub const HOST_OPTIONS: [&str; 2] = ["layers", "phase"];

/// The model that a hook is made for, and where it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSite {
    /// Layers of the model.
    pub n_layers: usize,
    /// D: width of the residual stream.
    pub width: usize,
    /// The layers in which it is called.
    pub layers: Range<usize>,
    /// The steps in which it is called.
    pub phases: Phases,
    /// Its text on the command line, from which copies in other processes are made.
    pub named: String,
}

/// Makes the hook for a model, or returns why it cannot.
type MakeHook = dyn Fn(&HookSite) -> Result<Arc<dyn LayerHook>, String> + Send + Sync;

/// Checks options (names and values as text) and returns what makes hooks with them.
type HookWithOptions = dyn Fn(&[(String, String)]) -> Result<Arc<MakeHook>, String> + Send + Sync;

/// A registered hook, without its options.
#[derive(Clone)]
pub struct HookKind {
    /// `author/name:hook`.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Its options, for listings: names and meanings.
    pub options: &'static [(&'static str, &'static str)],
    /// The crate or plugin that registers it.
    pub registered_by: &'static str,
    /// Checks options and returns what makes hooks with them.
    pub with_options: Arc<HookWithOptions>,
}

impl Entry for HookKind {
    const FAMILY: &'static str = "hook";

    fn name(&self) -> &str {
        self.name
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }
}

/// A hook with its options, as a command names it.
#[derive(Clone)]
pub struct NamedHook {
    name: &'static str,
    /// Its text on the command line.
    text: String,
    layers: Option<RangeInclusive<usize>>,
    phases: Phases,
    make: Arc<MakeHook>,
}

impl fmt::Debug for NamedHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedHook({})", self.text)
    }
}

impl NamedHook {
    /// The hook that a text names, `author/name:hook` or `author/name:hook=key=value,layers=A-B,phase=decode`, among
    /// these entries. Its options are those that it declares, and [`HOST_OPTIONS`].
    ///
    /// # Errors
    /// The name is unknown, or the hook does not have an option; as a sentence.
    pub fn parse(text: &str, entries: &Entries) -> Result<Self, String> {
        let NamedEntry { kind, options } = NamedEntry::<HookKind>::parse(text, entries)?;
        let about = |fault: String| format!("hook `{}`: {fault}", kind.name);
        let known: Vec<&str> = kind.options.iter().map(|(name, _)| *name).chain(HOST_OPTIONS).collect();
        check_options(&options, &known).map_err(about)?;
        let (host, own): (Vec<_>, Vec<_>) =
            options.into_iter().partition(|(name, _)| HOST_OPTIONS.contains(&name.as_str()));
        let (mut layers, mut phases) = (None, Phases::All);
        for (name, value) in &host {
            match name.as_str() {
                "layers" => layers = layer_range(value).map_err(about)?,
                _ => phases = phase(value).map_err(about)?,
            }
        }
        let make = (kind.with_options)(&own).map_err(about)?;
        Ok(Self { name: kind.name, text: text.to_owned(), layers, phases, make })
    }

    /// The hook for a model of `n_layers` layers and this width.
    ///
    /// # Errors
    /// The model does not have the layers, or the hook refuses; as a sentence.
    pub(crate) fn for_model(&self, n_layers: usize, width: usize) -> Result<Arc<dyn LayerHook>, String> {
        let about = |fault: String| format!("hook `{}`: {fault}", self.name);
        let layers = match &self.layers {
            None => 0..n_layers,
            Some(layers) if *layers.end() < n_layers => *layers.start()..*layers.end() + 1,
            Some(layers) => {
                let (first, last) = (layers.start(), layers.end());
                return Err(about(format!(
                    "layers={first}-{last}: the last layer of this model is {}",
                    n_layers.saturating_sub(1)
                )));
            }
        };
        let site = HookSite { n_layers, width, layers, phases: self.phases, named: self.text.clone() };
        (self.make)(&site).map_err(about)
    }

    /// The kind of recipe of these hooks.
    pub(crate) const KIND: &str = "plugin";

    /// The recipe of a copy in another process that has the same plugin, for a hook with this effect.
    pub fn recipe(site: &HookSite, effect: &Effect) -> HookRecipe {
        let recipe = NamedHookRecipe { named: site.named.clone(), effect: told(effect) };
        // Two texts: JSON can represent them.
        let content = serde_json::to_vec(&recipe).unwrap_or_default();
        HookRecipe { kind: Self::KIND.to_owned(), content }
    }

    /// A copy in another process, of a hook among these entries.
    ///
    /// # Errors
    /// The hook is not among them, or has another effect.
    pub(crate) fn copied(
        recipe: &[u8],
        entries: &Entries,
        n_layers: usize,
        width: usize,
    ) -> Result<Arc<dyn LayerHook>, String> {
        let NamedHookRecipe { named, effect } =
            serde_json::from_slice(recipe).map_err(|error| error.to_string())?;
        let hook = Self::parse(&named, entries)?.for_model(n_layers, width)?;
        let own = told(&hook.effect());
        match own == effect {
            true => Ok(hook),
            false => Err(format!("`{named}` has another effect in this process: {own} here, {effect} there")),
        }
    }
}

/// The content of a recipe.
#[derive(Serialize, Deserialize)]
struct NamedHookRecipe {
    /// Its text on the command line.
    named: String,
    /// Its effect.
    effect: String,
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::Observes => "it only observes".to_owned(),
        Effect::Replaces(how) => how.clone(),
    }
}

/// `all`, layers `A-B` (both included), or one layer.
fn layer_range(text: &str) -> Result<Option<RangeInclusive<usize>>, String> {
    if text == "all" {
        return Ok(None);
    }
    let wrong = || format!("layers={text}: expected A-B, A or all, counted from 0");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (usize, usize) = first.parse().ok().zip(last.parse().ok()).ok_or_else(wrong)?;
    if first <= last { Ok(Some(first..=last)) } else { Err(wrong()) }
}

fn phase(text: &str) -> Result<Phases, String> {
    match text {
        "all" => Ok(Phases::All),
        "prefill" => Ok(Phases::Prefill),
        "decode" => Ok(Phases::Decode),
        _ => Err(format!("phase={text}: expected prefill, decode or all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hooks_of_one_name_are_refused() {
        let kind = |registered_by: &'static str| HookKind {
            name: "test/named:twice",
            doc: "Nothing.",
            options: &[],
            registered_by,
            with_options: Arc::new(|_| Err("none is made".to_owned())),
        };
        let mut entries = Entries::default();
        entries.add(kind("the first")).unwrap();
        let duplicate = entries.add(kind("the second")).unwrap_err().to_string();
        let expected = "hook `test/named:twice` is registered twice, by the first and by the second;";
        assert!(duplicate.starts_with(expected), "{duplicate}");
        let own = entries.all::<HookKind>().iter().map(|kind| kind.registered_by);
        assert_eq!(own.collect::<Vec<_>>(), ["the first"]);
    }
}
