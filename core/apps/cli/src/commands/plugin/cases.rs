//! [`TestCases`]: the test cases of a component, and their errors.

use menagerie::plugin_host::LoadedPlugin;
use std::ops::ControlFlow;

/// The cases of one component.
pub(super) struct TestCases<'p> {
    plugin: &'p LoadedPlugin,
    /// Number of cases.
    all: usize,
    tried: usize,
    /// Errors with the cases in which they occurred, in order of their first occurrence.
    faults: Vec<(String, Vec<String>)>,
}

impl<'p> TestCases<'p> {
    /// Starts the cases of a component of a plugin. The counter of missteps is reset: errors of another component do not
    /// count.
    pub(super) fn of(plugin: &'p LoadedPlugin, all: usize) -> Self {
        plugin.begin_anew();
        Self { plugin, all, tried: 0, faults: Vec::new() }
    }

    /// Records the result of a case; breaks if the plugin must not be run any more.
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

    /// The errors, one line each.
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
                "stopped after {} panics or ABI violations: {} of {} cases were not tested",
                self.plugin.missteps_allowed(),
                self.all - self.tried,
                self.all
            ));
        }
        lines
    }
}
