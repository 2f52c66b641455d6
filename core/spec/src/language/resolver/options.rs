//! Resolving written options: numbers, conditions, choices, cases and components, each recorded with its origin.

use super::Resolver;
use crate::expression::{as_answer, as_bool, as_number};
use crate::kind::written::{
    BySource, Case, Cases, Condition, NameChoice, Scalar, When, WrittenField, WrittenTable,
};
use crate::kind::{
    Component, Family, OptionRecord, OptionResolver, Options, RecordedFault, Resolve, ResolveContext,
};
use crate::language::origin::ValueOrigin;
use crate::language::report::ResolvedValue;
use crate::text::fault::Fault;
use crate::text::source::{MetadataValue, SourceFormat};
use crate::text::tree::SourcePlace;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Resolver<'_> {
    /// Options of a table outside of components.
    pub(crate) fn options<T: Options>(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
    ) -> Result<T, RecordedFault> {
        T::read(&mut ResolveContext::new(self, table, layer))
    }

    fn built_in(&self, family: Family) -> String {
        let kinds = self.spec.kinds.of(family).filter(|kind| kind.is_built_in());
        kinds.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }
}

impl OptionResolver for Resolver<'_> {
    fn spec_id(&self) -> &str {
        self.spec.id()
    }

    fn has_role(&self, role: &str, layer: Option<usize>) -> bool {
        self.input.roles.has(role, layer)
    }

    fn consult(&self, key: &str) -> Option<&MetadataValue> {
        self.values.facts.consult(key)
    }

    fn key_in_layer(&self, key: &str, layer: Option<usize>) -> Option<&MetadataValue> {
        self.values.facts.in_layer(key, layer)
    }

    fn has_key(&self, key: &str) -> bool {
        self.values.facts.keys.contains_key(key)
    }

    fn spelled(&self, key: &str) -> String {
        match self.input.source {
            SourceFormat::Gguf if self.values.facts.foreign.contains(key) => key.to_string(),
            SourceFormat::Gguf => format!("{}.{key}", self.input.architecture),
            SourceFormat::Hf => self.input.keys.spelled(key).unwrap_or_else(|| key.to_string()),
        }
    }

    fn accept(&mut self, key: &str) -> bool {
        let spelled = self.spelled(key);
        let accepted =
            self.input.accept_unread.iter().any(|accepted| *accepted == key || *accepted == spelled);
        if accepted {
            self.accepted.insert(key.to_string());
        }
        accepted
    }

    fn fault(
        &mut self,
        place: &SourcePlace,
        path: &str,
        layer: Option<usize>,
        message: String,
    ) -> RecordedFault {
        let mut fault = place.fault(path, message);
        fault.layers.extend(layer);
        self.faults.push(fault)
    }

    fn file_fault(&mut self, layer: Option<usize>, subject: String, message: String) -> RecordedFault {
        self.faults.push(Fault {
            file: self.input.file.clone(),
            position: None,
            subject,
            message,
            layers: layer.into_iter().collect(),
        })
    }

    fn key_value(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<(f64, ValueOrigin), RecordedFault> {
        let found = self.values.key(key).and_then(|expression| {
            let value = self.values.shared(&expression, layer)?;
            as_number(&value, &expression).map(|value| (value, self.values.origin(&expression, layer)))
        });
        match found {
            Ok(found) => Ok(found),
            Err(message) => {
                let missing = self.values.frame(layer).get(key).is_none();
                let varies = self.values.facts.varies_by_default(key);
                let message =
                    if missing { format!("missing; spec {} needs it", self.spec.id()) } else { message };
                Err(self.key_fault(layer.filter(|_| varies), key, message))
            }
        }
    }

    fn number(
        &mut self,
        at: &WrittenField,
        value: &BySource<Scalar>,
        layer: Option<usize>,
    ) -> Result<(f64, ValueOrigin), RecordedFault> {
        let expression = match value.for_source(self.input.source) {
            Scalar::Literal(value) => return Ok((*value, ValueOrigin::Spec)),
            Scalar::Expression(expression) => expression,
        };
        let found = self.values.shared(expression, layer).and_then(|value| as_number(&value, expression));
        match found {
            Ok(value) => Ok((value, self.values.origin(expression, layer))),
            Err(message) => Err(self.expression_fault((&at.place, &at.path), expression, layer, message)),
        }
    }

    fn condition(
        &mut self,
        at: (&SourcePlace, &str),
        condition: &Condition,
        layer: Option<usize>,
    ) -> Result<(bool, ValueOrigin), RecordedFault> {
        let expression = match condition {
            Condition::Literal(value) => return Ok((*value, ValueOrigin::Spec)),
            Condition::Expression(expression) => expression,
        };
        match self.values.shared(expression, layer).and_then(|value| as_bool(&value, expression)) {
            Ok(value) => Ok((value, self.values.origin(expression, layer))),
            Err(message) => Err(self.expression_fault(at, expression, layer, message)),
        }
    }

    fn when(&mut self, when: &When, layer: Option<usize>) -> Result<bool, RecordedFault> {
        let (value, origin) = self.condition((&when.place, &when.path), &when.value, layer)?;
        self.record(OptionRecord {
            path: &when.path,
            layer,
            value: value.to_string(),
            origin,
            guarded: true,
        });
        Ok(value)
    }

    fn choice(
        &mut self,
        at: &WrittenField,
        choice: &NameChoice,
        layer: Option<usize>,
    ) -> Result<(usize, ValueOrigin), RecordedFault> {
        let (by, answers) = match choice {
            NameChoice::Given(given) => return Ok((*given.for_source(self.input.source), ValueOrigin::Spec)),
            NameChoice::By { by, answers } => (by, answers),
        };
        let asked = self.values.shared(by, layer).and_then(|value| as_answer(&value, by));
        let found = asked.and_then(|asked| {
            let known = || answers.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ");
            let answer = answers.iter().find(|(key, _)| *key == asked);
            answer.ok_or_else(|| {
                format!("`{}` is {asked}; the choice has answers only for {}", by.text, known())
            })
        });
        match found {
            // The file states the value; the name that it selects is the spec's rule.
            Ok((_, name)) => Ok((
                *name,
                match self.values.origin(by, layer) {
                    ValueOrigin::File { keys } => ValueOrigin::Formula { keys },
                    other => other,
                },
            )),
            Err(message) => Err(self.expression_fault((&at.place, &at.path), by, layer, message)),
        }
    }

    fn case(
        &mut self,
        cases: &Cases,
        layer: Option<usize>,
    ) -> Result<Option<Arc<WrittenTable>>, RecordedFault> {
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

    fn component(&mut self, cases: &Cases, layer: usize) -> Result<Option<Component>, RecordedFault> {
        match self.case(cases, Some(layer))? {
            Some(table) => self.resolve_kind(table, Some(layer), &[]),
            None => Ok(None),
        }
    }

    fn resolve_kind(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
        roles: &[&str],
    ) -> Result<Option<Component>, RecordedFault> {
        let Some(kind) = table.kind else {
            return Err(self.fault(&table.place, &table.path, layer, "the options of no kind".into()));
        };
        match kind.resolve {
            Resolve::Nothing => Ok(None),
            Resolve::Config(resolve) => {
                let mut at = ResolveContext::new(self, table, layer);
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

    fn record(&mut self, record: OptionRecord<'_>) {
        let OptionRecord { path, layer, value, origin, guarded } = record;
        let known = self.recorded.get(path).map_or(&[][..], Vec::as_slice);
        let same = known.iter().copied().find(|index| {
            let old = &self.resolved[*index];
            old.value == value && old.origin == origin && old.layers.is_empty() == layer.is_none()
        });
        match same {
            Some(index) => self.resolved[index].layers.extend(layer),
            None => {
                self.recorded.entry(path.to_string()).or_default().push(self.resolved.len());
                let layers: BTreeSet<usize> = layer.into_iter().collect();
                self.resolved.push(ResolvedValue { layers, path: path.to_string(), value, origin, guarded });
            }
        }
    }
}

fn condition(case: &Case) -> String {
    match case.when.as_ref().map(|when| &when.value) {
        Some(Condition::Expression(expression)) => expression.text.clone(),
        Some(Condition::Literal(value)) => value.to_string(),
        None => "always".into(),
    }
}
