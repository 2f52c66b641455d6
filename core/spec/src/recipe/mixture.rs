//! `[mixture]` of a recipe: feed-forwards of several models, or of one with adapters, combined by a gate.

use super::{Open, RecipeReader};
use crate::text::tree::{Item, TomlNode};
use menagerie_entries::{nearest, nearest_clause};
use std::collections::BTreeSet;

/// Feed-forwards that become experts under a gate (AnyMoE, Buehler, 2024); the base's own is the first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RecipeMixture {
    /// Layers whose feed-forward becomes a mixture; absent = all.
    pub layers: Option<Vec<usize>>,
    /// The gate's file, relative to the recipe: safetensors.
    pub gate: String,
    /// The rows that share a choice of experts.
    pub choose: MixtureChoice,
    /// The experts after the base's own, in order.
    pub experts: Vec<RecipeExpert>,
}

/// The rows that share a choice of experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MixtureChoice {
    /// One choice for the prompt, then one for each token, as in AnyMoE.
    #[default]
    Prompt,
    /// One choice for each token.
    Token,
}

impl MixtureChoice {
    /// Both.
    pub const ALL: [MixtureChoice; 2] = [Self::Prompt, Self::Token];

    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Token => "token",
        }
    }
}

/// The source of an expert.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecipeExpert {
    /// The feed-forwards of another model of the base's architecture.
    From(String),
    /// The base's own, with an adapter.
    Adapter {
        /// A PEFT folder, a GGUF adapter, or a folder of the hub.
        from: String,
        /// The modules to use, by the last part of their names; absent = all, which must be feed-forwards.
        modules: Option<Vec<String>>,
    },
}

impl RecipeReader {
    pub(super) fn mixture(&mut self, node: &TomlNode, is_form: bool) -> Option<RecipeMixture> {
        let table = self.open(node, "mixture", &["layers", "gate", "choose", "experts"])?;
        if is_form {
            let message = "a form is of any model and has no experts; a recipe with `base` has";
            self.faults.push(node.place.fault("mixture", message));
        }
        let layers = match table.table.get("layers") {
            Some(node) => self.layers(node).map(Some),
            None => Some(None),
        };
        let gate = self.need(&table, "gate", "the gate's file, which `train-gate` writes,");
        let choose = self.choice(&table);
        let experts = match table.table.get("experts") {
            Some(node) => self.experts(node),
            None => self.missing(&table, "experts", "a list of tables, [[mixture.experts]],"),
        };
        Some(RecipeMixture { layers: layers?, gate: gate?, choose: choose?, experts: experts? })
    }

    fn layers(&mut self, node: &TomlNode) -> Option<Vec<usize>> {
        let numbers = match &node.item {
            Item::List(nodes) if !nodes.is_empty() => {
                let number = |node: &TomlNode| match node.item {
                    Item::Integer(value) => usize::try_from(value).ok(),
                    _ => None,
                };
                nodes.iter().map(number).collect::<Option<Vec<usize>>>()
            }
            _ => None,
        };
        let Some(numbers) = numbers else {
            let message = "expected a list of layers, counted from 0; without it all layers are meant";
            self.faults.push(node.place.fault("mixture.layers", message));
            return None;
        };
        let sorted: BTreeSet<usize> = numbers.iter().copied().collect();
        if sorted.len() < numbers.len() {
            self.faults.push(node.place.fault("mixture.layers", "a layer is listed twice"));
            return None;
        }
        Some(sorted.into_iter().collect())
    }

    fn choice(&mut self, table: &Open<'_>) -> Option<MixtureChoice> {
        if !table.table.has("choose") {
            return Some(MixtureChoice::default());
        }
        let text = self.text(table, "choose")?;
        let found = MixtureChoice::ALL.into_iter().find(|choice| choice.name() == text);
        if found.is_none() {
            let near = nearest_clause(nearest(&text, MixtureChoice::ALL.map(MixtureChoice::name)));
            let message = format!("unknown value{near}; allowed here: prompt, token");
            self.faults.push(table.table.get("choose")?.place.fault("mixture.choose", message));
        }
        found
    }

    fn experts(&mut self, node: &TomlNode) -> Option<Vec<RecipeExpert>> {
        let Item::List(nodes) = &node.item else {
            let message =
                format!("expected a list of tables, [[mixture.experts]], found {}", node.item.describe());
            self.faults.push(node.place.fault("mixture.experts", message));
            return None;
        };
        if nodes.is_empty() {
            let message = "no expert; the base's own feed-forward is the first expert, and at least one more is required";
            self.faults.push(node.place.fault("mixture.experts", message));
            return None;
        }
        let experts: Vec<Option<RecipeExpert>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| self.expert(node, &format!("mixture.experts[{index}]")))
            .collect();
        experts.into_iter().collect()
    }

    fn expert(&mut self, node: &TomlNode, path: &str) -> Option<RecipeExpert> {
        let table = self.open(node, path, &["from", "adapter", "modules"])?;
        let modules = match table.table.get("modules") {
            Some(node) => self.modules(node, &table.path_of("modules")).map(Some),
            None => Some(None),
        };
        match (table.table.entry("from"), table.table.entry("adapter")) {
            (Some(_), None) => {
                if let Some(node) = table.table.get("modules") {
                    let message = "of a model whole feed-forwards are taken; `modules` belongs to `adapter`";
                    self.faults.push(node.place.fault(table.path_of("modules"), message));
                }
                self.text(&table, "from").map(RecipeExpert::From)
            }
            (None, Some(_)) => {
                let from = self.text(&table, "adapter");
                Some(RecipeExpert::Adapter { from: from?, modules: modules? })
            }
            (Some(_), Some(second)) => {
                let message = "`from` takes feed-forwards of a model and `adapter` those of the base with an adapter; keep one of \
                               the two";
                self.faults.push(second.key_place.fault(table.path_of("adapter"), message));
                None
            }
            (None, None) => {
                self.missing(&table, "from", "a model (a path, org/repo, a short name), or `adapter`,")
            }
        }
    }

    fn modules(&mut self, node: &TomlNode, path: &str) -> Option<Vec<String>> {
        let texts = match &node.item {
            Item::List(nodes) if !nodes.is_empty() => {
                nodes.iter().map(|node| node.text().map(str::to_owned)).collect::<Option<Vec<String>>>()
            }
            _ => None,
        };
        if texts.is_none() {
            let message = "expected a list of module names, such as [\"gate_proj\", \"up_proj\"]";
            self.faults.push(node.place.fault(path, message));
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::super::Recipe;
    use super::*;
    use crate::text::source::SpecSource;

    fn parse(text: &str) -> Result<RecipeMixture, String> {
        let text = format!("schema = 1\n[recipe]\nbase = \"b\"\n{text}");
        let source = SpecSource { name: "m.recipe.toml".to_owned(), text };
        Recipe::parse(&source).map(|recipe| recipe.mixture.unwrap()).map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_mixture_is_read() {
        let mixture = parse(
            "[mixture]\nlayers = [2, 0]\ngate = \"g.safetensors\"\nchoose = \"token\"\n[[mixture.experts]]\nfrom = \"a.gguf\"\n\
             [[mixture.experts]]\nadapter = \"l\"\nmodules = [\"up_proj\"]\n",
        );
        let adapter =
            RecipeExpert::Adapter { from: "l".to_owned(), modules: Some(vec!["up_proj".to_owned()]) };
        let wanted = RecipeMixture {
            layers: Some(vec![0, 2]),
            gate: "g.safetensors".to_owned(),
            choose: MixtureChoice::Token,
            experts: vec![RecipeExpert::From("a.gguf".to_owned()), adapter],
        };
        assert_eq!(mixture, Ok(wanted));
        let short = parse("[mixture]\ngate = \"g\"\nexperts = [{ from = \"a\" }]\n").unwrap();
        assert_eq!((short.layers, short.choose), (None, MixtureChoice::Prompt));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("layers = [0, 0]", "mixture.layers\n  a layer is listed twice"),
            ("layers = []", "expected a list of layers"),
            ("layers = [-1]", "expected a list of layers"),
            ("choose = \"promt\"", "the nearest is `prompt`"),
            ("experts = []", "at least one more"),
            ("experts = [{ from = \"a\", adapter = \"b\" }]", "keep one of the two"),
            ("experts = [{ modules = [\"a\"] }]", "mixture.experts[0].from\n  missing"),
            ("experts = [{ from = \"a\", modules = [\"a\"] }]", "`modules` belongs to `adapter`"),
            ("experts = [{ adapter = \"a\", modules = [1] }]", "expected a list of module names"),
            ("", "mixture.gate\n  missing"),
        ] {
            let error = parse(&format!("[mixture]\n{text}\n")).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
