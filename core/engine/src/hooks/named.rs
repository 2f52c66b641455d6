//! [`NamedHook`]: a hook between layers that somebody else's code computes, as people name it.

use crate::named::{Named, check_options};
use menagerie_entries::{Entries, Entry};
use menagerie_model::{Effect, HookRecipe, LayerHook, Phases};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Options that every hook has: the layers and the phase it is called for. No kind may have one of these names.
pub const HOST_OPTIONS: [&str; 2] = ["layers", "phase"];

/// The model that a hook is made for, and where it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSite {
    /// Layers of the model.
    pub n_layers: usize,
    /// D: numbers of a row between them.
    pub width: usize,
    /// Those it is called for.
    pub layers: Range<usize>,
    /// The steps it is called for.
    pub phases: Phases,
    /// How it was named: what copies in other processes are made from.
    pub named: String,
}

/// Makes the hook for a model; or says why not.
pub type MakeHook = dyn Fn(&HookSite) -> Result<Arc<dyn LayerHook>, String> + Send + Sync;

/// What makes hooks with these options, names and values as text; or what is wrong with them.
pub type HookWithOptions = dyn Fn(&[(String, String)]) -> Result<Arc<MakeHook>, String> + Send + Sync;

/// A hook that people may name, without its options.
#[derive(Clone)]
pub struct HookKind {
    /// `author/name:hook`.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Its options, for listings: name and what it means.
    pub options: &'static [(&'static str, &'static str)],
    /// The crate or the plugin that registers it.
    pub registered_by: &'static str,
    /// What makes hooks with these options.
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
    /// As it was named.
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
    /// The hook that a text names, `author/name:hook` or `author/name:hook=key=value,layers=A-B,phase=decode`, among these
    /// entries: with the options that its kind declares, and [`HOST_OPTIONS`].
    ///
    /// # Errors
    /// An unknown name, or an option that its kind does not have, as a sentence.
    pub fn parse(text: &str, entries: &Entries) -> Result<Self, String> {
        let Named { kind, options } = Named::<HookKind>::parse(text, entries)?;
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

    /// The hook for a model of so many layers and this width.
    ///
    /// # Errors
    /// Layers that the model does not have; what the hook itself refuses; as a sentence.
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

    /// What copies of these hooks are known by.
    pub(crate) const KIND: &str = "plugin";

    /// What a copy in another process is made from, which has the same plugin; of a hook with this effect.
    pub fn recipe(site: &HookSite, effect: &Effect) -> HookRecipe {
        let recipe = Recipe { named: site.named.clone(), effect: told(effect) };
        // Two texts: nothing that JSON does not hold.
        let content = serde_json::to_vec(&recipe).unwrap_or_default();
        HookRecipe { kind: Self::KIND.to_owned(), content }
    }

    /// A copy in another process, of a hook among these entries.
    ///
    /// # Errors
    /// A hook that is not among them, or does something else.
    pub(crate) fn copied(
        recipe: &[u8],
        entries: &Entries,
        n_layers: usize,
        width: usize,
    ) -> Result<Arc<dyn LayerHook>, String> {
        let Recipe { named, effect } = serde_json::from_slice(recipe).map_err(|error| error.to_string())?;
        let hook = Self::parse(&named, entries)?.for_model(n_layers, width)?;
        let own = told(&hook.effect());
        match own == effect {
            true => Ok(hook),
            false => Err(format!("`{named}` is something else in this process: {own} here, {effect} there")),
        }
    }
}

/// What a copy is made from.
#[derive(Serialize, Deserialize)]
struct Recipe {
    /// As it was named.
    named: String,
    /// What it does.
    effect: String,
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::Observes => "it only looks".to_owned(),
        Effect::Replaces(how) => how.clone(),
    }
}

/// `all`, layers `A-B`, both of them meant, or one.
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
