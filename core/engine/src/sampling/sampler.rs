//! [`Sampler`]: a step of the chain from a plugin or another crate.

use super::random::mixed;
use super::{Candidates, Generator, LogitsStep, SamplingError};
use crate::named::{NamedEntry, check_options};
use menagerie_entries::{Entries, Entry};
use std::fmt;
use std::sync::Arc;

/// A registered sampler with its options; one is created for every generation.
pub trait SamplerStep: Send {
    /// Changes a row of logits `[V]` in place: minus infinity drops a token. `history` has all tokens of the sequence,
    /// and the first `prompt` of them are the prompt; `random` is the same for the same seed and position.
    ///
    /// # Errors
    /// The reason of a failure, as a sentence.
    fn sample(
        &mut self,
        logits: &mut [f32],
        history: &[u32],
        prompt: usize,
        random: u64,
    ) -> Result<(), String>;
}

/// Creates the step of a generation.
type Make = dyn Fn() -> Result<Box<dyn SamplerStep>, String> + Send + Sync;

/// A registered sampler with its options, as part of a request.
#[derive(Clone)]
pub struct Sampler {
    name: &'static str,
    make: Arc<Make>,
}

impl Sampler {
    /// The sampler `author/name:sampler`; `make` is called once for every generation.
    pub fn new(
        name: &'static str,
        make: impl Fn() -> Result<Box<dyn SamplerStep>, String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, make: Arc::new(make) }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl PartialEq for Sampler {
    /// Whether they are the same object.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sampler({})", self.name)
    }
}

/// Checks options (names and values as text) and returns the sampler with them.
type WithOptions = dyn Fn(&[(String, String)]) -> Result<Sampler, String> + Send + Sync;

/// A registered sampler, without its options.
#[derive(Clone)]
pub struct SamplerKind {
    /// `author/name:sampler`.
    pub name: &'static str,
    /// What it does, with the source of its formula.
    pub doc: &'static str,
    /// Its options, for listings: names and meanings.
    pub options: &'static [(&'static str, &'static str)],
    /// The crate or plugin that registers it.
    pub registered_by: &'static str,
    /// Checks options and returns the sampler with them.
    pub with_options: Arc<WithOptions>,
}

impl Entry for SamplerKind {
    const FAMILY: &'static str = "sampler";

    fn name(&self) -> &str {
        self.name
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }
}

impl Sampler {
    /// The sampler that a text names, `author/name:sampler` or `author/name:sampler=key=value,key=value`, among these
    /// entries.
    ///
    /// # Errors
    /// The name is unknown, or the sampler does not have an option; as a sentence.
    pub fn parse(text: &str, entries: &Entries) -> Result<Self, String> {
        let NamedEntry { kind, options } = NamedEntry::<SamplerKind>::parse(text, entries)?;
        let known: Vec<&str> = kind.options.iter().map(|(name, _)| *name).collect();
        let made = check_options(&options, &known).and_then(|()| (kind.with_options)(&options));
        made.map_err(|fault| format!("sampler `{}`: {fault}", kind.name))
    }
}

/// Random numbers by position: the same for the same seed, stream and position, whatever was drawn before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    key: u64,
}

impl Draws {
    /// The numbers of a stream of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self { key: Generator::stream(seed, stream).bits() }
    }

    /// 64 random bits for a position.
    pub(crate) fn at(self, position: u64) -> u64 {
        mixed(self.key ^ mixed(position))
    }
}

/// The step of a [`Sampler`] in a chain.
pub(crate) struct RegisteredStep {
    name: &'static str,
    step: Box<dyn SamplerStep>,
    draws: Draws,
    prompt: usize,
    row: Vec<f32>,
}

impl RegisteredStep {
    /// The step of this sampler.
    ///
    /// # Errors
    /// The sampler refuses its options.
    pub(crate) fn new(sampler: &Sampler, draws: Draws) -> Result<Self, SamplingError> {
        let name = sampler.name;
        match (sampler.make)() {
            Ok(step) => Ok(Self { name, step, draws, prompt: 0, row: Vec::new() }),
            Err(message) => Err(SamplingError::Sampler { name: name.to_owned(), message }),
        }
    }

    fn refused(&self, message: impl Into<String>) -> SamplingError {
        SamplingError::Sampler { name: self.name.to_owned(), message: message.into() }
    }
}

impl LogitsStep for RegisteredStep {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&mut self, prompt: usize) {
        self.prompt = prompt;
    }

    fn apply(&mut self, candidates: &mut Candidates, history: &[u32]) -> Result<(), SamplingError> {
        candidates.write_row(&mut self.row);
        let prompt = self.prompt.min(history.len());
        let random = self.draws.at(history.len() as u64);
        let done = self.step.sample(&mut self.row, history, prompt, random);
        done.map_err(|message| self.refused(message))?;
        if let Some(id) = self.row.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            return Err(self
                .refused(format!("set the logit of token {id} to {}, which is not a number", self.row[id])));
        }
        if self.row.iter().all(|logit| *logit == f32::NEG_INFINITY) {
            return Err(self.refused("dropped every token; at least one must stay"));
        }
        candidates.take_row(&self.row);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::{Chain, SamplingOptions};
    use std::sync::Mutex;

    /// Drops tokens below a limit, and records its arguments.
    struct Above {
        limit: f32,
        seen: Arc<Mutex<Vec<(usize, usize, u64)>>>,
    }

    impl SamplerStep for Above {
        fn sample(
            &mut self,
            logits: &mut [f32],
            history: &[u32],
            prompt: usize,
            random: u64,
        ) -> Result<(), String> {
            self.seen.lock().unwrap().push((history.len(), prompt, random));
            logits
                .iter_mut()
                .filter(|logit| **logit < self.limit)
                .for_each(|logit| *logit = f32::NEG_INFINITY);
            Ok(())
        }
    }

    /// History, prompt and random number of each call.
    type Seen = Arc<Mutex<Vec<(usize, usize, u64)>>>;

    fn above(limit: f32, seen: &Seen) -> Sampler {
        let seen = Arc::clone(seen);
        Sampler::new("test/steps:above", move || Ok(Box::new(Above { limit, seen: Arc::clone(&seen) })))
    }

    #[test]
    fn a_step_drops_tokens_and_is_given_what_it_asks() {
        let seen = Arc::default();
        let options = SamplingOptions {
            samplers: vec![above(1.5, &seen)],
            seed: Some(3),
            temperature: 50.0,
            ..SamplingOptions::default()
        };
        let mut chain = Chain::from_options(&options).unwrap();
        assert_eq!(chain.names()[0], "test/steps:above");
        chain.begin(2);
        let logits = [1.0, 2.0, 1.4, 3.0];
        let taken: Vec<u32> = (0..60).map(|i| chain.sample(&logits, &vec![0; 2 + i]).unwrap()).collect();
        assert!(taken.iter().all(|id| [1, 3].contains(id)) && taken.contains(&1) && taken.contains(&3));
        let first = seen.lock().unwrap().clone();
        assert_eq!((first[0].0, first[0].1, first[59].0), (2, 2, 61));
        // The same seed and position give the same number, whatever came before; other seeds give other numbers.
        let mut again = Chain::from_options(&options).unwrap();
        again.begin(2);
        again.sample(&logits, &[0; 32]).unwrap();
        let numbers: std::collections::BTreeSet<u64> = first.iter().map(|seen| seen.2).collect();
        assert_eq!(numbers.len(), 60);
        assert_eq!(seen.lock().unwrap()[60].2, first[30].2);
        let other = SamplingOptions { seed: Some(4), ..options };
        let mut other = Chain::from_options(&other).unwrap();
        other.sample(&logits, &[0; 32]).unwrap();
        assert_ne!(seen.lock().unwrap()[61].2, first[30].2);
    }

    #[test]
    fn a_sampler_is_named_with_its_options() {
        const DOC: &str = "Drops what is below a limit.";
        let told = |text: &str| Sampler::parse(text, &Entries::default()).unwrap_err();
        assert!(told("test/parsed:above").contains("--plugin-dir"));
        let kind = SamplerKind {
            name: "test/parsed:above",
            doc: DOC,
            options: &[("limit", "The limit.")],
            registered_by: "this test",
            with_options: Arc::new(|options| match options {
                [(key, value)] if key == "limit" => {
                    let limit: f32 = value.parse().map_err(|_| format!("limit = {value}: no number"))?;
                    let seen = Arc::default();
                    Ok(Sampler::new("test/parsed:above", move || {
                        Ok(Box::new(Above { limit, seen: Arc::clone(&seen) }))
                    }))
                }
                _ => Err("limit is wanted".to_owned()),
            }),
        };
        let mut entries = Entries::default();
        entries.add(kind.clone()).unwrap();
        let duplicate = entries.add(SamplerKind { registered_by: "another", doc: "Other.", ..kind });
        let expected = "sampler `test/parsed:above` is registered twice, by this test and by another;";
        assert!(duplicate.unwrap_err().to_string().starts_with(expected));
        assert_eq!(entries.all::<SamplerKind>().iter().map(|kind| kind.doc).collect::<Vec<_>>(), [DOC]);
        let told = |text: &str| Sampler::parse(text, &entries).unwrap_err();
        let sampler = Sampler::parse("test/parsed:above=limit=1.5", &entries).unwrap();
        let options = SamplingOptions { samplers: vec![sampler], ..SamplingOptions::greedy() };
        let mut chain = Chain::from_options(&options).unwrap();
        assert_eq!(chain.sample(&[1.0, 2.0], &[]), Ok(1));
        for (text, words) in [
            ("test/parsed:above", "limit is wanted"),
            ("test/parsed:above=limit=x", "limit = x: no number"),
            ("test/parsed:above=limit", "expected key=value"),
            ("test/parsed:other", "there are: test/parsed:above"),
            ("above", "author/name:sampler"),
        ] {
            assert!(told(text).contains(words), "{text}: {}", told(text));
        }
    }

    #[test]
    fn what_a_step_must_not_do_is_refused_by_name() {
        let seen = Arc::default();
        let greedy = |sampler: Sampler| {
            let options = SamplingOptions { samplers: vec![sampler], ..SamplingOptions::greedy() };
            Chain::from_options(&options).and_then(|mut chain| chain.sample(&[1.0, 2.0], &[]))
        };
        assert_eq!(greedy(above(1.5, &seen)), Ok(1));
        let told = greedy(above(9.0, &seen)).unwrap_err().to_string();
        assert!(told.contains("`test/steps:above`: dropped every token"), "{told}");
        struct Broken(f32);
        impl SamplerStep for Broken {
            fn sample(&mut self, logits: &mut [f32], _: &[u32], _: usize, _: u64) -> Result<(), String> {
                logits[1] = self.0;
                if self.0 == 0.0 { Err("out of order".to_owned()) } else { Ok(()) }
            }
        }
        for (value, words) in [(f32::NAN, "token 1"), (f32::INFINITY, "token 1"), (0.0, "out of order")] {
            let told = greedy(Sampler::new("test/steps:broken", move || Ok(Box::new(Broken(value)))));
            let told = told.unwrap_err().to_string();
            assert!(told.contains("`test/steps:broken`") && told.contains(words), "{told}");
        }
        let told = greedy(Sampler::new("test/steps:none", || Err("n must be above 0".to_owned())));
        assert!(told.unwrap_err().to_string().contains("n must be above 0"));
    }
}
