//! Whole generations: stops, text, log probabilities, statistics, cancellation.

use crate::byte_text::{END, END_OF_TURN, THINK, THOUGHT, VOCABULARY, ids, thinking};
use crate::fixture::{engine, session};
use menagerie_engine::{
    AnswerSyntax, Event, GenerateError, Outcome, RenderedPrompt, Request, SamplingOptions, Scheduler,
    Session, StopReason,
};
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROMPT: [u32; 3] = [1, 2, 3];

fn saying(answer: &[u32]) -> Arc<FakeModel> {
    Arc::new(FakeModel::saying(VOCABULARY, PROMPT.len(), answer))
}

/// Generates greedily; the outcome, and each released text.
fn run(answer: &[u32], request: Request) -> (Outcome, Vec<String>) {
    let mut texts = Vec::new();
    let outcome = session(&saying(answer), 64)
        .generate(&PROMPT, &request, |event| {
            if let Event::Text(text) = event {
                texts.push(text);
            }
        })
        .unwrap();
    (outcome, texts)
}

fn with_end(text: &str, end: u32) -> Vec<u32> {
    let mut answer = ids(text);
    answer.push(end);
    answer
}

#[test]
fn every_end_token_ends() {
    for end in [END, END_OF_TURN] {
        let (outcome, texts) = run(&with_end("Hi!", end), Request::greedy(20));
        assert_eq!(outcome.reason, StopReason::EndOfGeneration(end));
        assert_eq!((outcome.text.as_str(), outcome.tokens), ("Hi!", ids("Hi!")));
        assert_eq!(texts, ["H", "i", "!"]);
    }
}

#[test]
fn ignored_end_tokens_are_never_taken() {
    // The second best token after END is END_OF_TURN, after that THINK: all end tokens are forbidden.
    let (outcome, _) = run(&with_end("a", END), Request::greedy(4).with_ignore_eos(true));
    assert_eq!(outcome.reason, StopReason::MaxTokens);
    assert!(!outcome.tokens.contains(&END) && !outcome.tokens.contains(&END_OF_TURN));
}

#[test]
fn a_stop_string_over_tokens_ends_and_is_not_shown() {
    let request = Request::greedy(30).with_stop(vec!["\n\nUser".to_owned()]);
    let (outcome, texts) = run(&ids("one\n\ntwo\n\nUser: x"), request);
    assert_eq!(outcome.reason, StopReason::StopString("\n\nUser".to_owned()));
    assert_eq!(outcome.text, "one\n\ntwo");
    assert_eq!(texts.concat(), "one\n\ntwo");
    assert!(texts.contains(&"\n\nt".to_owned()), "what was held back comes at once: {texts:?}");
}

#[test]
fn a_stop_token_ends_and_is_not_shown() {
    let request = || Request::greedy(30).with_stop_tokens(ids("b"));
    let (outcome, texts) = run(&ids("abc"), request());
    assert_eq!(outcome.reason, StopReason::StopToken(ids("b")[0]));
    assert_eq!((outcome.text.as_str(), outcome.tokens), ("a", ids("a")));
    assert_eq!(texts, ["a"]);
    // It is not one of the tokens that the model ends with.
    let (outcome, _) = run(&ids("abc"), request().with_ignore_eos(true));
    assert_eq!(outcome.reason, StopReason::StopToken(ids("b")[0]));
    let past = Request::greedy(3).with_stop_tokens(vec![VOCABULARY as u32]);
    let error = session(&saying(&ids("a")), 64).generate(&PROMPT, &past, |_| ()).unwrap_err().to_string();
    assert!(error.contains(&format!("stop token {VOCABULARY}")), "{error}");
}

#[test]
fn an_answer_has_its_minimum_of_tokens() {
    let (outcome, _) = run(&with_end("ab", END), Request::greedy(9).with_min_tokens(2));
    assert_eq!((outcome.text.as_str(), outcome.reason), ("ab", StopReason::EndOfGeneration(END)));
    // Another token takes the place of the end.
    let (outcome, _) = run(&with_end("ab", END), Request::greedy(3).with_min_tokens(3));
    assert_eq!((&outcome.text[..2], outcome.tokens.len()), ("ab", 3));
    assert_eq!(outcome.reason, StopReason::MaxTokens);
    // Stop tokens are no end before, and stop strings in these tokens stay.
    let request = Request::greedy(9).with_min_tokens(3).with_stop(vec!["b".to_owned()]);
    let (outcome, texts) = run(&ids("abaabb"), request);
    assert_eq!((outcome.text.as_str(), outcome.reason), ("abaa", StopReason::StopString("b".to_owned())));
    assert_eq!(texts, ["a", "b", "a", "a"]);
    let request = Request::greedy(2).with_min_tokens(2).with_stop_tokens(ids("a"));
    assert_eq!(run(&ids("aa"), request).0.tokens.len(), 2);
    let above = Request::greedy(2).with_min_tokens(3);
    let error = session(&saying(&ids("a")), 64).generate(&PROMPT, &above, |_| ()).unwrap_err().to_string();
    assert!(error.contains("at least 3 tokens") && error.contains("at most 2"), "{error}");
}

/// As `n_indent` of llama.cpp's server: the blanks of the line are the last text.
#[test]
fn a_line_with_less_indentation_ends() {
    let request = Request::greedy(30).with_min_indent(2);
    let (outcome, texts) = run(&with_end("a\n  b\n c", END), request.clone());
    assert_eq!((outcome.text.as_str(), outcome.reason), ("a\n  b\n ", StopReason::Indentation));
    assert_eq!(texts.concat(), "a\n  b\n ");
    let (outcome, _) = run(&with_end("a\n  b", END), request);
    assert_eq!((outcome.text.as_str(), outcome.reason), ("a\n  b", StopReason::EndOfGeneration(END)));
}

#[test]
fn text_held_for_a_stop_string_comes_at_the_end() {
    let request = Request::greedy(30).with_stop(vec!["STOP".to_owned()]);
    let (outcome, _) = run(&with_end("a ST", END), request);
    assert_eq!(outcome.text, "a ST");
}

#[test]
fn characters_of_several_tokens_come_whole() {
    let (outcome, texts) = run(&with_end("é日", END), Request::greedy(30));
    assert_eq!((outcome.text.as_str(), texts), ("é日", vec!["é".to_owned(), "日".to_owned()]));
    // Cut inside a character: what is there is shown as a replacement character.
    let (outcome, _) = run(&ids("a日"), Request::greedy(2));
    assert_eq!((outcome.reason, outcome.text.as_str()), (StopReason::MaxTokens, "a\u{fffd}"));
}

#[test]
fn the_most_tokens_and_the_context_end() {
    assert_eq!(run(&ids("abcdef"), Request::greedy(3)).0.text, "abc");
    let none = run(&ids("abcdef"), Request::greedy(0)).0;
    assert_eq!((none.reason, none.tokens.len()), (StopReason::MaxTokens, 0));
    let request = Request::default().with_sampling(SamplingOptions::greedy());
    let outcome = session(&saying(&ids("abcdefgh")), 6).generate(&PROMPT, &request, |_| {}).unwrap();
    // Three more fit, and the last one need not be fed.
    assert_eq!((outcome.reason, outcome.text.as_str()), (StopReason::ContextFull, "abcd"));
}

#[test]
fn log_probabilities_are_those_before_the_chain() {
    let request = Request::greedy(1)
        .with_logprobs(2)
        .with_sampling(SamplingOptions::greedy().with_logit_bias(vec![(b'z'.into(), 100.0)]));
    let request = request.with_max_tokens(1);
    let mut seen = Vec::new();
    session(&saying(&ids("a")), 64)
        .generate(&PROMPT, &request, |event| {
            if let Event::Token { id, piece, logprob, top, .. } = event {
                seen.push((id, piece, logprob.unwrap(), top));
            }
        })
        .unwrap();
    let (id, piece, logprob, top) = &seen[0];
    // Logits: 5 for "a", 1 for "b", 0 for the 260 others, "z" among them.
    let normalizer = (5f64.exp() + 1f64.exp() + 260.0).ln();
    assert_eq!((*id, piece.as_str()), (u32::from(b'z'), "z"));
    assert!((f64::from(*logprob) + normalizer).abs() < 1e-5);
    assert_eq!((top[0].piece.as_str(), top[1].piece.as_str(), top.len()), ("a", "b", 2));
    assert!((f64::from(top[0].logprob) - (5.0 - normalizer)).abs() < 1e-5);
}

/// The token that ends an answer is no part of it. It is reported after all text, also after text that was held back.
#[test]
fn the_token_that_ends_an_answer_has_a_log_probability() {
    let answer = [ids("ab"), vec![END]].concat();
    let normalizer = (5f64.exp() + 1f64.exp() + 260.0).ln();
    for (answer, most, logprobs, expected) in [
        (&answer[..], 9, Some(1), true),
        (&answer[..], 3, Some(0), true),
        (&answer[..], 2, Some(1), false),
        (&answer[..], 9, None, false),
        // As clients ask that score a text: one token, which ends the answer at once.
        (&[END][..], 1, Some(1), true),
    ] {
        let mut events = Vec::new();
        let request = Request::greedy(most).with_logprobs(logprobs).with_stop(vec!["bc".to_owned()]);
        let outcome =
            session(&saying(answer), 64).generate(&PROMPT, &request, |event| events.push(event)).unwrap();
        assert!(!outcome.tokens.contains(&END));
        let found = events.iter().position(|event| matches!(event, Event::EndToken { .. }));
        assert_eq!(found, expected.then(|| events.len() - 2), "{events:?}");
        let Some(Event::EndToken { id, logprob, top, .. }) = found.map(|at| &events[at]) else { continue };
        assert_eq!((*id, top.len()), (END, logprobs.unwrap()));
        assert!((f64::from(*logprob) - (5.0 - normalizer)).abs() < 1e-5, "{logprob}");
    }
}

/// The bytes of all tokens together are the text, also where a character consists of several tokens; a control token
/// is not text, so it has none.
#[test]
fn tokens_have_the_bytes_that_they_add_to_the_text() {
    let answer = [ids("é"), vec![259], ids("€!")].concat();
    let (mut bytes, mut pieces, mut top) = (Vec::new(), String::new(), Vec::new());
    let request = Request::greedy(answer.len()).with_logprobs(1);
    let outcome = session(&saying(&answer), 64)
        .generate(&PROMPT, &request, |event| {
            if let Event::Token { piece, bytes: own, top: best, .. } = event {
                pieces.push_str(&piece);
                bytes.push(own);
                top.push(best[0].bytes.clone());
            }
        })
        .unwrap();
    assert_eq!(bytes.concat(), "é€!".as_bytes());
    assert_eq!((bytes[0].as_slice(), bytes[2].len()), (&[0xC3][..], 0), "{bytes:?}");
    assert_eq!((outcome.text.as_str(), top), ("é€!", bytes));
    assert!(pieces.contains(char::REPLACEMENT_CHARACTER), "{pieces}");
}

#[test]
fn a_seed_is_reported_and_repeats() {
    let request = |seed| {
        Request::default()
            .with_sampling(
                SamplingOptions::default()
                    .with_temperature(5.0)
                    .with_top_k(0)
                    .with_top_p(1.0)
                    .with_min_p(0.0)
                    .with_seed(seed),
            )
            .with_max_tokens(20)
            .with_ignore_eos(true)
    };
    let tokens = |seed| session(&saying(&[]), 64).generate(&PROMPT, &request(seed), |_| {}).unwrap();
    let first = tokens(None);
    assert_eq!(tokens(Some(first.seed)).tokens, first.tokens);
    assert_ne!(tokens(Some(first.seed + 1)).tokens, first.tokens);
}

#[test]
fn cancelling_is_an_outcome_with_what_came() {
    let cancel = Arc::new(AtomicBool::new(false));
    let request = Request::greedy(20).with_cancel(Arc::clone(&cancel));
    let outcome = session(&saying(&ids("abcdef")), 64)
        .generate(&PROMPT, &request, |event| {
            if event == Event::Text("c".to_owned()) {
                cancel.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert_eq!((outcome.reason, outcome.text.as_str()), (StopReason::Cancelled, "abc"));
    // Before the prompt.
    let outcome = session(&saying(&ids("abc")), 64).generate(&PROMPT, &request, |_| {}).unwrap();
    assert_eq!((outcome.reason, outcome.tokens.len()), (StopReason::Cancelled, 0));
}

#[test]
fn statistics_count_prompt_cache_and_answer() {
    let model = saying(&with_end("abc", END));
    let mut session = session(&model, 64);
    let first = session.generate(&PROMPT, &Request::greedy(20), |_| {}).unwrap().statistics;
    assert_eq!(
        (first.prompt_tokens, first.cached_tokens, first.generated_tokens, first.reprefills),
        (3, 0, 4, 0)
    );
    assert!(first.time_to_first_token.is_some());
    let second = session.generate(&PROMPT, &Request::greedy(20), |_| {}).unwrap();
    assert_eq!((second.statistics.cached_tokens, second.text.as_str()), (3, "abc"));
}

#[test]
fn crossing_the_rope_limit_is_said_and_counted() {
    let model = Arc::new(FakeModel::saying(VOCABULARY, PROMPT.len(), &with_end("abcdef", END)).with_limit(5));
    let mut notices = Vec::new();
    let outcome = session(&model, 64)
        .generate(&PROMPT, &Request::greedy(20), |event| {
            if let Event::Notice(text) = event {
                notices.push(text);
            }
        })
        .unwrap();
    assert_eq!((outcome.text.as_str(), outcome.statistics.reprefills), ("abcdef", 1));
    assert!(notices[0].contains("6 tokens"), "{notices:?}");
}

#[test]
fn reasoning_comes_apart_also_where_its_tags_are_control_tokens() {
    let mut answer = vec![THINK];
    answer.extend(ids("hm"));
    answer.push(THOUGHT);
    answer.extend(ids("\nYes"));
    answer.push(END);
    let prompt = RenderedPrompt {
        tokens: PROMPT.to_vec(),
        syntax: AnswerSyntax::of_reasoning(vec![thinking()]),
        ..RenderedPrompt::default()
    };
    let outcome = session(&saying(&answer), 64).generate(&prompt, &Request::greedy(30), |_| {}).unwrap();
    assert_eq!((outcome.reasoning.as_str(), outcome.text.as_str()), ("hm", "Yes"));
    // Plain continuation leaves text alone.
    assert_eq!(run(&with_end("<think>x", END), Request::greedy(20)).0.text, "<think>x");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let model = saying(&ids("a"));
    let scheduler = Scheduler::for_one(engine(&model, 64, 16), Vec::new()).unwrap();
    let mut tokens_only = Session::new(scheduler, None).unwrap();
    let stop = Request::greedy(1).with_stop(vec!["x".to_owned()]);
    assert!(matches!(tokens_only.generate(&PROMPT, &stop, |_| {}), Err(GenerateError::Missing(_))));
    assert_eq!(tokens_only.generate(&PROMPT, &Request::greedy(1), |_| {}).unwrap().tokens, ids("a"));
    let bias = SamplingOptions::greedy().with_logit_bias(vec![(9999, 1.0)]);
    let error =
        session(&model, 64).generate(&PROMPT, &Request::greedy(1).with_sampling(bias), |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "logit bias for token 9999, but the vocabulary has 262 tokens, with ids from 0"
    );
}

#[test]
fn sessions_share_a_model() {
    let model = Arc::new(FakeModel::new(VOCABULARY, |history| history.iter().sum::<u32>() % 200));
    let engine = engine(&model, 64, 16);
    let run = |first: u32| {
        let scheduler = Scheduler::for_one(Arc::clone(&engine), Vec::new()).unwrap();
        let mut session = Session::new(scheduler, None).unwrap();
        session.generate(&[first], &Request::greedy(20), |_| {}).unwrap().tokens
    };
    let alone: Vec<Vec<u32>> = (1..5).map(run).collect();
    let together = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..5).map(|first| scope.spawn(move || run(first))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(alone, together);
}
