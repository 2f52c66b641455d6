//! [`Cases`]: the cases in which a component is tried, and what went wrong in each.

use menagerie::plugin_host::Plugin;
use std::ops::ControlFlow;

/// The cases of one component.
pub(super) struct Cases<'p> {
    plugin: &'p Plugin,
    /// How many there are.
    all: usize,
    tried: usize,
    /// What went wrong, each with the cases in which it did, in the order in which it was seen.
    faults: Vec<(String, Vec<String>)>,
}

impl<'p> Cases<'p> {
    /// So many cases of a component of a plugin. Missteps are counted anew for it: what another component did wrong takes
    /// nothing away from its trial.
    pub(super) fn of(plugin: &'p Plugin, all: usize) -> Self {
        plugin.begin_anew();
        Self { plugin, all, tried: 0, faults: Vec::new() }
    }

    /// Notes how a case went; breaks where no more of the plugin is run.
    pub(super) fn note(&mut self, case: String, result: Result<(), String>) -> ControlFlow<()> {
        self.tried += 1;
        if let Err(fault) = result {
            match self.faults.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, cases)) => cases.push(case),
                None => self.faults.push((fault, vec![case])),
            }
        }
        match self.plugin.is_quarantined() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// What went wrong, a line for each.
    pub(super) fn faults(self) -> Vec<String> {
        let line = |(fault, cases): (String, Vec<String>)| match cases.as_slice() {
            [first, others @ ..] if !others.is_empty() => {
                let word = if others.len() == 1 { "case" } else { "cases" };
                format!("{first}, and {} other {word}: {fault}", others.len())
            }
            cases => format!("{}: {fault}", cases.concat()),
        };
        let mut lines: Vec<String> = self.faults.into_iter().map(line).collect();
        if self.plugin.is_quarantined() && self.tried < self.all {
            lines.push(format!(
                "stopped after {} panics or breaches of the ABI: {} of {} cases were not tried",
                self.plugin.missteps_allowed(),
                self.all - self.tried,
                self.all
            ));
        }
        lines
    }
}
