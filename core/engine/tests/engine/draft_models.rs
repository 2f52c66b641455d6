//! Guesses of a draft model: the answer is the one without them, and its states are shared and bounded.

use crate::byte_text::{Bytes, VOCABULARY, ids};
use crate::drafts::{always, samplers, shown};
use crate::drafts_together::{asked, tiny, tiny_of, together};
use crate::fixture::{eight_sequences, engine, mixing};
use menagerie_engine::{
    AnswerPrediction, DraftModel, DraftRequest, DraftSource, DraftToken, Engine, Event, GenerateError,
    KvType, MissingCapability, PromptLookup, Request, Scheduler, SchedulerOptions, Session, StopReason,
    TextPipeline, TextStream, Tokenizing,
};
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The logit of a model that is sure of its tokens.
const SURE: f32 = 9.0;

fn pipeline(name: &str, engine: &Arc<Engine>, tokenizer: Arc<dyn Tokenizing>) -> TextPipeline {
    let reason = "a test".to_owned();
    let missing = MissingCapability::ChatTemplate { model: name.to_owned(), reason };
    TextPipeline::new(name, (**engine).clone()).with_text(Ok(tokenizer), Err(missing))
}

/// Guesses of the model of `draft` for a model with the same vocabulary, with room for `answers` answers of 256 tokens.
fn drafting(draft: &Arc<Engine>, answers: usize) -> Arc<dyn DraftSource> {
    let options = SchedulerOptions::default()
        .with_sequences(answers)
        .with_prefixes(2)
        .with_capacity_tokens(answers * 256);
    let pipeline = pipeline("small", draft, Arc::new(Bytes));
    Arc::new(DraftModel::new(&pipeline, &pipeline, options).unwrap())
}

fn sure(script: fn(&[u32]) -> u32) -> FakeModel {
    FakeModel::new(VOCABULARY, script).with_highest(SURE)
}

/// Right for every third token.
fn mostly_wrong(history: &[u32]) -> u32 {
    if history.len().is_multiple_of(3) { mixing(history) } else { 9 }
}

/// The answer to one request with and without guesses. Returns the drafted and accepted tokens.
fn compare(
    model: &Arc<FakeModel>,
    source: &Arc<dyn DraftSource>,
    prompt: &[u32],
    request: &Request,
) -> [usize; 2] {
    let (plain, _) = shown(&mut always(model, 64), prompt, request);
    let (drafted, statistics) =
        shown(&mut always(model, 64), prompt, &request.clone().with_draft(Arc::clone(source)));
    assert_eq!(plain, drafted, "{source:?}");
    [statistics.drafted_tokens, statistics.accepted_tokens]
}

/// The model itself is right where nothing is drawn; other models are right now and then.
#[test]
fn a_hundred_seeds_and_five_samplers_answer_as_without_a_draft_model() {
    let model = Arc::new(sure(mixing));
    let of = |model: FakeModel| drafting(&engine(&Arc::new(model), 64, 16), 1);
    let sources = [of(sure(mixing)), of(sure(mostly_wrong)), of(sure(mixing).windowed(9))];
    let recurrent = of(sure(mixing).recurrent());
    let (mut sums, mut greedy) = ([[0; 2]; 4], [0; 2]);
    for seed in 0..100 {
        for (number, sampling) in samplers(seed).into_iter().enumerate() {
            let prompt: Vec<u32> = (0..6).map(|at| (seed as u32 * 7 + at * 5) % 50).collect();
            let request = Request::greedy(20).with_sampling(sampling).with_logprobs(2);
            let others = if seed < 10 { Some(&recurrent) } else { None };
            for (place, source) in sources.iter().chain(others).enumerate() {
                let counts = compare(&model, source, &prompt, &request);
                sums[place] = [sums[place][0] + counts[0], sums[place][1] + counts[1]];
                if place == 0 && number == 0 {
                    greedy = [greedy[0] + counts[0], greedy[1] + counts[1]];
                }
            }
        }
    }
    let rate = |[drafted, accepted]: [usize; 2]| accepted as f64 / drafted as f64;
    assert!(greedy[0] > 1500 && rate(greedy) > 0.99, "{greedy:?}");
    assert!(sums[0][1] > 3000 && rate(sums[0]) > 0.3, "{sums:?}");
    assert!(sums[1][0] > 3000 && rate(sums[1]) < 0.5, "{sums:?}");
    assert!(sums[2][1] > 500 && sums[3][1] > 100, "{sums:?}");
}

/// The same bits with weights, for answers that run together: the model itself, and one with other weights.
#[test]
fn answers_of_models_with_weights_are_those_without_a_draft_model() {
    let model = tiny_of(160, KvType::F32, 11, 6.0);
    let (own, other) = (drafting(&model, 5), drafting(&tiny_of(160, KvType::F16, 12, 6.0), 5));
    for seed in 0..3 {
        let asked = asked(seed);
        let (plain, _) = together(&model, eight_sequences(), &asked, None);
        for (name, source) in [("own", &own), ("other", &other)] {
            let guessed: Vec<_> = asked
                .iter()
                .map(|(prompt, request)| (prompt.clone(), request.clone().with_draft(Arc::clone(source))))
                .collect();
            let (drafted, [guesses, accepted]) = together(&model, eight_sequences(), &guessed, None);
            assert_eq!(plain, drafted, "{name} {seed}");
            assert!(guesses > 20, "{name}: {guesses}");
            assert_eq!(accepted * 4 > guesses, name == "own", "{name}: {accepted} of {guesses}");
        }
    }
}

/// A session that decides by times.
fn session_of(model: &Arc<Engine>) -> Session {
    let scheduler = Scheduler::for_one(Arc::clone(model), Vec::new()).unwrap();
    Session::new(scheduler, Some(Arc::new(Bytes))).unwrap()
}

#[test]
fn the_pace_changes_no_answer_with_a_draft_model() {
    let model = tiny(256, KvType::F32);
    let request = Request::greedy(150).with_logprobs(1);
    let plain = session_of(&model).generate(&[1, 2, 3], &request, |_| {}).unwrap();
    let drafted = request.with_draft(drafting(&model, 1));
    let drafted = session_of(&model).generate(&[1, 2, 3], &drafted, |_| {}).unwrap();
    assert_eq!((plain.tokens, plain.text), (drafted.tokens, drafted.text));
}

/// The first draft measures the model, and later ones compute only what is new; the next prompt starts with the state of the
/// last one, unless its request has another salt.
#[test]
fn a_draft_model_computes_a_text_once() {
    let draft = Arc::new(sure(mixing));
    let source = drafting(&engine(&draft, 256, 16), 1);
    let mut text: Vec<u32> = (0..100).collect();
    let rows = |text: &[u32], salt: Option<&str>| {
        let request = DraftRequest::default().with_cache_salt(salt.map(Arc::from));
        let mut drafter = source.start(&request).unwrap();
        let mut guesses: Vec<DraftToken> = Vec::new();
        for _ in 0..3 {
            guesses = drafter.draft(text, 4);
            if !guesses.is_empty() {
                break;
            }
        }
        let said: Vec<u32> = guesses.iter().map(|guess| guess.id).collect();
        let mut known = text.to_vec();
        (0..4).for_each(|_| known.push(mixing(&known)));
        assert_eq!(said, known[text.len()..]);
        let seen = draft.take_seen();
        seen.iter().map(|part| part.tokens.len()).sum::<usize>()
    };
    assert_eq!(rows(&text, None), 100 + 3, "the last guess is not fed");
    text.extend([200; 5]);
    assert_eq!(rows(&text, None), 5 + 3);
    assert_eq!(rows(&text, Some("mine")), 105 + 3);
    assert_eq!(rows(&text, Some("mine")), 1 + 3);
}

/// The longest of several texts that are drafted at the same time is shared by a new one.
#[test]
fn a_new_answer_shares_the_text_of_one_that_is_drafted() {
    let draft = Arc::new(sure(mixing));
    let source = drafting(&engine(&draft, 256, 16), 3);
    let text: Vec<u32> = (0..60).collect();
    let mut drafters: Vec<_> = (0..3).map(|_| source.start(&DraftRequest::default()).unwrap()).collect();
    let mut rows = Vec::new();
    for drafter in &mut drafters {
        while drafter.draft(&text, 1).is_empty() {}
        rows.push(draft.take_seen().iter().map(|part| part.tokens.len()).sum::<usize>());
    }
    assert_eq!(rows, [60, 1, 1]);
}

/// A step of the draft model computes the guesses of all answers of a step.
#[test]
fn answers_that_run_together_are_drafted_together() {
    let (model, draft) = (Arc::new(sure(mixing)), Arc::new(sure(mixing)));
    let source = drafting(&engine(&draft, 256, 16), 4);
    let request = Request::greedy(30).with_draft(source);
    let asked: Vec<_> = (0..4).map(|at| (vec![at, 5, 3, 1, 2], request.clone())).collect();
    let (_, [drafted, accepted]) = together(&engine(&model, 128, 64), eight_sequences(), &asked, None);
    assert!(accepted > 80 && accepted * 10 > drafted * 7, "{accepted} of {drafted}");
    let seen = draft.take_seen();
    let shared = seen.iter().filter(|part| part.together == 4).count();
    assert!(shared * 2 > seen.len(), "{shared} of {}", seen.len());
}

/// Answers that are preempted, that a draft model with windows or a recurrent state guesses, or for which the draft model
/// has no place, are the same.
#[test]
fn answers_that_give_way_or_find_no_place_are_the_same() {
    let engine_of = |model: FakeModel| engine(&Arc::new(model), 128, 64);
    let model = engine_of(sure(mixing));
    let little = SchedulerOptions::default().with_sequences(5).with_prefixes(2).with_capacity_tokens(80);
    let drafts = [
        (5, sure(mixing)),
        (2, sure(mixing)),
        (5, sure(mostly_wrong)),
        (5, sure(mixing).windowed(9)),
        (5, sure(mixing).recurrent()),
    ];
    for (places, draft) in drafts {
        let source = drafting(&engine_of(draft), places);
        for (seed, options) in [(1, little), (2, little.with_swap_bytes(1 << 20)), (3, eight_sequences())] {
            let asked = asked(seed);
            let (plain, _) = together(&model, options, &asked, None);
            let guessed = asked
                .iter()
                .map(|(prompt, request)| (prompt.clone(), request.clone().with_draft(Arc::clone(&source))));
            let guessed: Vec<_> = guessed.collect();
            let (mut drafted, [guesses, _]) = together(&model, options, &guessed, None);
            let mut notices = 0;
            for (events, _) in &mut drafted {
                let before = events.len();
                events.retain(|event| !matches!(event, Event::Notice(_)));
                notices += before - events.len();
            }
            assert_eq!(plain, drafted, "{places} {seed}");
            assert_eq!(notices > 0, places == 2, "{places} {seed}: {notices}");
            assert!(guesses > 5, "{places} {seed}: {guesses}");
        }
    }
}

#[test]
fn a_draft_model_that_fails_ends_its_guesses_and_not_the_answer() {
    let answer = ids("abcdefghijklmnop");
    let model = Arc::new(FakeModel::saying(VOCABULARY, 3, &answer));
    let says = || FakeModel::saying(VOCABULARY, 3, &answer).with_highest(SURE);
    let letter = u32::from(b'f');
    let failing = Arc::new(says());
    failing.during(Some(Box::new(|| Err(menagerie_model::ModelError::Unsupported("a fault".to_owned())))));
    let sources: [(Arc<dyn DraftSource>, &str); 3] = [
        (drafting(&engine(&Arc::new(says().broken_after(letter, f32::NAN)), 64, 16), 1), "after position"),
        (drafting(&engine(&Arc::new(says().failing_on(letter)), 64, 16), 1), "a fake failure"),
        (drafting(&engine(&failing, 64, 16), 1), "a fault"),
    ];
    for (source, word) in sources {
        let (text, notices) = noticed(&model, &[1, 2, 3], source);
        assert_eq!(text, "abcdefghijkl");
        assert!(notices.len() == 1 && notices[0].contains(word), "{word}: {notices:?}");
        assert!(notices[0].contains("the draft model small guesses no more"), "{notices:?}");
    }
}

/// The text of an answer of twelve tokens, and the notices with it.
fn noticed(model: &Arc<FakeModel>, prompt: &[u32], source: Arc<dyn DraftSource>) -> (String, Vec<String>) {
    let mut notices = Vec::new();
    let request = Request::greedy(12).with_draft(source);
    let outcome = always(model, 512).generate(prompt, &request, |event| {
        if let Event::Notice(text) = event {
            notices.push(text);
        }
    });
    (outcome.unwrap().text, notices)
}

/// The states have a page of 256 tokens.
#[test]
fn a_text_that_does_not_fit_into_the_states_is_not_drafted() {
    let answer = ids("abcdefghijklmnop");
    let model = Arc::new(FakeModel::saying(VOCABULARY, 300, &answer));
    let draft = Arc::new(FakeModel::saying(VOCABULARY, 300, &answer).with_highest(SURE));
    let draft = pipeline("tight", &engine(&draft, 512, 16), Arc::new(Bytes));
    let options = SchedulerOptions::default().with_sequences(1).with_prefixes(0).with_capacity_tokens(256);
    let source = Arc::new(DraftModel::new(&draft, &draft, options).unwrap());
    let (text, notices) = noticed(&model, &[5; 300], source);
    assert_eq!(text, "abcdefghijkl");
    assert!(notices.len() == 1 && notices[0].contains("tight"), "{notices:?}");
}

/// While the draft model computes, too.
#[test]
fn a_drafted_answer_is_cancelled() {
    let answer = ids("abcdefghijklmnopqrst");
    let model = Arc::new(FakeModel::saying(VOCABULARY, 3, &answer));
    let draft = Arc::new(FakeModel::saying(VOCABULARY, 3, &answer).with_highest(SURE));
    let source = drafting(&engine(&draft, 64, 16), 1);
    let flag = Arc::new(AtomicBool::new(false));
    let request = Request::greedy(15).with_draft(source).with_cancel(Arc::clone(&flag));
    let (steps, raised) = (AtomicBool::new(false), Arc::clone(&flag));
    draft.during(Some(Box::new(move || {
        // In the second step.
        if steps.swap(true, Ordering::Relaxed) {
            raised.store(true, Ordering::Relaxed);
        }
        Ok(())
    })));
    let mut session = always(&model, 64);
    let outcome = session.generate(&[1, 2, 3], &request, |_| {}).unwrap();
    assert_eq!((outcome.reason, outcome.tokens), (StopReason::Cancelled, ids("a")));
    draft.during(None);
    flag.store(false, Ordering::Relaxed);
    assert_eq!(session.generate(&[1, 2, 3], &request, |_| {}).unwrap().text, "abcdefghijklmno");
}

/// Bytes in which some tokens are others, or missing.
struct OtherBytes {
    count: usize,
    other: Option<(u32, &'static [u8], bool)>,
}

impl Tokenizing for OtherBytes {
    fn vocabulary(&self) -> usize {
        self.count
    }
    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, menagerie_engine::TextError> {
        Bytes.encode(text)
    }
    fn encode_prompt_within(
        &self,
        text: &str,
        most: usize,
    ) -> Result<(Vec<u32>, usize), menagerie_engine::TextError> {
        Bytes.encode_prompt_within(text, most)
    }
    fn beginning(&self) -> Option<u32> {
        None
    }
    fn encode_pair(
        &self,
        first: &str,
        second: &str,
    ) -> Result<(Vec<u32>, usize), menagerie_engine::TextError> {
        Bytes.encode_pair(first, second)
    }
    fn encode_pair_within(
        &self,
        first: &str,
        second: &str,
        most: usize,
    ) -> Result<((Vec<u32>, usize), usize), menagerie_engine::TextError> {
        Bytes.encode_pair_within(first, second, most)
    }
    fn encode(&self, text: &str) -> Result<Vec<u32>, menagerie_engine::TextError> {
        Bytes.encode(text)
    }
    fn piece(&self, id: u32) -> String {
        Bytes.piece(id)
    }
    fn bytes(&self, id: u32) -> Vec<u8> {
        match self.other {
            Some((other, bytes, _)) if other == id => bytes.to_vec(),
            _ => Bytes.bytes(id),
        }
    }
    fn is_control(&self, id: u32) -> bool {
        match self.other {
            Some((other, _, is_control)) if other == id => is_control,
            _ => Bytes.is_control(id),
        }
    }
    fn control_text(&self, id: u32) -> Option<String> {
        Bytes.control_text(id)
    }
    fn end_of_generation(&self) -> &[u32] {
        &[]
    }
    fn stream(&self) -> Box<dyn TextStream + Send> {
        Bytes.stream()
    }
}

#[test]
fn other_vocabularies_are_refused_with_the_first_difference() {
    let engine = engine(&Arc::new(sure(mixing)), 64, 16);
    let model = pipeline("large", &engine, Arc::new(Bytes));
    let with = |count: usize, other: Option<(u32, &'static [u8], bool)>| {
        let draft = pipeline("small", &engine, Arc::new(OtherBytes { count, other }));
        DraftModel::new(&draft, &model, SchedulerOptions::default()).map(drop)
    };
    for (other, word) in [
        ((98, &b"xy"[..], false), "token 98 is \"xy\", and \"b\" in the model"),
        ((97, b"a", true), "token 97 is the control token \"a\", and \"a\" in the model"),
        ((260, b"</think>", false), "token 260 is \"</think>\", and the control token"),
    ] {
        let error = with(VOCABULARY, Some(other)).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("small") && error.contains("--draft"), "{error}");
    }
    for count in [VOCABULARY - 3, VOCABULARY, VOCABULARY + 40] {
        with(count, None).unwrap();
    }
    with(VOCABULARY + 40, Some((VOCABULARY as u32 + 1, b"more", true))).unwrap();
    let whole = engine_taking_whole_prompts();
    let whole = pipeline("mixture", &whole, Arc::new(Bytes));
    let error = DraftModel::new(&whole, &model, SchedulerOptions::default()).unwrap_err().to_string();
    assert!(error.contains("mixture cannot guess") && error.contains("whole prompt"), "{error}");
    let bare = TextPipeline::new("bare", (*engine).clone());
    let error = DraftModel::new(&bare, &model, SchedulerOptions::default()).unwrap_err();
    assert!(matches!(error, GenerateError::Missing(MissingCapability::Tokenizer { .. })), "{error}");
}

fn engine_taking_whole_prompts() -> Arc<Engine> {
    engine(&Arc::new(sure(mixing).taking_whole_prompts()), 64, 16)
}

/// Tokens that only one of two models has are never guessed, and a text that has them is not drafted on.
#[test]
fn tokens_past_the_smaller_vocabulary_are_not_drafted() {
    let last = VOCABULARY as u32 - 1;
    let model = Arc::new(sure(mixing));
    let padded = FakeModel::new(VOCABULARY + 10, |seen| VOCABULARY as u32 + seen.len() as u32 % 10);
    let source = |draft: FakeModel, count: usize| {
        let draft = engine(&Arc::new(draft.with_highest(SURE)), 64, 16);
        let draft = pipeline("small", &draft, Arc::new(OtherBytes { count, other: None }));
        let model = pipeline("large", &engine(&model, 64, 16), Arc::new(Bytes));
        DraftModel::new(&draft, &model, SchedulerOptions::default()).unwrap()
    };
    let all = |source: DraftModel, text: &[u32]| {
        let mut drafter = source.start(&DraftRequest::default()).unwrap();
        let drafts: Vec<DraftToken> = (0..3).flat_map(|_| drafter.draft(text, 4)).collect();
        (drafts.len(), drafter.fault())
    };
    let (drafts, fault) = all(source(padded, VOCABULARY + 10), &[1, 2, 3]);
    assert_eq!((drafts, fault), (0, None));
    let fewer = || FakeModel::new(VOCABULARY - 1, |seen| seen.len() as u32);
    assert_eq!(all(source(fewer(), VOCABULARY - 1), &[1, 2, 3]).0, 8);
    let (drafts, fault) = all(source(fewer(), VOCABULARY - 1), &[1, 2, last]);
    assert!(drafts == 0 && fault.unwrap().contains("token 261"));
}

/// The context of the draft model ends its guesses quietly.
#[test]
fn an_answer_goes_on_past_the_context_of_the_draft_model() {
    let model = Arc::new(sure(mixing));
    let source = drafting(&engine(&Arc::new(sure(mixing)), 20, 16), 1);
    let [drafted, accepted] = compare(&model, &source, &[1, 2, 3], &Request::greedy(50).with_logprobs(1));
    assert!(drafted < 20 && accepted > 8, "{accepted} of {drafted}");
}

/// A predicted answer: counted apart from other guesses, and the answer is the same.
#[test]
fn a_predicted_answer_is_followed_and_counted() {
    let answer = ids("The quick brown fox jumps over the lazy dog.");
    let model = Arc::new(FakeModel::saying(VOCABULARY, 3, &answer));
    let request = Request::greedy(answer.len()).with_logprobs(1);
    let (plain, _) = shown(&mut always(&model, 128), &[1, 2, 3], &request);
    let lookup: Arc<dyn DraftSource> = Arc::new(PromptLookup::default());
    for (text, least, most, rejected) in [
        ("The quick brown fox jumps over the lazy dog.", 34, 39, 1),
        ("The quick brown cat jumps over the lazy dog.", 26, 34, 9),
        ("nothing of it", 0, 0, 20),
        ("", 0, 0, 0),
    ] {
        for others in [None, Some(Arc::clone(&lookup))] {
            let prediction: Arc<dyn DraftSource> = Arc::new(AnswerPrediction::new(ids(text), others));
            let request = request.clone().with_draft(prediction);
            let (found, statistics) = shown(&mut always(&model, 128), &[1, 2, 3], &request);
            assert_eq!(plain, found, "{text}");
            let (drafted, accepted) = (statistics.drafted_predictions, statistics.accepted_predictions);
            assert!(
                (least..=most).contains(&accepted) && drafted - accepted <= rejected,
                "{text}: {statistics:?}"
            );
            assert!(accepted <= statistics.accepted_tokens && drafted <= statistics.drafted_tokens);
        }
    }
}

/// The draft model guesses where the prediction says nothing.
#[test]
fn a_prediction_and_a_draft_model_go_together() {
    let model = Arc::new(sure(mixing));
    let draft = drafting(&engine(&Arc::new(sure(mixing)), 64, 16), 1);
    let request = Request::greedy(40).with_logprobs(1);
    let (plain, _) = shown(&mut always(&model, 64), &[1, 2, 3], &request);
    let answer = plain.1.as_ref().unwrap().tokens.clone();
    let prediction = AnswerPrediction::new(answer[..15].to_vec(), Some(draft));
    let request = request.with_draft(Arc::new(prediction) as Arc<dyn DraftSource>);
    let (found, statistics) = shown(&mut always(&model, 64), &[1, 2, 3], &request);
    assert_eq!(plain, found);
    let predicted = statistics.accepted_predictions;
    assert!((10..15).contains(&predicted) && statistics.accepted_tokens > predicted + 12, "{statistics:?}");
}
