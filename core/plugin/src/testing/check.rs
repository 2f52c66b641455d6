//! [`check`]: the tests that every component must pass.

use super::check_others;
use super::feed::Feed;
use super::model::{Sequences, SlotRows};
use super::numbers::RandomNumbers;
use super::setup::Setup;
use crate::abi::Component;
use crate::error::{Error, Result};
use std::fmt;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOutcome {
    /// The name of the check.
    pub name: &'static str,
    /// The fault; `None` if the check passed.
    pub fault: Option<String>,
}

impl fmt::Display for CheckOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            None => write!(f, "{}: ok", self.name),
            Some(fault) => write!(f, "{}: {fault}", self.name),
        }
    }
}

/// A check: its name, and what it does.
pub(super) type Check = (&'static str, fn(&Component, &Setup) -> Result<()>);

/// Rows in order: nothing is kept of earlier ones.
const ROWS: &[Check] = &[
    ("an instance is created and destroyed", made),
    ("every element is written", written),
    ("equal rows have equal results", repeated),
    ("a batch computes the same as its sequences alone", batched),
    ("a step without rows works", empty),
    ("several threads can call at once", threaded),
    ("extreme numbers cause no panic", extreme),
];

/// Sequences that a step goes on with.
const PARTS: &[Check] = &[
    ("a sequence in parts has the same result as in one step", in_parts),
    ("no state is kept outside the declared states", kept_in_states),
];

/// Rows that are declared to have the same bits in any company.
const EXACT: &[Check] = &[("rows have the same bits in any company", exact)];

const ELEMENTS: &[Check] = &[("no element depends on another", element_by_element)];

/// Runs the checks of a component's family. `given` has the options that the component requires; with
/// [`Setup::any_options`] none are needed.
pub fn check(component: &Component, given: &Setup) -> Vec<CheckOutcome> {
    let ahead = component.flags & Component::LOOKS_AHEAD != 0;
    let lists: &[&[Check]] = match component.family {
        Component::MIXER | Component::FEED_FORWARD if !ahead => &[ROWS, PARTS],
        Component::MIXER | Component::FEED_FORWARD | Component::NORM => &[ROWS],
        Component::ACTIVATION => &[ROWS, ELEMENTS],
        Component::LAYER_HOOK => &[ROWS, PARTS],
        Component::ROPE => &[check_others::ROPES],
        Component::SAMPLER => &[check_others::SAMPLERS],
        Component::TOKENIZER => &[check_others::TOKENIZERS],
        family => {
            let fault = Some(format!("unknown family {family}"));
            return vec![CheckOutcome { name: "the family is known", fault }];
        }
    };
    let run = |(name, check): &Check| CheckOutcome {
        name,
        fault: check(component, given).err().map(|error| error.to_string()),
    };
    let exact = if component.flags & Component::EXACT_ROWS != 0 { EXACT } else { &[] };
    lists.iter().copied().chain([exact]).flatten().map(run).collect()
}

/// Rows that look like those of a model.
fn rows(given: &Setup, seed: u64, count: usize) -> Vec<f32> {
    RandomNumbers::new(seed.wrapping_add(given.seed)).reals(count * given.width, 1.0)
}

/// Sums may be taken in another order where rows come in other numbers: f32 has 7 digits, and a recurrence adds them up.
const TOLERANCE: f32 = 1e-4;

/// What of two outputs differs.
fn same(found: &[f32], wanted: &[f32], width: usize, what: &str) -> Result<()> {
    if found.len() != wanted.len() {
        return Err(Error::new(format!("{what}: expected {} numbers, found {}", wanted.len(), found.len())));
    }
    let largest = wanted.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let differs = (found - wanted).abs() > TOLERANCE * largest;
        if differs || found.is_nan() != wanted.is_nan() {
            let (row, column) = (index / width.max(1), index % width.max(1));
            return Err(Error::new(format!(
                "{what}: row {row}, element {column} is {found}, {wanted} is wanted"
            )));
        }
    }
    Ok(())
}

fn made(component: &Component, given: &Setup) -> Result<()> {
    given.create(component).map(drop)
}

fn written(component: &Component, given: &Setup) -> Result<()> {
    for count in [1, 2, 3, 17, 33] {
        let mut model = given.create(component)?;
        let output = model.rows(&rows(given, 1, count))?;
        for asked in model.instance.wanted.slots.iter().filter(|asked| !asked.reads) {
            let name = &asked.name;
            if model.slot(name).is_some_and(|rows| rows.iter().any(|x| !x.is_finite())) {
                return Err(Error::new(format!("slot {name} was not written, or is not finite")));
            }
        }
        if let Some(index) = output.iter().position(|x| !x.is_finite()) {
            let (row, column, x) = (index / given.width, index % given.width, output[index]);
            return Err(Error::new(format!(
                "row {row} of {count}: element {column} is {x}: it was not written, or is not finite"
            )));
        }
    }
    Ok(())
}

fn repeated(component: &Component, given: &Setup) -> Result<()> {
    let x = rows(given, 2, 9);
    let first = given.create(component)?.rows(&x)?;
    let mut model = given.create(component)?;
    for sequence in 0..3 {
        let again = model.step(&[Feed::new(sequence, &x)])?;
        if let Some(index) = again.iter().zip(&first).position(|(a, b)| a.to_bits() != b.to_bits()) {
            let (again, first) = (again[index], first[index]);
            return Err(Error::new(format!(
                "element {index} is {again} in sequence {sequence}, but was {first} before"
            )));
        }
    }
    Ok(())
}

/// Steps of several sequences: how many rows each has in each step.
const STEPS: [[usize; 4]; 3] = [[5, 1, 9, 0], [1, 1, 1, 3], [1, 7, 1, 1]];

fn batched(component: &Component, given: &Setup) -> Result<()> {
    let ahead = component.flags & Component::LOOKS_AHEAD != 0;
    let steps = if ahead { &STEPS[..1] } else { &STEPS[..] };
    let mut together = given.create(component)?;
    let mut alone = Vec::new();
    for _ in 0..4 {
        alone.push(given.create(component)?);
    }
    for (number, step) in steps.iter().enumerate() {
        let seed = |sequence: usize| (number * 10 + sequence) as u64;
        let inputs: Vec<Vec<f32>> = (0..4).map(|s| rows(given, seed(s), step[s])).collect();
        let feeds: Vec<Feed> = inputs.iter().enumerate().map(|(s, x)| Feed::new(s, x)).collect();
        let found = together.step(&feeds)?;
        let mut wanted = Vec::new();
        for (feed, alone) in feeds.into_iter().zip(&mut alone) {
            wanted.extend(alone.step(&[feed])?);
        }
        same(&found, &wanted, given.width, &format!("step {number} of 4 sequences"))?;
    }
    Ok(())
}

fn empty(component: &Component, given: &Setup) -> Result<()> {
    let mut model = given.create(component)?;
    model.step(&[])?;
    let first = model.rows(&rows(given, 3, 2))?;
    model.step(&[Feed::new(1, &[])])?;
    same(&model.step(&[Feed::new(1, &rows(given, 3, 2))])?, &first, given.width, "after a step without rows")
}

fn threaded(component: &Component, given: &Setup) -> Result<()> {
    let model = given.create(component)?;
    let inputs: Vec<Vec<f32>> = (0..3).map(|number| rows(given, 40 + number, 6)).collect();
    let run = |x: &Vec<f32>| {
        let (mut sequences, mut slots) = (Sequences::new(), SlotRows::new());
        let mut outputs = Vec::new();
        for _ in 0..4 {
            sequences.clear();
            slots.clear();
            outputs.push(model.instance.step(&mut sequences, &mut slots, &[Feed::new(0, x)])?);
        }
        Ok::<_, Error>(outputs)
    };
    let run = &run;
    let at_once = std::thread::scope(|scope| {
        let threads: Vec<_> = inputs.iter().map(|x| scope.spawn(move || run(x))).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    for (x, outputs) in inputs.iter().zip(at_once) {
        let outputs = outputs.map_err(|_| Error::new("a thread panicked"))??;
        let wanted = run(x)?;
        for (output, wanted) in outputs.iter().zip(&wanted) {
            same(output, wanted, given.width, "3 threads at once")?;
        }
    }
    Ok(())
}

fn extreme(component: &Component, given: &Setup) -> Result<()> {
    for x in [0.0, -0.0, 1e-42, 3e38, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let mut model = given.create(component)?;
        let mut input = rows(given, 4, 3);
        input[given.width..].fill(x);
        // An error is an answer, a panic is not.
        if let Err(error) = model.rows(&input) {
            if error.to_string().contains(" panicked: ") {
                return Err(Error::new(format!("rows of {x}: {error}")));
            }
        }
    }
    Ok(())
}

fn in_parts(component: &Component, given: &Setup) -> Result<()> {
    let x = rows(given, 5, 23);
    let whole = given.create(component)?.rows(&x)?;
    for parts in [&[1; 23][..], &[22, 1], &[1, 22], &[3, 7, 2, 11], &[16, 7]] {
        let mut model = given.create(component)?;
        let (mut found, mut rest) = (Vec::new(), &x[..]);
        for part in parts {
            let (now, later) = rest.split_at(part * given.width);
            found.extend(model.rows(now)?);
            rest = later;
        }
        same(&found, &whole, given.width, &format!("in parts of {parts:?} rows"))?;
    }
    Ok(())
}

/// A sequence alone row by row, and in parts of several sizes beside other sequences.
fn exact(component: &Component, given: &Setup) -> Result<()> {
    if component.flags & Component::LOOKS_AHEAD != 0 {
        return Err(Error::new("a component that looks ahead cannot declare exact rows"));
    }
    let x = rows(given, 10, 23);
    let mut alone = given.create(component)?;
    let mut wanted = Vec::new();
    for row in x.chunks_exact(given.width) {
        wanted.extend(alone.rows(row)?);
    }
    for parts in [&[23][..], &[1, 8, 2, 12], &[16, 1, 6]] {
        let mut model = given.create(component)?;
        let (mut found, mut rest) = (Vec::new(), &x[..]);
        for (number, part) in parts.iter().enumerate() {
            let (now, later) = rest.split_at(part * given.width);
            let other = rows(given, 11 + number as u64, 1 + 5 * number);
            let step = model.step(&[Feed::new(1, &other), Feed::new(0, now)])?;
            found.extend_from_slice(&step[other.len()..]);
            rest = later;
        }
        if let Some(index) = found.iter().zip(&wanted).position(|(a, b)| a.to_bits() != b.to_bits()) {
            let (row, column) = (index / given.width, index % given.width);
            return Err(Error::new(format!(
                "in parts of {parts:?} rows beside another sequence: row {row}, element {column} is {}, and {} alone",
                found[index], wanted[index]
            )));
        }
    }
    Ok(())
}

fn kept_in_states(component: &Component, given: &Setup) -> Result<()> {
    let (prompt, next) = (rows(given, 6, 7), rows(given, 7, 4));
    let wanted = {
        let mut model = given.create(component)?;
        model.rows(&prompt)?;
        model.rows(&next)?
    };
    let mut model = given.create(component)?;
    model.rows(&prompt)?;
    let mut other = given.create(component)?;
    other.adopt(&model, 0, 0);
    // What another sequence does in between is of no matter.
    other.step(&[Feed::new(1, &rows(given, 8, 5))])?;
    same(&other.rows(&next)?, &wanted, given.width, "states taken to another instance")
}

fn element_by_element(component: &Component, given: &Setup) -> Result<()> {
    let x = rows(given, 9, 5);
    let wanted = given.create(component)?.rows(&x)?;
    let turned: Vec<f32> = x.iter().rev().copied().collect();
    let found: Vec<f32> = given.create(component)?.rows(&turned)?.into_iter().rev().collect();
    same(&found, &wanted, given.width, "elements in the other order")
}
