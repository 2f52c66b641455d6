//! [`Chain`]: steps in order, then a pick.

use super::candidates::is_broken;
use super::random::fresh_seed;
use super::stage_steps::{StageTexts, stage_steps};
use super::{
    CandidateToken, Candidates, ChainStage, ConstraintStep, Draws, Generator, Greedy, LogitBias, LogitsStep,
    MinTokens, Pick, Random, RegisteredStep, SamplingError, SamplingOptions,
};

/// A list of steps and a pick; keeps the candidates from token to token.
pub struct Chain {
    /// The first step, if the answer has a constraint.
    constraint: Option<ConstraintStep>,
    steps: Vec<Box<dyn LogitsStep>>,
    pick: Box<dyn Pick>,
    candidates: Candidates,
    seed: u64,
}

/// Random streams of one seed: the pick and the registered samplers draw independently, and XTC from stream 1.
const PICK_STREAM: u64 = 0;
const FIRST_REGISTERED_STREAM: u64 = 2;

/// Stages that change logits without dropping candidates, in the default order.
const SHIFTING: [ChainStage; 2] = [ChainStage::Penalties, ChainStage::Dry];
/// Stages that drop candidates, in the default order.
const TRUNCATING: [ChainStage; 5] =
    [ChainStage::TopK, ChainStage::Typical, ChainStage::TopP, ChainStage::MinP, ChainStage::Xtc];

impl Chain {
    /// A chain of these steps; `seed` is the one that the outcome reports.
    pub(crate) fn new(steps: Vec<Box<dyn LogitsStep>>, pick: Box<dyn Pick>, seed: u64) -> Self {
        Self { constraint: None, steps, pick, candidates: Candidates::default(), seed }
    }

    /// llama.cpp's default chain with the steps that the options enable. As there, temperature 0 takes the best token
    /// that the other steps leave: typical and XTC may drop the best one. Without those two, only registered samplers
    /// can change the best token after biases and penalties. DRY has no sequence breakers here, which need a tokenizer.
    ///
    /// # Errors
    /// An option is out of its range.
    pub fn from_options(options: &SamplingOptions) -> Result<Self, SamplingError> {
        Self::with_texts(options, &StageTexts::default())
    }

    /// [`Self::from_options`] with what its stages know about the vocabulary.
    ///
    /// # Errors
    /// As [`Self::from_options`]; a stage needs a tokenizer.
    pub(crate) fn with_texts(options: &SamplingOptions, texts: &StageTexts) -> Result<Self, SamplingError> {
        options.check()?;
        let seed = options.seed.unwrap_or_else(fresh_seed);
        let mut steps: Vec<Box<dyn LogitsStep>> = Vec::new();
        if !options.logit_bias.is_empty() {
            steps.push(Box::new(LogitBias::new(options.logit_bias.iter().copied())));
        }
        let random = || Box::new(Random::new(Generator::stream(seed, PICK_STREAM)));
        if let Some(order) = &options.order {
            steps.extend(registered_steps(options, seed)?);
            steps.extend(stage_steps(order, options, texts, seed)?);
            return Ok(Self::new(steps, random(), seed));
        }
        steps.extend(stage_steps(&SHIFTING, options, texts, seed)?);
        steps.extend(registered_steps(options, seed)?);
        let greedy = options.temperature <= 0.0;
        if !greedy || options.may_drop_the_best() {
            steps.extend(stage_steps(&TRUNCATING, options, texts, seed)?);
        }
        if greedy {
            return Ok(Self::new(steps, Box::new(Greedy), seed));
        }
        steps.extend(stage_steps(&[ChainStage::Temperature], options, texts, seed)?);
        Ok(Self::new(steps, random(), seed))
    }

    /// The same chain; none of the tokens `ends` is sampled before `least` tokens are part of the answer.
    pub(crate) fn with_least(mut self, ends: Vec<u32>, least: usize) -> Self {
        if least > 0 {
            self.steps.insert(0, Box::new(MinTokens::new(ends, least)));
        }
        self
    }

    /// The same chain with a constraint before its other steps.
    pub(crate) fn with_constraint(self, constraint: Option<ConstraintStep>) -> Self {
        Self { constraint, ..self }
    }

    /// The constraint of the answer.
    pub(crate) fn constraint(&self) -> Option<&ConstraintStep> {
        self.constraint.as_ref()
    }

    /// The constraint of the answer, to begin the answer after the reasoning.
    pub(crate) fn constraint_mut(&mut self) -> Option<&mut ConstraintStep> {
        self.constraint.as_mut()
    }

    /// Notes that a token became part of the answer. It must be called once for each such token, and not for the token
    /// that ends the answer.
    ///
    /// # Errors
    /// The error of the constraint.
    pub(crate) fn accept(&mut self, token: u32) -> Result<(), SamplingError> {
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token)?;
        }
        self.steps.iter_mut().try_for_each(|step| step.accept(token))
    }

    /// Sets the number of prompt tokens in the history, before the first sample.
    pub fn begin(&mut self, prompt: usize) {
        self.steps.iter_mut().for_each(|step| step.begin(prompt));
    }

    /// The seed of its random draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The names of the steps and of the pick, in order.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let pick = if self.pick.takes_best() { "greedy" } else { "random" };
        self.steps.iter().map(|step| step.name()).chain([pick]).collect()
    }

    /// Samples the token that follows `history` from its logits `[V]`.
    ///
    /// # Errors
    /// A logit is NaN, no token is allowed, or a step fails.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32, SamplingError> {
        if self.constraint.is_none() && self.steps.is_empty() && self.pick.takes_best() {
            return best(logits);
        }
        if let Some(id) = logits.iter().position(|&logit| is_broken(logit)) {
            return Err(SamplingError::NotANumber { id, logit: logits[id] });
        }
        self.candidates.refill(logits);
        if let Some(constraint) = &mut self.constraint {
            constraint.apply(&mut self.candidates, history)?;
        }
        for step in &mut self.steps {
            step.apply(&mut self.candidates, history)?;
            let broken = self.candidates.entries().iter().find(|entry| is_broken(entry.logit));
            if let Some(&CandidateToken { id, logit }) = broken {
                return Err(SamplingError::BrokenStep { step: step.name(), id, logit });
            }
        }
        if self.candidates.best().is_none_or(|best| best.logit == f32::NEG_INFINITY) {
            return Err(SamplingError::NothingLeft);
        }
        self.pick.pick(&mut self.candidates).ok_or(SamplingError::NothingLeft)
    }
}

/// The token with the highest logit (lower id if equal).
fn best(logits: &[f32]) -> Result<u32, SamplingError> {
    let (mut highest, mut token) = (f32::NEG_INFINITY, None);
    for (&logit, id) in logits.iter().zip(0u32..) {
        if is_broken(logit) {
            return Err(SamplingError::NotANumber { id: id as usize, logit });
        }
        if logit > highest {
            (highest, token) = (logit, Some(id));
        }
    }
    token.ok_or(SamplingError::NothingLeft)
}

/// Samplers of other crates and plugins, in the requested order; each draws from its own stream.
fn registered_steps(options: &SamplingOptions, seed: u64) -> Result<Vec<Box<dyn LogitsStep>>, SamplingError> {
    let numbered = options.samplers.iter().zip(FIRST_REGISTERED_STREAM..);
    numbered
        .map(|(sampler, stream)| {
            let step = RegisteredStep::new(sampler, Draws::new(seed, stream))?;
            Ok(Box::new(step) as Box<dyn LogitsStep>)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(options: &SamplingOptions) -> Chain {
        Chain::from_options(options).unwrap()
    }

    #[test]
    fn the_order_is_llama_cpps() {
        let all = SamplingOptions {
            logit_bias: vec![(1, 0.5)],
            repeat_penalty: 1.1,
            dry_multiplier: 0.8,
            typical_p: 0.9,
            xtc_probability: 0.5,
            ..Default::default()
        };
        let expected = [
            "logit-bias",
            "penalties",
            "dry",
            "top-k",
            "typical",
            "top-p",
            "min-p",
            "xtc",
            "temperature",
            "random",
        ];
        assert_eq!(chain(&all).names(), expected);
        assert_eq!(chain(&SamplingOptions::greedy()).names(), ["greedy"]);
    }

    #[test]
    fn a_request_chooses_stages_and_their_order() {
        let names = |order: &[ChainStage], options: SamplingOptions| {
            chain(&SamplingOptions { order: Some(order.to_vec()), ..options }).names()
        };
        let all = || SamplingOptions { typical_p: 0.9, logit_bias: vec![(0, 1.0)], ..Default::default() };
        let order = [ChainStage::Temperature, ChainStage::TopP, ChainStage::TopK];
        assert_eq!(names(&order, all()), ["logit-bias", "temperature", "top-p", "top-k", "random"]);
        assert_eq!(names(&[], all()), ["logit-bias", "random"]);
        // A stage that its options disable is left out, and temperature 0 keeps the best token wherever it stands.
        let greedy = SamplingOptions { top_k: 0, ..SamplingOptions::greedy() };
        assert_eq!(names(&order, greedy.clone()), ["temperature", "top-p", "random"]);
        let first = SamplingOptions { order: Some(order.to_vec()), ..greedy };
        assert_eq!(chain(&first).sample(&[1.0, 3.0, 2.0], &[]), Ok(1));
        let infill = SamplingOptions { order: Some(vec![ChainStage::Infill]), ..Default::default() };
        let error = Chain::from_options(&infill).map(drop).unwrap_err().to_string();
        assert!(error.contains("infill") && error.contains("tokenizer"), "{error}");
    }

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        let logits: Vec<f32> = (0..50).map(|i| (i % 7) as f32 * 0.3).collect();
        let draw = |seed| {
            let mut chain = chain(&SamplingOptions { seed: Some(seed), ..Default::default() });
            (0..40).map(|_| chain.sample(&logits, &[]).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn greedy_sees_penalties() {
        let options = SamplingOptions { presence_penalty: 2.0, ..SamplingOptions::greedy() };
        assert_eq!(chain(&options).sample(&[1.0, 2.0], &[1]), Ok(0));
        assert_eq!(chain(&options).sample(&[1.0, 2.0], &[]), Ok(1));
    }

    /// As `llama-completion --temp 0` does with `--typical-p 0.2` and with `--xtc-probability 1 --xtc-threshold 0.05`.
    #[test]
    fn greedy_takes_the_best_of_what_typical_and_xtc_leave() {
        // The distributions and the expected candidates are those of llama.cpp's tests/test-sampling.cpp.
        let logits = |p: [f32; 4]| p.map(f32::ln);
        let greedy = SamplingOptions::greedy();
        let xtc = |threshold| SamplingOptions {
            xtc_probability: 1.0,
            xtc_threshold: threshold,
            min_p: 0.0,
            top_p: 1.0,
            ..greedy.clone()
        };
        let spread = logits([0.4, 0.3, 0.2, 0.1]);
        for (threshold, token) in [(0.09, 3), (0.19, 2), (0.29, 1), (0.39, 0)] {
            assert_eq!(chain(&xtc(threshold)).sample(&spread, &[]), Ok(token));
        }
        assert_eq!(chain(&greedy).sample(&spread, &[]), Ok(0));
        let typical = SamplingOptions { typical_p: 0.5, ..greedy.clone() };
        assert_eq!(chain(&typical).sample(&logits([0.97, 0.01, 0.01, 0.01]), &[]), Ok(0));
        assert_eq!(chain(&typical).sample(&logits([0.4, 0.2, 0.2, 0.2]), &[]), Ok(1));
        // Truncation comes before XTC, so it matters at temperature 0 too: only the best token is left to drop.
        let cut = SamplingOptions { top_k: 1, ..xtc(0.09) };
        assert_eq!(chain(&cut).sample(&spread, &[]), Ok(0));
        let all = SamplingOptions { xtc_probability: 0.5, typical_p: 0.9, ..greedy };
        assert_eq!(chain(&all).names(), ["top-k", "typical", "top-p", "min-p", "xtc", "greedy"]);
    }

    #[test]
    fn the_short_way_takes_what_the_long_one_takes() {
        let mut generator = Generator::new(2);
        let mut biased = chain(&SamplingOptions { logit_bias: vec![(0, 0.0)], ..SamplingOptions::greedy() });
        for _ in 0..50 {
            let logits: Vec<f32> = (0..300).map(|_| generator.below(40) as f32).collect();
            assert_eq!(chain(&SamplingOptions::greedy()).sample(&logits, &[]), biased.sample(&logits, &[]));
        }
    }

    /// Numbers at the ends of the range of f32 give the best token or an error, never another token.
    #[test]
    fn options_that_overflow_give_the_best_token_or_an_error() {
        let logits = [0.5f32, 3.0, 9.0, -40.0, 8.9];
        for temperature in [1e-30, 1e-38, 1e-40, f32::from_bits(1)] {
            for top_k in [0, 3] {
                let options = SamplingOptions { temperature, top_k, ..Default::default() };
                assert_eq!(chain(&options).sample(&logits, &[0, 1]), Ok(2), "{temperature}");
            }
        }
        let usual = SamplingOptions { seed: Some(1), ..Default::default() };
        let refused = [
            (SamplingOptions { repeat_penalty: 1e-38, ..usual.clone() }, "--repeat-penalty (1e-38)"),
            (SamplingOptions { frequency_penalty: f32::MIN, ..usual.clone() }, "--frequency-penalty"),
            (
                SamplingOptions { presence_penalty: f32::MIN, frequency_penalty: -1e38, ..usual.clone() },
                "--presence-penalty",
            ),
        ];
        for (options, words) in refused {
            let error = chain(&options).sample(&logits, &[2, 2, 2]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let biased = SamplingOptions { logit_bias: vec![(4, f32::MAX), (4, f32::MAX)], ..usual.clone() };
        assert_eq!(chain(&biased).sample(&logits, &[]), Ok(4));
        let forbidden = SamplingOptions { frequency_penalty: f32::MAX, ..usual };
        assert_eq!(chain(&forbidden).sample(&logits, &[2, 2, 4, 4]).map(|id| id == 2 || id == 4), Ok(false));
    }

    /// The error names the step that moves a logit past the range of f32.
    #[test]
    fn a_broken_step_is_named() {
        struct Broken(f32);
        impl LogitsStep for Broken {
            fn name(&self) -> &'static str {
                "broken"
            }

            fn apply(&mut self, candidates: &mut Candidates, _: &[u32]) -> Result<(), SamplingError> {
                candidates.entries_mut()[1].logit *= self.0;
                Ok(())
            }
        }
        for factor in [f32::NAN, -f32::NAN, f32::INFINITY] {
            let mut chain = Chain::new(vec![Box::new(Broken(factor))], Box::new(Greedy), 0);
            let error = chain.sample(&[1.0, 2.0], &[]).unwrap_err();
            assert!(matches!(error, SamplingError::BrokenStep { step: "broken", id: 1, .. }), "{error}");
        }
    }

    #[test]
    fn broken_logits_are_refused() {
        let mut greedy = chain(&SamplingOptions::greedy());
        let mut random = chain(&SamplingOptions::default());
        for broken in [f32::NAN, f32::INFINITY] {
            for chain in [&mut greedy, &mut random] {
                let error = chain.sample(&[0.0, broken, 9.0], &[]).unwrap_err();
                assert!(matches!(error, SamplingError::NotANumber { id: 1, .. }), "{error}");
                assert!(error.to_string().contains(&format!("token 1 is {broken}")), "{error}");
            }
        }
        assert_eq!(greedy.sample(&[f32::NEG_INFINITY; 2], &[]), Err(SamplingError::NothingLeft));
        assert_eq!(greedy.sample(&[], &[]), Err(SamplingError::NothingLeft));
    }
}
