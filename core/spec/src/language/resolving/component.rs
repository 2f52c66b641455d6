//! Components of one layer: the case that holds, and its kind's config.

use super::{Resolver, Resolving};
use crate::kind::{Component, Family, Options, Resolve};
use crate::language::written::{Case, Cases, Condition, WrittenTable};
use std::sync::Arc;

impl Resolver<'_> {
    /// Options of a table that is no component's.
    pub(crate) fn options<T: Options>(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
    ) -> Option<T> {
        T::read(&mut Resolving::new(self, table, layer))
    }

    /// The component of a layer. `None` is a fault already reported; `Some(None)` is no component.
    #[allow(clippy::option_option)]
    pub(crate) fn component(&mut self, cases: &Cases, layer: usize) -> Option<Option<Component>> {
        match self.case(cases, Some(layer))? {
            Some(table) => self.resolve_kind(table, Some(layer), &[]),
            None => Some(None),
        }
    }

    /// The config of a table that has a kind. `roles` are where a norm has its tensors.
    #[allow(clippy::option_option)]
    pub(crate) fn resolve_kind(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
        roles: &[&str],
    ) -> Option<Option<Component>> {
        let kind = table.kind?;
        match kind.resolve {
            Resolve::Nothing => Some(None),
            Resolve::Config(resolve) => {
                let mut at = Resolving::new(self, table, layer);
                at.stand_at(roles);
                resolve(&mut at).map(Some)
            }
            Resolve::NotBuiltIn => {
                let message = format!(
                    "{} kind `{}` is not built in; built in are: {}",
                    kind.family.name(),
                    kind.name,
                    self.built_in(kind.family)
                );
                self.fault(&table.place, &table.path, layer, message);
                None
            }
        }
    }

    fn built_in(&self, family: Family) -> String {
        let kinds = self.spec.kinds.of(family).filter(|kind| kind.is_built_in());
        kinds.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }

    /// The case that holds in a layer; for an unnamed component, itself unless its `when` is false.
    ///
    /// `None` is a fault already reported; `Some(None)` is no component.
    #[allow(clippy::option_option)]
    pub(crate) fn case(&mut self, cases: &Cases, layer: Option<usize>) -> Option<Option<Arc<WrittenTable>>> {
        let mut holding: Vec<&Case> = Vec::new();
        for case in &cases.cases {
            let holds = match &case.when {
                Some(when) => self.truth(when, layer)?,
                None => true,
            };
            if holds {
                holding.push(case);
            }
        }
        if !cases.named {
            return Some(holding.first().map(|case| Arc::clone(&case.table)));
        }
        if let [only] = holding[..] {
            return Some(Some(Arc::clone(&only.table)));
        }
        let texts: Vec<String> =
            cases.cases.iter().map(|case| format!("{}: {}", case.name, condition(case))).collect();
        let names: Vec<&str> = holding.iter().map(|case| case.name.as_str()).collect();
        let message = if names.is_empty() {
            format!("no case of [{}] holds ({})", cases.path, texts.join("; "))
        } else {
            format!(
                "{} cases of [{}] hold, {} ({})",
                names.len(),
                cases.path,
                names.join(" and "),
                texts.join("; ")
            )
        };
        let message = format!("{message}; exactly one must hold in every layer");
        self.fault(&cases.place, &cases.path, layer, message);
        None
    }
}

fn condition(case: &Case) -> String {
    match case.when.as_ref().map(|when| &when.value) {
        Some(Condition::Expression(expression)) => expression.text.clone(),
        Some(Condition::Literal(value)) => value.to_string(),
        None => "always".into(),
    }
}
