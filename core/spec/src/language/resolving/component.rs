//! Components of one layer: the case that holds, and its kind's config.

use super::{Resolver, Resolving};
use crate::kind::{Component, Family, Noted, Options, Resolve};
use crate::language::written::{Case, Cases, Condition, WrittenTable};
use std::sync::Arc;

impl Resolver<'_> {
    /// Options of a table that is no component's.
    pub(crate) fn options<T: Options>(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
    ) -> Result<T, Noted> {
        T::read(&mut Resolving::new(self, table, layer))
    }

    /// The component of a layer, if it has one.
    pub(crate) fn component(&mut self, cases: &Cases, layer: usize) -> Result<Option<Component>, Noted> {
        match self.case(cases, Some(layer))? {
            Some(table) => self.resolve_kind(table, Some(layer), &[]),
            None => Ok(None),
        }
    }

    /// The config of a table that has a kind. `roles` are where a norm has its tensors.
    pub(crate) fn resolve_kind(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
        roles: &[&str],
    ) -> Result<Option<Component>, Noted> {
        let Some(kind) = table.kind else {
            return Err(self.fault(&table.place, &table.path, layer, "the options of no kind"));
        };
        match kind.resolve {
            Resolve::Nothing => Ok(None),
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
                Err(self.fault(&table.place, &table.path, layer, message))
            }
        }
    }

    fn built_in(&self, family: Family) -> String {
        let kinds = self.spec.kinds.of(family).filter(|kind| kind.is_built_in());
        kinds.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }

    /// The case that holds in a layer; for an unnamed component, itself unless its `when` is false.
    pub(crate) fn case(
        &mut self,
        cases: &Cases,
        layer: Option<usize>,
    ) -> Result<Option<Arc<WrittenTable>>, Noted> {
        let mut holding: Vec<&Case> = Vec::new();
        for case in &cases.cases {
            let holds = match &case.when {
                Some(when) => self.when(when, layer)?,
                None => true,
            };
            if holds {
                holding.push(case);
            }
        }
        if !cases.named {
            return Ok(holding.first().map(|case| Arc::clone(&case.table)));
        }
        if let [only] = holding[..] {
            return Ok(Some(Arc::clone(&only.table)));
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
        Err(self.fault(&cases.place, &cases.path, layer, message))
    }
}

fn condition(case: &Case) -> String {
    match case.when.as_ref().map(|when| &when.value) {
        Some(Condition::Expression(expression)) => expression.text.clone(),
        Some(Condition::Literal(value)) => value.to_string(),
        None => "always".into(),
    }
}
