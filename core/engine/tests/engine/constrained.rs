//! Answers with a constraint: a fake one that allows a list of texts.

use crate::byte_text::{Bytes, END, END_OF_TURN, THINK, THOUGHT, VOCABULARY, ids, thinking};
use crate::drafts::{Guesses, always};
use crate::fixture::{eight_sequences, engine, mixing, session};
use crate::tools::calls_of_f;
use menagerie_answers::ContentTags;
use menagerie_engine::{
    AnswerSyntax, Constraint, ConstraintError, ConstraintScope, ConstraintState, DraftSource, Event,
    GenerateError, Outcome, Prompt, PromptLookup, Queue, RenderedPrompt, Request, SamplingError,
    SamplingOptions, Scheduler, Statistics, StopReason,
};
use menagerie_testkit::FakeModel;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROMPT: [u32; 3] = [1, 2, 3];

/// Allows exactly these texts; the prefix `limit` exceeds a limit.
#[derive(Clone, Debug, Default)]
struct Texts {
    texts: Vec<&'static str>,
    limit: Option<&'static str>,
    scope: ConstraintScope,
}

struct TextsState {
    texts: Texts,
    taken: Vec<u8>,
    mask: Vec<u32>,
}

impl Constraint for Texts {
    fn start(&self) -> Result<Box<dyn ConstraintState>, ConstraintError> {
        Ok(Box::new(TextsState { texts: self.clone(), taken: Vec::new(), mask: Vec::new() }))
    }

    fn start_after(&self, written: &str) -> Result<Option<Box<dyn ConstraintState>>, ConstraintError> {
        let state = TextsState { texts: self.clone(), taken: written.as_bytes().to_vec(), mask: Vec::new() };
        let fits = written.is_empty() || state.following().next().is_some();
        Ok(fits.then(|| Box::new(state) as Box<dyn ConstraintState>))
    }

    fn scope(&self) -> ConstraintScope {
        self.scope
    }
}

impl TextsState {
    /// What may follow: a byte, or `None` for the end.
    fn following(&self) -> impl Iterator<Item = Option<u8>> {
        let rest = self.texts.texts.iter().filter_map(|text| text.as_bytes().strip_prefix(&*self.taken));
        rest.map(|rest| rest.first().copied())
    }
}

impl ConstraintState for TextsState {
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError> {
        if self.texts.limit.is_some_and(|limit| self.taken == limit.as_bytes()) {
            return Err(ConstraintError::TooComplex { limit: "of this test".to_owned() });
        }
        let mut mask = vec![0; VOCABULARY.div_ceil(32)];
        for byte in self.following() {
            for id in byte.map_or(vec![END, END_OF_TURN], |byte| vec![u32::from(byte)]) {
                mask[id as usize / 32] |= 1 << (id % 32);
            }
        }
        self.mask = mask;
        Ok(Some(&self.mask))
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        let failed = |reason: &str| ConstraintError::Failed { reason: reason.to_owned() };
        self.taken.push(u8::try_from(token).map_err(|_| failed("a control token"))?);
        self.following().next().map(drop).ok_or_else(|| failed("not one of the texts"))
    }

    fn is_complete(&self) -> bool {
        self.following().all(|byte| byte.is_none())
    }

    fn forced(&mut self, most: usize) -> Vec<u32> {
        let taken = self.taken.len();
        let mut forced = Vec::new();
        loop {
            let next: BTreeSet<Option<u8>> = self.following().collect();
            match next.iter().collect::<Vec<_>>()[..] {
                [Some(byte)] if forced.len() < most => {
                    forced.push(u32::from(*byte));
                    self.taken.push(*byte);
                }
                _ => break,
            }
        }
        self.taken.truncate(taken);
        forced
    }
}

/// Forced tokens are guesses, beside guesses that the constraint forbids: the answer is the same, in fewer steps.
#[test]
fn forced_tokens_are_computed_together_and_change_nothing() {
    let reasoning = [ids("hm"), vec![THOUGHT]].concat();
    for (prompt, answer) in [(false, ids("zz")), (true, [reasoning, ids("<no")].concat())] {
        for allowed in
            [&["a long text, and no other"][..], &["yes, of course", "yes, certainly"], &["a", "ab", "abc"]]
        {
            let mut plain = None;
            let wrong: Arc<dyn DraftSource> = Arc::new(Guesses::Always(u32::from(b'#')));
            let lookup: Arc<dyn DraftSource> = Arc::new(PromptLookup::default());
            for (draft, is_recurrent) in [None, Some(wrong), Some(lookup)]
                .into_iter()
                .flat_map(|draft| [(draft.clone(), false), (draft, true)])
            {
                let model = FakeModel::saying(VOCABULARY, PROMPT.len(), &answer);
                let model = if is_recurrent { model.recurrent() } else { model };
                let mut session = always(&Arc::new(model), 64);
                let request =
                    constrained(allowed).with_max_tokens(60).with_logprobs(2).with_draft(draft.clone());
                let mut events = Vec::new();
                let mut outcome = match prompt {
                    true => session.generate(reasoning_prompt(true), &request, |event| events.push(event)),
                    false => session.generate(&PROMPT, &request, |event| events.push(event)),
                }
                .unwrap();
                let accepted = outcome.statistics.accepted_tokens;
                let has_forced = draft.is_some() && allowed.len() < 3;
                assert!(accepted > 0 || !has_forced, "{allowed:?} {draft:?}");
                (outcome.statistics, outcome.seed) = (Statistics::default(), 0);
                let found = (outcome, events);
                assert_eq!(plain.get_or_insert(found.clone()), &found, "{allowed:?} {draft:?}");
            }
        }
    }
}

fn texts(texts: &[&'static str]) -> Arc<dyn Constraint> {
    Arc::new(Texts { texts: texts.to_vec(), ..Texts::default() })
}

fn saying(answer: &[u32]) -> Arc<FakeModel> {
    Arc::new(FakeModel::saying(VOCABULARY, PROMPT.len(), answer))
}

/// The outcome and the events of the answer to [`PROMPT`].
fn run(
    answer: &[u32],
    prompt: impl Into<Prompt<'static>>,
    request: Request,
) -> Result<(Outcome, Vec<Event>), GenerateError> {
    let mut events = Vec::new();
    let outcome = session(&saying(answer), 64).generate(prompt, &request, |event| events.push(event))?;
    Ok((outcome, events))
}

fn constrained(allowed: &[&'static str]) -> Request {
    Request::greedy(20).with_constraint(texts(allowed))
}

/// The best allowed token is taken at each position, and an answer that allows nothing more ends without another row.
#[test]
fn an_answer_fits_its_constraint_and_ends_where_nothing_may_follow() {
    let model = saying(&ids("nxs"));
    let outcome = session(&model, 64).generate(&PROMPT, &constrained(&["yes", "nos"]), |_| {}).unwrap();
    // "n" is the best token, "o" the only one after it.
    assert_eq!((outcome.text.as_str(), &outcome.reason), ("nos", &StopReason::Complete));
    assert_eq!((outcome.tokens, outcome.reason.name()), (ids("nos"), "complete"));
    assert!(outcome.statistics.constraint.is_some());
    let rows: usize = model.take_seen().iter().map(|seen| seen.tokens.len()).sum();
    assert_eq!(rows, PROMPT.len() + 2, "the last token is not fed");
    let free = session(&model, 64).generate(&PROMPT, &Request::greedy(3), |_| {}).unwrap();
    assert_eq!((free.text.as_str(), free.statistics.constraint), ("nxs", None));
}

#[test]
fn an_end_token_is_allowed_where_the_answer_is_whole() {
    let end = |text: &str| [ids(text), vec![END]].concat();
    // The model wants to end after "a", which is whole, and after "b", which is not.
    let (outcome, _) = run(&end("a"), &PROMPT, constrained(&["a", "abc"])).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reason), ("a", StopReason::EndOfGeneration(END)));
    let (outcome, _) = run(&end("b"), &PROMPT, constrained(&["bcd", "b1"])).unwrap();
    assert!(outcome.text.len() > 1 && outcome.reason == StopReason::Complete, "{outcome:?}");
    // At the limit on tokens the text stays as it is, and a whole answer counts as whole.
    let (outcome, _) = run(&ids("abc"), &PROMPT, constrained(&["abc"]).with_max_tokens(2)).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reason), ("ab", StopReason::MaxTokens));
    let (outcome, _) = run(&ids("abc"), &PROMPT, constrained(&["abc"]).with_max_tokens(3)).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reason), ("abc", StopReason::Complete));
}

#[test]
fn what_does_not_go_with_a_constraint_is_refused() {
    let told = run(&ids("a"), &PROMPT, constrained(&["a"]).with_ignore_eos(true)).unwrap_err().to_string();
    assert!(told.contains("--ignore-eos"), "{told}");
    // A forbidden token leaves nothing.
    let mut request = constrained(&["a"]);
    request.sampling.logit_bias.push((u32::from(b'a'), f32::NEG_INFINITY));
    let told = run(&ids("a"), &PROMPT, request).unwrap_err();
    assert!(matches!(told, GenerateError::Sampling(SamplingError::NothingLeft)), "{told}");
    // A text that no token begins.
    let told = run(&ids("a"), &PROMPT, constrained(&[])).unwrap_err();
    let dead = SamplingError::Constraint(ConstraintError::DeadEnd);
    assert!(matches!(&told, GenerateError::Sampling(error) if *error == dead), "{told}");
}

fn reasoning_prompt(open: bool) -> RenderedPrompt {
    let mut syntax = AnswerSyntax::of_reasoning(vec![thinking()]);
    syntax.reasoning_open = open.then(thinking);
    RenderedPrompt { tokens: PROMPT.to_vec(), syntax, ..RenderedPrompt::default() }
}

#[test]
fn an_answer_that_may_call_tools_cannot_be_constrained() {
    let syntax = AnswerSyntax::default().with_calls(calls_of_f());
    let prompt = RenderedPrompt { tokens: PROMPT.to_vec(), syntax, ..RenderedPrompt::default() };
    let mut session = session(&saying(&ids("ab")), 64);
    let error = session.generate(&prompt, &constrained(&["ab"]), |_| {}).unwrap_err().to_string();
    assert!(error.contains("cannot call tools"), "{error}");
    assert_eq!(session.generate(&prompt, &Request::greedy(2), |_| {}).unwrap().text, "ab");
}

/// The constraint begins after the reasoning and does not see its tokens, whether the prompt or the model begins it.
#[test]
fn reasoning_is_free_and_the_answer_is_not() {
    let thought = [ids("hm yes"), vec![END, THOUGHT]].concat();
    for (open, answer) in [(true, thought.clone()), (false, [vec![THINK], thought].concat())] {
        let answer = [answer, ids("<no")].concat();
        let (outcome, events) =
            run(&answer, reasoning_prompt(open), constrained(&["ja", "<think>", "nein"])).unwrap();
        // The end token in the reasoning is not allowed: the second best token, END_OF_TURN, is not either.
        assert!(outcome.reasoning.starts_with("hm yes"), "{outcome:?}");
        assert_eq!((outcome.text.as_str(), outcome.reason), ("<think>", StopReason::Complete), "{open}");
        let shown: String = events
            .iter()
            .filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(shown, "<think>");
    }
    // Without reasoning, the first token is constrained, and a text that looks like a tag is the answer.
    let (outcome, _) =
        run(&ids("<think>x"), reasoning_prompt(false), constrained(&["<think>x</think>"])).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("<think>x</think>", ""));
    // The closing tag as text; a stop string that holds back its end does not delay the constraint.
    let stop = vec![">\n!".to_owned()];
    let request = constrained(&["\nja"]).with_stop(stop);
    let (outcome, _) = run(&ids("a</think>\n\n"), reasoning_prompt(true), request).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("\nja", "a"));
}

/// A request whose calls of tools are constrained to these texts.
fn calling(scope: ConstraintScope, allowed: &[&'static str]) -> Request {
    let texts = Texts { texts: allowed.to_vec(), limit: None, scope };
    Request::greedy(40).with_constraint(Arc::new(texts) as Arc<dyn Constraint>)
}

fn calling_prompt(syntax: AnswerSyntax) -> RenderedPrompt {
    let syntax = syntax.with_calls(calls_of_f());
    RenderedPrompt { tokens: PROMPT.to_vec(), syntax, ..RenderedPrompt::default() }
}

/// The whole answer is calls; what looks like a call in the reasoning is reasoning.
#[test]
fn calls_that_are_required_begin_after_the_reasoning() {
    let request = || calling(ConstraintScope::Calls, &["<c>f {}</c>", "<c>f {\"a\": 1}</c>"]);
    let (outcome, _) = run(&ids("hello"), calling_prompt(AnswerSyntax::default()), request()).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reason), ("", StopReason::Complete));
    assert_eq!(outcome.tool_calls.len(), 1);
    let mut syntax = AnswerSyntax::of_reasoning(vec![thinking()]);
    syntax.reasoning_open = Some(thinking());
    let answer = [ids("a <c>f {}</c> b"), vec![THOUGHT], ids("No.")].concat();
    let (outcome, _) = run(&answer, calling_prompt(syntax), request()).unwrap();
    assert_eq!((outcome.reasoning.as_str(), outcome.tool_calls.len()), ("a <c>f {}</c> b", 1));
    // Without tools there is nothing that reads the calls.
    let told = run(&ids("a"), &PROMPT, request()).unwrap_err().to_string();
    assert!(told.contains("without tools"), "{told}");
}

/// An answer that is a text or consists of calls; what looks like a call in the text, or in the reasoning, is text.
#[test]
fn an_answer_is_a_text_or_consists_of_calls() {
    let (call, text) = ("<c>f {}</c>", "{\"q\": \"<c>f {}</c>\"}");
    let request = || calling(ConstraintScope::CallsOrText, &[call, text]);
    let reasoning = [ids("a <c>f {}</c> b"), vec![THOUGHT]].concat();
    for (says, expected, calls) in [("<", "", 1), ("{", text, 0)] {
        let syntax = syntax_of_thinking();
        let (outcome, events) = run(&ids(says), calling_prompt(syntax.clone()), request()).unwrap();
        assert_eq!((outcome.text.as_str(), outcome.tool_calls.len()), (expected, calls));
        assert_eq!(outcome.reason, StopReason::Complete);
        let begins = events.iter().filter(|event| matches!(event, Event::CallBegin { .. })).count();
        assert_eq!(begins, calls, "{events:?}");
        let mut open = syntax;
        open.reasoning_open = Some(thinking());
        let answer = [&reasoning[..], &ids(says)].concat();
        let (outcome, _) = run(&answer, calling_prompt(open), request()).unwrap();
        assert_eq!((outcome.text.as_str(), outcome.tool_calls.len()), (expected, calls));
        assert_eq!(outcome.reasoning, "a <c>f {}</c> b");
        // A stop string counts in the text.
        let stop = vec!["q".to_owned()];
        let (outcome, _) =
            run(&ids(says), calling_prompt(syntax_of_thinking()), request().with_stop(stop)).unwrap();
        assert_eq!(outcome.text, if calls == 0 { "{\"" } else { "" });
    }
    // A call that is cut is neither a text nor a call.
    let cut = request().with_max_tokens(4);
    let (outcome, _) = run(&ids("<"), calling_prompt(syntax_of_thinking()), cut).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.tool_calls.len()), ("", 0));
    assert_eq!(outcome.reason, StopReason::MaxTokens);
}

fn syntax_of_thinking() -> AnswerSyntax {
    AnswerSyntax::of_reasoning(vec![thinking()])
}

/// Text is free, and an answer may end in it; from the marker of a call on only the call is allowed.
#[test]
fn calls_in_text_are_constrained_from_their_marker_on() {
    let request = || calling(ConstraintScope::CallsInText, &["<c>f {}</c>"]);
    let prompt = || calling_prompt(AnswerSyntax::of_reasoning(vec![thinking()]));
    let (outcome, _) = run(&ids("So: <c>now."), prompt(), request()).unwrap();
    assert_eq!((outcome.text.as_str(), &outcome.reason), ("So:", &StopReason::Complete));
    assert_eq!((outcome.tool_calls[0].name.as_str(), outcome.tool_calls.len()), ("f", 1));
    let (outcome, _) = run(&[ids("So <c"), vec![END]].concat(), prompt(), request()).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.tool_calls.len()), ("So <c", 0));
    assert_eq!(outcome.reason, StopReason::EndOfGeneration(END));
    // A stop string that holds text back does not delay the constraint.
    let stop = vec!["<c>zzzz".to_owned()];
    let (outcome, _) = run(&ids("<c>zz"), prompt(), request().with_stop(stop)).unwrap();
    assert_eq!(outcome.tool_calls.len(), 1);
    // A call that begins in another way is free, with a note.
    let other = calling(ConstraintScope::CallsInText, &["<C>f {}</C>"]);
    let (outcome, events) = run(&[ids("<c>f {}</c>"), vec![END]].concat(), prompt(), other).unwrap();
    assert_eq!(outcome.tool_calls.len(), 1);
    let is_note = |event: &Event| matches!(event, Event::Notice(text) if text.contains("not constrained"));
    assert!(events.iter().any(is_note), "{events:?}");
}

/// Where the text of an answer is always behind a marker, the marker comes first, also after reasoning.
#[test]
fn constrained_text_begins_behind_its_marker() {
    let tags = |open: &str| ContentTags { open: open.to_owned(), ..ContentTags::default() };
    let content = vec![
        ContentTags { answer: true, ..tags("[final]") },
        ContentTags { after_reasoning: true, ..tags("[next]") },
    ];
    let prompt = |open: bool| {
        let mut prompt = reasoning_prompt(open);
        prompt.syntax = prompt.syntax.with_content(content.clone());
        prompt
    };
    let (outcome, _) = run(&ids("xxxxxxxn"), prompt(false), constrained(&["yes", "no"])).unwrap();
    assert_eq!((outcome.text.as_str(), &outcome.reason), ("no", &StopReason::Complete));
    assert_eq!(outcome.tokens, ids("[final]no"));
    let answer = [vec![THINK], ids("hm"), vec![THOUGHT]].concat();
    let (outcome, _) = run(&answer, prompt(false), constrained(&["yes"]).with_max_tokens(40)).unwrap();
    assert_eq!((outcome.text.as_str(), outcome.reasoning.as_str()), ("yes", "hm"));
    assert_eq!(outcome.tokens[4..], ids("[next][final]yes"));
}

#[test]
fn who_exceeds_a_limit_ends_alone() {
    let limited = Texts { texts: vec!["abc"], limit: Some("ab"), ..Texts::default() };
    let requests = [
        Request::greedy(9).with_constraint(Arc::new(limited) as Arc<dyn Constraint>),
        constrained(&["xyz"]),
        Request::greedy(9),
    ];
    let results = together(&requests);
    let told = results[0].as_ref().unwrap_err().to_string();
    assert!(told.contains("too complex (of this test)") && !told.contains("ab"), "{told}");
    assert_eq!(results[1].as_ref().unwrap().text, "xyz");
    assert_eq!(results[2].as_ref().unwrap().reason, StopReason::MaxTokens);
}

fn together(requests: &[Request]) -> Vec<Result<Outcome, GenerateError>> {
    let model = Arc::new(FakeModel::new(VOCABULARY, mixing));
    let scheduler = Scheduler::new(engine(&model, 128, 64), Vec::new(), eight_sequences()).unwrap();
    let mut queue = Queue::new(scheduler, Some(Arc::new(Bytes)));
    for (at, request) in requests.iter().enumerate() {
        queue.submit(vec![at as u32 + 1, 2, 3], request);
    }
    queue.run(|_, _| {}).into_iter().map(|(_, result)| result).collect()
}

/// Constrained and free requests in one batch: each gets what it gets alone, and a seed repeats itself.
#[test]
fn a_batch_answers_as_each_request_alone() {
    let warm = |seed| {
        let sampling =
            SamplingOptions::default().with_temperature(9.0).with_top_k(0).with_top_p(1.0).with_min_p(0.0);
        Request::default().with_sampling(sampling.with_seed(seed)).with_max_tokens(12)
    };
    let words = ["one", "only", "two", "twenty", "three"];
    let requests: Vec<Request> = (0..7)
        .map(|at| match at % 3 {
            0 => warm(at),
            _ => warm(at).with_constraint(texts(&words)),
        })
        .collect();
    let shared = together(&requests);
    assert_eq!(shared.len(), 7);
    for (at, (request, shared)) in requests.iter().zip(&shared).enumerate() {
        let mut company: Vec<Request> = vec![Request::greedy(0); at];
        company.push(request.clone());
        let (own, shared) = (together(&company).pop().unwrap().unwrap(), shared.as_ref().unwrap());
        assert_eq!((&own.tokens, &own.reason), (&shared.tokens, &shared.reason), "{at}");
        assert!(at % 3 == 0 || words.contains(&shared.text.as_str()), "{at}: {}", shared.text);
    }
}

/// A constraint that computes until its request is cancelled, which the test does as soon as it begins.
#[derive(Clone, Debug, Default)]
struct Endless(Option<Arc<AtomicBool>>);

impl Constraint for Endless {
    fn start(&self) -> Result<Box<dyn ConstraintState>, ConstraintError> {
        Ok(Box::new(self.clone()))
    }
}

impl ConstraintState for Endless {
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError> {
        match &self.0 {
            Some(flag) => flag.store(true, Ordering::Relaxed),
            None => return Err(ConstraintError::TooComplex { limit: "it has no flag".to_owned() }),
        }
        Err(ConstraintError::Cancelled)
    }

    fn accept(&mut self, _token: u32) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn cancel_with(&mut self, flag: &Arc<AtomicBool>) {
        self.0 = Some(Arc::clone(flag));
    }
}

/// The flag of the request ends the computation, and the answer is cancelled: that is no error.
#[test]
fn a_cancelled_request_ends_its_constraint() {
    let request = |flag: &Arc<AtomicBool>| {
        let endless: Arc<dyn Constraint> = Arc::new(Endless::default());
        Request::greedy(9).with_constraint(endless).with_cancel(Arc::clone(flag))
    };
    let (outcome, _) = run(&ids("abc"), &PROMPT, request(&Arc::default())).unwrap();
    assert_eq!((outcome.reason, outcome.tokens), (StopReason::Cancelled, vec![]));
    let flags: [Arc<AtomicBool>; 2] = Default::default();
    let results = together(&[request(&flags[0]), Request::greedy(3), request(&flags[1])]);
    let reasons: Vec<StopReason> = results.into_iter().map(|result| result.unwrap().reason).collect();
    assert_eq!(reasons, [StopReason::Cancelled, StopReason::MaxTokens, StopReason::Cancelled]);
}
