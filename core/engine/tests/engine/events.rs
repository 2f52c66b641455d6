//! Generations as iterators and callbacks: the same events, stopping, and what a stopped one leaves behind.

use crate::byte_text::{END, Format, VOCABULARY, ids};
use crate::fixture::{engine, session};
use menagerie_engine::{
    ChatMessage, ChatSession, Event, GenerateError, Prompt, Queue, Request, Scheduler, SchedulerOptions,
    Session, StopReason,
};
use menagerie_testkit::FakeModel;
use std::ops::ControlFlow;
use std::sync::Arc;

const PROMPT: [u32; 3] = [1, 2, 3];

/// A model that says "abc" and ends.
fn saying_abc() -> Arc<FakeModel> {
    let mut answer = ids("abc");
    answer.push(END);
    Arc::new(FakeModel::saying(VOCABULARY, PROMPT.len(), &answer))
}

fn token(piece: &str) -> Event {
    let bytes = piece.as_bytes().to_vec();
    Event::Token { id: ids(piece)[0], piece: piece.to_owned(), bytes, logprob: None, top: Vec::new() }
}

fn text(text: &str) -> Event {
    Event::Text(text.to_owned())
}

#[test]
fn iterator_and_callback_give_the_same_events() {
    let wanted = [
        Event::Prefill { done: 3, total: 3, cached: 0 },
        token("a"),
        text("a"),
        token("b"),
        text("b"),
        token("c"),
        text("c"),
        Event::Done { reason: StopReason::EndOfGeneration(END) },
    ];
    let request = Request::greedy(20);
    let mut heard = Vec::new();
    let told = session(&saying_abc(), 64).generate(&PROMPT, &request, |event| heard.push(event)).unwrap();
    assert_eq!(heard, wanted);
    let mut session = session(&saying_abc(), 64);
    let mut events = session.events(&PROMPT, &request);
    let seen: Vec<Event> = events.by_ref().map(Result::unwrap).collect();
    assert_eq!(seen, wanted);
    assert!(events.next().is_none());
    let given = events.into_outcome().unwrap();
    assert_eq!((&given.text, &given.tokens, &given.reason), (&told.text, &told.tokens, &told.reason));
    assert_eq!(
        session.events(&PROMPT, &request).tokens().collect::<Result<Vec<_>, _>>().unwrap(),
        ids("abc")
    );
    assert_eq!(session.events(&PROMPT, &request).text().collect::<Result<String, _>>().unwrap(), "abc");
}

#[test]
fn an_error_is_the_last_item() {
    let mut session = session(&saying_abc(), 64);
    let request = Request::greedy(20);
    let mut events = session.events(&[], &request);
    assert!(events.next().unwrap().is_err());
    assert!(events.next().is_none());
    assert!(events.into_outcome().is_err());
    assert_eq!(session.generate(&PROMPT, &request, |_| {}).unwrap().text, "abc");
}

#[test]
fn a_prompt_is_text_or_tokens() {
    let mut session = session(&saying_abc(), 64);
    let asked = |session: &mut Session, prompt: Prompt| {
        let outcome = session.generate(prompt, &Request::greedy(1), |_| {}).unwrap();
        (outcome.statistics.prompt_tokens, session.sequence().tokens()[..3].to_vec())
    };
    assert_eq!(asked(&mut session, "xyz".into()), (3, ids("xyz")));
    assert_eq!(asked(&mut session, "xyz".to_owned().into()), (3, ids("xyz")));
    assert_eq!(asked(&mut session, ids("xyz").into()), (3, ids("xyz")));
    let scheduler = Scheduler::for_one(engine(&saying_abc(), 64, 16), Vec::new()).unwrap();
    let error = Session::new(scheduler, None).unwrap().generate("xyz", &Request::greedy(1), |_| {});
    let error = error.unwrap_err();
    assert!(matches!(error, GenerateError::Missing(_)), "{error}");
    assert!(error.to_string().contains("a text prompt needs a tokenizer"), "{error}");
}

/// The logits after a prompt that was answered before are held: its first token costs no step.
#[test]
fn a_break_at_the_first_token_gives_one_token() {
    let mut session = session(&saying_abc(), 64);
    for _ in 0..2 {
        let outcome = session.generate(&PROMPT, &Request::greedy(20), |event| match event {
            Event::Token { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert_eq!(outcome.unwrap().tokens, ids("a"));
    }
}

#[test]
fn a_break_ends_only_that_request_of_a_queue() {
    let model = saying_abc();
    let room = SchedulerOptions::default().with_capacity_tokens(256).with_step_tokens(16);
    let scheduler = Scheduler::new(engine(&model, 64, 16), Vec::new(), room).unwrap();
    let mut queue = Queue::new(scheduler, Some(Arc::new(crate::byte_text::Bytes)));
    let stopped = queue.submit(&PROMPT, &Request::greedy(20));
    let whole = queue.submit(&PROMPT, &Request::greedy(20));
    let (mut ended, mut after) = (Vec::new(), 0);
    let mut broke = false;
    while !queue.is_idle() {
        ended.extend(queue.step(|id, event| {
            after += usize::from(broke && id == stopped);
            broke |= id == stopped && event == text("b");
            if broke && id == stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }));
    }
    ended.sort_by_key(|(id, _)| *id);
    let results: Vec<_> = ended.into_iter().map(|(id, result)| (id, result.unwrap())).collect();
    assert_eq!(after, 0, "the callback received an event of a request that it had ended");
    assert_eq!((results[0].0, &results[0].1.reason), (stopped, &StopReason::Cancelled));
    assert_eq!(results[0].1.text, "ab");
    assert_eq!((results[1].0, results[1].1.text.as_str()), (whole, "abc"));
}

/// Answers "ok" to everything.
fn answering(history: &[u32]) -> u32 {
    match history {
        [.., a, colon] if [*a, *colon] == ids("A:")[..] => ids("o")[0],
        [.., o] if *o == ids("o")[0] => ids("k")[0],
        _ => END,
    }
}

#[test]
fn a_conversation_keeps_what_came_before_its_iterator_was_dropped() {
    let model = Arc::new(FakeModel::new(VOCABULARY, answering));
    let mut chat = ChatSession::new(session(&model, 256), Arc::new(Format::default()));
    let request = Request::greedy(10);
    drop(chat.send_events("hi", &request).unwrap());
    assert!(chat.messages().is_empty(), "{:?}", chat.messages());
    let first = |event: &Result<Event, GenerateError>| matches!(event, Ok(Event::Text(text)) if text == "o");
    assert!(chat.send_events("hi", &request).unwrap().any(|event| first(&event)));
    let cut = [ChatMessage::user("hi"), ChatMessage::assistant("o")];
    assert_eq!(chat.messages(), cut);
    drop(chat.regenerate_events(&request).unwrap());
    assert_eq!(chat.messages(), cut, "an answer that did not begin replaces none");
    let again = chat.regenerate_events(&request).unwrap().into_outcome();
    assert_eq!(again.unwrap().reason, StopReason::Cancelled);
    let outcome = chat.regenerate(&request, |_| {}).unwrap();
    assert_eq!((outcome.text.as_str(), chat.messages()[1].content.as_str()), ("ok", "ok"));
}
