//! Drafts of one answer: whatever is guessed, the answer is the one without guesses.

use crate::byte_text::{Bytes, END, VOCABULARY, ids};
use crate::fixture::{engine, mixing};
use menagerie_engine::{
    DraftPace, DraftRequest, DraftSource, DraftToken, Drafter, Event, GenerateError, MAX_DRAFT, Outcome,
    PromptLookup, Request, SamplingOptions, Scheduler, Session, Statistics, StopReason,
};
use menagerie_model::InferenceStep;
use menagerie_random::SplitMix64;
use menagerie_testkit::FakeModel;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a test guesses.
#[derive(Clone, Debug)]
pub(crate) enum Guesses {
    /// The known prompt and answer.
    Right(Vec<u32>),
    /// Other tokens than those.
    Wrong(Vec<u32>),
    /// The known tokens, some of which are replaced.
    Mixed(Vec<u32>, u64),
    /// Always this token.
    Always(u32),
}

impl DraftSource for Guesses {
    fn start(&self, _: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        Ok(Box::new(Guessing { what: self.clone(), random: SplitMix64::new(3) }))
    }
}

struct Guessing {
    what: Guesses,
    random: SplitMix64,
}

impl Drafter for Guessing {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken> {
        let (known, chance) = match &self.what {
            Guesses::Always(id) => return vec![DraftToken { id: *id, grade: 7 }; most],
            Guesses::Right(known) => (known, 0),
            Guesses::Wrong(known) => (known, 1),
            Guesses::Mixed(known, chance) => (known, *chance as usize),
        };
        let rest = known.get(tokens.len()..).unwrap_or_default().iter().take(most);
        let guess = |&id: &u32| {
            let is_wrong = chance > 0 && self.random.below(chance) == 0;
            DraftToken { id: if is_wrong { id ^ 1 } else { id }, grade: 7 }
        };
        rest.map(guess).collect()
    }
}

/// All kinds of guesses for a known text.
pub(crate) fn all_guesses(text: &[u32]) -> Vec<Arc<dyn DraftSource>> {
    vec![
        Arc::new(Guesses::Right(text.to_vec())),
        Arc::new(Guesses::Wrong(text.to_vec())),
        Arc::new(Guesses::Mixed(text.to_vec(), 2)),
        Arc::new(Guesses::Mixed(text.to_vec(), 6)),
        Arc::new(PromptLookup::default()),
    ]
}

/// Greedy, the default, and chains that look at earlier tokens, drop tokens and draw from several streams.
pub(crate) fn samplers(seed: u64) -> [SamplingOptions; 5] {
    let usual = SamplingOptions::default().with_seed(seed);
    [
        SamplingOptions::greedy().with_seed(seed),
        usual.clone(),
        usual.clone().with_repeat_penalty(1.3).with_presence_penalty(0.4).with_frequency_penalty(0.2),
        usual
            .clone()
            .with_temperature(1.4)
            .with_top_k(0)
            .with_top_p(1.0)
            .with_min_p(0.0)
            .with_logit_bias(vec![(3, 4.0), (7, f32::NEG_INFINITY), (11, 3.5)]),
        usual
            .with_dry_multiplier(0.8)
            .with_dry_allowed_length(1)
            .with_xtc_probability(0.5)
            .with_xtc_threshold(0.05)
            .with_typical_p(0.9),
    ]
}

/// A session that computes every guess.
pub(crate) fn always(model: &Arc<FakeModel>, context: usize) -> Session {
    let scheduler = Scheduler::for_one(engine(model, context, 16), Vec::new()).unwrap();
    Session::new(scheduler.with_draft_pace(DraftPace::Always), Some(Arc::new(Bytes))).unwrap()
}

/// The same model without and with a state that takes no token back.
fn kinds(make: impl Fn() -> FakeModel) -> [Arc<FakeModel>; 2] {
    [make(), make().recurrent()].map(Arc::new)
}

/// What a generation shows and returns, without its times.
pub(crate) type Shown = (Vec<Event>, Result<Outcome, String>);

pub(crate) fn shown(session: &mut Session, prompt: &[u32], request: &Request) -> (Shown, Statistics) {
    let mut events = Vec::new();
    let outcome = session.generate(prompt, request, |event| events.push(event));
    let mut statistics = Statistics::default();
    let outcome = outcome.map(|mut outcome| {
        statistics = std::mem::take(&mut outcome.statistics);
        // A greedy request has a new seed each time, and does not use it.
        outcome.seed = 0;
        outcome
    });
    ((events, outcome.map_err(|error| error.to_string())), statistics)
}

/// The answer is the same with every kind of guesses. Returns the sums of drafted and accepted tokens.
fn compare(model: &Arc<FakeModel>, context: usize, prompt: &[u32], request: &Request) -> [usize; 2] {
    let (plain, statistics) = shown(&mut always(model, context), prompt, request);
    assert_eq!((statistics.drafted_tokens, statistics.accepted_tokens), (0, 0));
    let answer = plain.1.as_ref().map_or(Vec::new(), |outcome| outcome.tokens.clone());
    let text = [prompt, &answer, &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    let mut sums = [0; 2];
    for source in all_guesses(&text) {
        let name = format!("{source:?}");
        let request = request.clone().with_draft(source);
        let (drafted, statistics) = shown(&mut always(model, context), prompt, &request);
        assert_eq!(plain, drafted, "{name}");
        assert!(statistics.accepted_tokens <= statistics.drafted_tokens, "{statistics:?}");
        sums[0] += statistics.drafted_tokens;
        sums[1] += statistics.accepted_tokens;
    }
    sums
}

#[test]
fn a_hundred_seeds_and_five_samplers_answer_as_without_drafts() {
    for model in kinds(|| FakeModel::new(VOCABULARY, mixing)) {
        let mut sums = [0; 2];
        for seed in 0..100 {
            for sampling in samplers(seed) {
                let prompt: Vec<u32> = (0..6).map(|at| (seed as u32 * 7 + at * 5) % 50).collect();
                let request = Request::greedy(24).with_sampling(sampling).with_logprobs(2);
                let [drafted, accepted] = compare(&model, 64, &prompt, &request);
                (sums[0], sums[1]) = (sums[0] + drafted, sums[1] + accepted);
            }
        }
        assert!(sums[0] > 30_000 && sums[1] > 15_000 && sums[1] < sums[0], "{sums:?}");
    }
}

/// A recurrent state goes back after a wrong guess: the next step computes the accepted tokens again, before its own
/// token, and steps do not become larger and larger.
#[test]
fn accepted_tokens_are_computed_again_in_the_next_step() {
    let answer: Vec<u32> = (0..60).map(|at| 10 + at * 3 % 37).collect();
    let model = Arc::new(FakeModel::saying(VOCABULARY, 3, &answer).recurrent());
    let text = [&[1, 2, 3][..], &answer].concat();
    for (source, most_steps) in [
        (Guesses::Right(text.clone()), 8),
        (Guesses::Mixed(text.clone(), 6), 40),
        (Guesses::Wrong(text.clone()), 60),
    ] {
        model.take_seen();
        let request = Request::greedy(60).with_draft(Arc::new(source.clone()) as Arc<dyn DraftSource>);
        let outcome = always(&model, 128).generate(&[1, 2, 3], &request, |_| {}).unwrap();
        assert_eq!(outcome.tokens, answer);
        let seen = model.take_seen();
        assert!(seen.len() <= most_steps, "{source:?}: {}", seen.len());
        assert!(seen.iter().all(|part| part.tokens.len() <= 2 * MAX_DRAFT + 1 && part.logits > 0));
        let again = seen.iter().filter(|part| part.logits < part.tokens.len()).count();
        assert_eq!(again > 1, !matches!(source, Guesses::Right(_)), "{source:?}");
    }
}

/// After the first token, a right draft needs one step for nine tokens; the first of them is no guess.
#[test]
fn a_right_draft_needs_few_steps_and_a_wrong_one_as_many_as_none() {
    let answer: Vec<u32> = (0..40).map(|at| 10 + at * 3 % 37).collect();
    let model = Arc::new(FakeModel::saying(VOCABULARY, 3, &answer));
    let text = [&[1, 2, 3][..], &answer].concat();
    let sources: [Arc<dyn DraftSource>; 2] =
        [Arc::new(Guesses::Right(text.clone())), Arc::new(Guesses::Wrong(text))];
    for (source, steps, accepted) in [(Some(&sources[0]), 6, 34), (Some(&sources[1]), 40, 0), (None, 40, 0)] {
        model.take_seen();
        let request = Request::greedy(40).with_draft(source.cloned());
        let outcome = always(&model, 64).generate(&[1, 2, 3], &request, |_| {}).unwrap();
        assert_eq!(outcome.tokens, answer);
        let seen = model.take_seen();
        assert_eq!((seen.len(), outcome.statistics.accepted_tokens), (steps, accepted), "{source:?}");
        let decoded = seen.iter().filter(|part| matches!(part.step, InferenceStep::Decode { .. }));
        assert!(decoded.clone().all(|part| part.logits == part.tokens.len() && part.logits <= MAX_DRAFT + 1));
        assert_eq!(decoded.count(), steps - 1);
    }
}

#[test]
fn limits_end_tokens_and_stop_strings_end_a_drafted_answer_where_they_end_another() {
    let answer = [ids("one two three four stop here"), vec![END], ids("rest")].concat();
    let prompt = ids("text");
    let base = Request::greedy(30).with_logprobs(1);
    for model in kinds(|| FakeModel::saying(VOCABULARY, 4, &answer)) {
        for most in 0..30 {
            compare(&model, 64, &prompt, &base.clone().with_max_tokens(most));
        }
        for stop in ["e", "two t", "four stop", " stop", "here", "never"] {
            compare(&model, 64, &prompt, &base.clone().with_stop(vec![stop.to_owned(), "zzz".to_owned()]));
        }
        compare(&model, 64, &prompt, &base.clone().with_ignore_eos(true));
        // The end of the context, in the middle of a draft.
        for context in 5..34 {
            let request = base.clone().with_max_tokens(None).with_ignore_eos(true);
            compare(&model, context, &prompt, &request);
        }
    }
}

/// The session keeps only tokens of the answer, and the next prompt starts with them.
#[test]
fn a_session_goes_on_after_a_drafted_answer() {
    let plain = kinds(|| FakeModel::new(VOCABULARY, mixing));
    let windowed = kinds(|| FakeModel::new(VOCABULARY, mixing).windowed(9));
    for model in plain.into_iter().chain(windowed) {
        let (mut plain, mut drafted) = (always(&model, 128), always(&model, 128));
        let mut text: Vec<u32> = vec![4, 8, 15];
        for turn in 0..5 {
            let request = Request::greedy(13).with_logprobs(0);
            let (mut expected, _) = shown(&mut plain, &text, &request);
            let answer = expected.1.as_ref().unwrap().tokens.clone();
            let known = [&text[..], &answer, &[9; 9]].concat();
            let source: Arc<dyn DraftSource> = Arc::new(Guesses::Mixed(known, 4));
            let (mut found, _) = shown(&mut drafted, &text, &request.with_draft(source));
            // A recurrent state that went back has fewer tokens, so more of the next prompt is computed.
            for events in [&mut expected.0, &mut found.0] {
                events.retain(|event| !matches!(event, Event::Prefill { .. }));
            }
            assert_eq!(expected, found, "turn {turn}");
            assert!(drafted.sequence().pending() == 0);
            assert!([&text[..], &answer].concat().starts_with(drafted.sequence().tokens()));
            text = [&text[..], &answer, &[turn, 6]].concat();
        }
    }
}

#[test]
fn the_limit_of_a_rope_regime_is_crossed_as_without_drafts() {
    for limit in 6..24 {
        for model in kinds(|| FakeModel::new(VOCABULARY, mixing).with_limit(limit)) {
            compare(&model, 64, &[1, 2, 3, 4, 5], &Request::greedy(20).with_logprobs(0));
        }
    }
}

/// A row that is not finite fails an answer only if the answer has its token, with the same error.
#[test]
fn broken_rows_count_only_where_the_answer_reaches_them() {
    let answer = ids("abcdefghijklmnop");
    for value in [f32::NAN, f32::INFINITY] {
        let says = || FakeModel::saying(VOCABULARY, 3, &answer);
        for broken in kinds(|| says().broken_after(u32::from(b'f'), value)) {
            compare(&broken, 64, &[1, 2, 3], &Request::greedy(12).with_logprobs(1));
            let (found, _) = shown(&mut always(&broken, 64), &[1, 2, 3], &Request::greedy(12));
            assert!(found.1.unwrap_err().contains("after position 8"), "f is the ninth token");
        }
        for elsewhere in kinds(|| says().broken_after(u32::from(b'!'), value)) {
            let source: Arc<dyn DraftSource> = Arc::new(Guesses::Always(u32::from(b'!')));
            let request = Request::greedy(12).with_draft(source);
            let outcome = always(&elsewhere, 64).generate(&[1, 2, 3], &request, |_| {}).unwrap();
            assert_eq!((outcome.text.as_str(), outcome.statistics.accepted_tokens), ("abcdefghijkl", 0));
            assert!(outcome.statistics.drafted_tokens > 30);
        }
    }
}

/// The same for a sequence whose rows the model reports as unusable.
#[test]
fn a_failure_of_a_guess_is_not_the_failure_of_the_answer() {
    let answer = ids("abcdefghijklmnop");
    for reached in kinds(|| FakeModel::saying(VOCABULARY, 3, &answer).failing_on(u32::from(b'f'))) {
        compare(&reached, 64, &[1, 2, 3], &Request::greedy(12));
    }
    for elsewhere in kinds(|| FakeModel::saying(VOCABULARY, 3, &answer).failing_on(u32::from(b'!'))) {
        let source: Arc<dyn DraftSource> = Arc::new(Guesses::Always(u32::from(b'!')));
        let request = Request::greedy(12).with_draft(source);
        let outcome = always(&elsewhere, 64).generate(&[1, 2, 3], &request, |_| {}).unwrap();
        assert_eq!(outcome.text, "abcdefghijkl");
    }
}

/// By the callback or by the flag, after each token: also between two tokens of the same step.
#[test]
fn a_cancelled_answer_has_the_tokens_so_far() {
    let answer = ids("abcdefghijklmnopqrst");
    let [model, recurrent] = kinds(|| FakeModel::saying(VOCABULARY, 3, &answer));
    let source: Arc<dyn DraftSource> = Arc::new(Guesses::Right([&[1, 2, 3][..], &answer].concat()));
    for (count, by_flag) in (1..12).flat_map(|count| [(count, false), (count, true)]) {
        let ways = [(&model, None), (&model, Some(&source)), (&recurrent, Some(&source))];
        let mut outcomes = ways.map(|(model, draft)| {
            let flag = Arc::new(AtomicBool::new(false));
            let request = Request::greedy(15).with_draft(draft.cloned()).with_cancel(Arc::clone(&flag));
            let mut tokens = 0;
            let outcome = always(model, 64).generate(&[1, 2, 3], &request, |event| {
                tokens += usize::from(matches!(event, Event::Token { .. }));
                if tokens < count {
                    return ControlFlow::Continue(());
                }
                flag.store(true, Ordering::Relaxed);
                if by_flag { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            outcome.unwrap()
        });
        outcomes.iter_mut().for_each(|outcome| {
            (outcome.statistics, outcome.seed) = (Statistics::default(), 0);
        });
        assert_eq!(outcomes[0], outcomes[1], "{count} {by_flag}");
        assert_eq!(outcomes[0], outcomes[2], "{count} {by_flag}");
        assert_eq!((outcomes[0].tokens.len(), &outcomes[0].reason), (count, &StopReason::Cancelled));
    }
}

#[test]
fn models_and_hooks_that_cannot_be_drafted_are_refused_by_name() {
    let source: Arc<dyn DraftSource> = Arc::new(PromptLookup::default());
    let request = Request::greedy(3).with_draft(source);
    let model = FakeModel::new(VOCABULARY, mixing).taking_whole_prompts();
    let mut session = always(&Arc::new(model), 64);
    let error = session.generate(&[1, 2, 3], &request, |_| {}).unwrap_err().to_string();
    assert!(error.contains("for a whole prompt") && error.contains("--draft"), "{error}");
    assert!(session.generate(&[1, 2, 3], &Request::greedy(3), |_| {}).is_ok());
}
