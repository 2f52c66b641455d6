//! What is wrong with a component is found by the checks: each of these breaks one rule.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_plugin::testing::{self, Setup, check};
use menagerie_plugin::{
    Activation, Build, Call, Component, Error, Host, LayerCall, LayerObserver, LayerReplacer, Mixer, Norm,
    Result, Rope, Rows, RowsMut, SampleCall, Sampler, State,
};
use std::sync::Mutex;

/// A component without options and tensors.
macro_rules! component {
    ($name:ident { $($field:ident: $ty:ty = $value:expr),* $(,)? }) => {
        struct $name {
            $($field: $ty),*
        }

        impl Component for $name {
            const NAME: &'static str = "faulty";
            const DOC: &'static str = "Breaks a rule.";
            type Options = ();

            #[allow(unused_variables)]
            fn create(_options: (), build: &mut Build) -> Result<Self> {
                $(let $field = { let make: fn(&mut Build) -> Result<$ty> = $value; make(build)? };)*
                Ok(Self { $($field),* })
            }
        }
    };
}

fn faults(component: &menagerie_plugin::abi::Component) -> Vec<&'static str> {
    let outcomes = check(component, &Setup::new(4));
    outcomes.iter().filter(|outcome| outcome.fault.is_some()).map(|outcome| outcome.name).collect()
}

component!(Forgetful {});

impl Norm for Forgetful {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        for row in 0..x.rows() {
            output.row_mut(row)[1..].copy_from_slice(&x.row(row)[1..]);
        }
        Ok(())
    }
}

#[test]
fn elements_that_are_not_written() {
    let component = testing::norm::<Forgetful>();
    assert_eq!(faults(&component), ["every element is written"]);
    let outcomes = check(&component, &Setup::new(4));
    let outcome = outcomes.iter().find(|outcome| outcome.fault.is_some()).unwrap();
    assert_eq!(
        outcome.to_string(),
        "every element is written: row 0 of 1: element 0 is NaN: it was not written, or is not finite"
    );
}

component!(Hidden { last: Mutex<Vec<f32>> = |build| Ok(Mutex::new(vec![0.0; build.width()])) });

impl Mixer for Hidden {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, .. } = call;
        let mut last = self.last.lock().map_err(|_| Error::new("poisoned"))?;
        for row in 0..x.rows() {
            output
                .row_mut(row)
                .iter_mut()
                .zip(x.row(row))
                .zip(last.iter())
                .for_each(|((y, x), last)| *y = x + last);
            last.copy_from_slice(x.row(row));
        }
        Ok(())
    }
}

#[test]
fn what_is_kept_in_the_instance() {
    let faults = faults(&testing::mixer::<Hidden>());
    for name in [
        "equal rows have equal results",
        "a batch computes the same as its sequences alone",
        "no state is kept outside the declared states",
    ] {
        assert!(faults.contains(&name), "{faults:?}");
    }
}

component!(First { state: State = |build| build.state("first", &[build.width()]) });

impl Mixer for First {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, mut states, sequences, .. } = call;
        for (index, sequence) in sequences.iter().enumerate() {
            // The first row of the step, not of the sequence.
            let state = states.get_mut(index, &self.state)?;
            for row in sequence.rows() {
                state.copy_from_slice(x.row(sequence.rows().start));
                output.row_mut(row).copy_from_slice(state);
            }
        }
        Ok(())
    }
}

#[test]
fn a_step_that_is_taken_for_a_sequence() {
    assert_eq!(
        faults(&testing::mixer::<First>()),
        ["a sequence in parts has the same result as in one step"]
    );
}

component!(Mingled {});

impl Mixer for Mingled {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, .. } = call;
        output.copy_from(x)?;
        if x.rows() > 1 {
            output.row_mut(x.rows() - 1).copy_from_slice(x.row(0));
        }
        Ok(())
    }
}

#[test]
fn rows_of_another_sequence() {
    let faults = faults(&testing::mixer::<Mingled>());
    assert!(faults.contains(&"a batch computes the same as its sequences alone"), "{faults:?}");
}

component!(Neighbors {});

impl Activation for Neighbors {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        for row in 0..x.rows() {
            let mut before = 0.0;
            for (y, x) in output.row_mut(row).iter_mut().zip(x.row(row)) {
                *y = x + before;
                before = *x;
            }
        }
        Ok(())
    }
}

#[test]
fn an_activation_that_looks_aside() {
    assert_eq!(faults(&testing::activation::<Neighbors>()), ["no element depends on another"]);
}

component!(Careless {});

impl Norm for Careless {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        output.copy_from(x)?;
        // No row, no element: an index that is not there.
        let first = x.row(0)[0];
        assert!(first.is_finite(), "a sum of {first}");
        Ok(())
    }
}

#[test]
fn panics_are_found_with_their_place() {
    let outcomes = check(&testing::norm::<Careless>(), &Setup::new(4));
    let said: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    assert!(
        said.iter()
            .any(|line| line.starts_with("a step without rows works: forward panicked: panic in plugin at ")
                && line.contains("faulty.rs:")
                && line.ends_with("row 0 of 0")),
        "{said:#?}"
    );
}

component!(Silent {});

impl Rope for Silent {
    fn frequencies(&self, call: menagerie_plugin::FrequencyCall) -> Result<()> {
        call.frequencies[0] = 1.0;
        Ok(())
    }
}

impl Sampler for Silent {
    fn sample(&self, call: SampleCall) -> Result<()> {
        call.logits.fill(f32::NEG_INFINITY);
        Ok(())
    }
}

#[test]
fn frequencies_that_are_missing_and_tokens_that_are_all_gone() {
    assert_eq!(faults(&testing::rope::<Silent>()), ["frequencies are finite and reproducible"]);
    assert_eq!(faults(&testing::sampler::<Silent>()), ["at least one token remains, reproducibly"]);
}

component!(Remembering { calls: Mutex<f32> = |_| Ok(Mutex::new(0.0)) });

impl LayerReplacer for Remembering {
    fn replace(&self, call: LayerCall, mut output: RowsMut) -> Result<()> {
        let mut calls = self.calls.lock().map_err(|_| Error::new("poisoned"))?;
        *calls += 1.0;
        for row in 0..call.x.rows() {
            output.row_mut(row).iter_mut().zip(call.x.row(row)).for_each(|(y, x)| *y = x + *calls);
        }
        Ok(())
    }
}

#[test]
fn a_hook_that_remembers() {
    let faults = faults(&testing::layer_replacer::<Remembering>());
    for name in ["equal rows have equal results", "a sequence in parts has the same result as in one step"] {
        assert!(faults.contains(&name), "{faults:?}");
    }
}

component!(Scribbling {});

impl LayerObserver for Scribbling {
    fn observe(&self, call: LayerCall) -> Result<()> {
        let Some(first) = call.x.iter().flatten().next() else { return Ok(()) };
        let address = std::ptr::from_ref(first) as usize;
        // SAFETY: there is a number there; that it is the host's alone is the rule that is broken.
        unsafe { (address as *mut f32).write(7.0) };
        Ok(())
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn an_observer_that_writes() {
    let component = testing::layer_observer::<Scribbling>();
    assert!(faults(&component).contains(&"every element is written"));
    let outcomes = check(&component, &Setup::new(4));
    let said: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|said| said.contains("it changed rows that it may only read")), "{said:?}");
}
