//! Conversations: history, full context, regeneration, saving.

use crate::byte_text::{END, Format, VOCABULARY};
use crate::fixture::session;
use crate::tools::calls_of_f;
use menagerie_engine::{ChatMessage, ChatSession, Event, Request, StopReason};
use menagerie_testkit::FakeModel;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Answers "ok" to everything: "o" after "A:", "k" after "A:o", the end after "A:ok".
fn answering(history: &[u32]) -> u32 {
    let tail: Vec<u8> = history.iter().rev().take(4).rev().map(|&id| u8::try_from(id).unwrap_or(0)).collect();
    match tail.as_slice() {
        [.., b'A', b':'] => b'o'.into(),
        [.., b'A', b':', b'o'] => b'k'.into(),
        _ => END,
    }
}

fn chat(context: usize) -> (ChatSession, Arc<FakeModel>) {
    let model = Arc::new(FakeModel::new(VOCABULARY, answering));
    (ChatSession::new(session(&model, context), Arc::new(Format::default())), model)
}

fn quiet(_: Event) {}

#[test]
fn a_conversation_grows_and_keeps_its_prefix() {
    let (mut chat, _) = chat(256);
    chat.set_system("Be brief.");
    let first = chat.send("hello", &Request::greedy(10), &mut quiet).unwrap();
    assert_eq!((first.text.as_str(), first.statistics.cached_tokens), ("ok", 0));
    // "S:Be brief.;U:hello;A:ok" is cached, ";U:again;A:" is new.
    let second = chat.send("again", &Request::greedy(10), &mut quiet).unwrap();
    assert_eq!(second.statistics.cached_tokens, "S:Be brief.;U:hello;A:ok".len());
    let roles: Vec<&str> = chat.messages().iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
}

#[test]
fn the_oldest_turns_go_when_the_context_is_full() {
    let (mut chat, _) = chat(48);
    chat.set_system("S");
    let mut notices = Vec::new();
    for turn in 0..4 {
        let message = format!("message {turn}");
        chat.send(&message, &Request::greedy(4), |event| {
            if let Event::Notice(text) = event {
                notices.push(text);
            }
        })
        .unwrap();
    }
    // A turn is "U:message 0;A:ok;": 17 tokens, the system 4, the last question 14, the reserve 4.
    assert_eq!(chat.dropped(), 4);
    assert_eq!(chat.messages().len(), 9);
    assert_eq!(notices.len(), 2);
    assert!(notices[1].contains("the 4 oldest messages are dropped"), "{notices:?}");
    let held: Vec<u8> = chat.session().sequence().tokens().iter().map(|&id| id as u8).collect();
    assert_eq!(String::from_utf8(held).unwrap(), "S:S;U:message 2;A:ok;U:message 3;A:ok");
}

#[test]
fn a_message_that_cannot_fit_is_refused_and_forgotten() {
    let (mut chat, _) = chat(32);
    chat.send("hi", &Request::greedy(4), &mut quiet).unwrap();
    let error = chat.send(&"x".repeat(40), &Request::greedy(4), &mut quiet).unwrap_err().to_string();
    assert!(error.contains("the prompt has 45 tokens but the context holds 32"), "{error}");
    assert_eq!((chat.messages().len(), chat.dropped()), (2, 0));
    assert_eq!(chat.send("hi", &Request::greedy(4), &mut quiet).unwrap().text, "ok");
}

#[test]
fn an_answer_can_be_given_again() {
    let (mut chat, _) = chat(128);
    assert!(chat.regenerate(&Request::greedy(4), &mut quiet).is_err());
    chat.send("hi", &Request::greedy(1), &mut quiet).unwrap();
    assert_eq!(chat.messages()[1].content, "o");
    let outcome = chat.regenerate(&Request::greedy(4), &mut quiet).unwrap();
    assert_eq!((outcome.text.as_str(), chat.messages().len()), ("ok", 2));
    // The row of logits after the prompt was kept.
    assert_eq!(outcome.statistics.cached_tokens, "U:hi;A:".len());
}

#[test]
fn reset_keeps_the_system_message() {
    let (mut chat, _) = chat(128);
    chat.set_system("first");
    chat.set_system("second");
    chat.send("hi", &Request::greedy(4), &mut quiet).unwrap();
    chat.reset();
    assert_eq!(chat.messages(), [ChatMessage::system("second")]);
    chat.set_system("");
    assert!(chat.messages().is_empty());
}

#[test]
fn a_conversation_is_saved_and_read_back() {
    let (mut first, _) = chat(128);
    first.set_system("S");
    first.send("hi \"you\"", &Request::greedy(4), &mut quiet).unwrap();
    let json = first.to_json().unwrap();
    let (mut second, _) = chat(128);
    second.load_json(&json).unwrap();
    assert_eq!(second.messages(), first.messages());
    assert!(second.load_json("{}").is_err());
    assert_eq!(second.messages().len(), 3);
}

#[test]
fn a_message_cancelled_before_its_answer_is_forgotten() {
    let (mut chat, _) = chat(128);
    let cancel = Some(Arc::new(AtomicBool::new(true)));
    let outcome = chat.send("hi", &Request::greedy(4).with_cancel(cancel), &mut quiet).unwrap();
    assert_eq!(outcome.reason, StopReason::Cancelled);
    assert!(chat.messages().is_empty());
}

/// Calls `f`, and answers "fine" to its result.
fn calling(history: &[u32]) -> u32 {
    let text: String = history.iter().map(|&id| char::from(u8::try_from(id).unwrap_or(0))).collect();
    let wanted = if text.contains("T:") { "fine" } else { "So: <c>f {\"x\": 1}</c>" };
    let answered = text.rsplit("A:").next().map_or(0, str::len);
    wanted.as_bytes().get(answered).map_or(END, |&byte| byte.into())
}

#[test]
fn a_call_is_reported_and_its_result_is_answered() {
    let format = Format { calls: Some(calls_of_f()), ..Format::default() };
    let model = Arc::new(FakeModel::new(VOCABULARY, calling));
    let mut chat = ChatSession::new(session(&model, 256), Arc::new(format));
    let mut events = Vec::new();
    let outcome = chat.send("go", &Request::greedy(50), |event| events.push(event)).unwrap();
    let [call] = outcome.tool_calls.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str(), outcome.text.as_str()),
        ("f", "{\"x\": 1}", "So:")
    );
    let begun = Event::CallBegin { index: 0, id: call.id.clone(), name: "f".to_owned() };
    let at = events.iter().position(|event| *event == begun).unwrap();
    let streamed: String = events[at..]
        .iter()
        .filter_map(|event| match event {
            Event::CallArguments { index: 0, text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(streamed, call.arguments);
    assert!(events[at..].contains(&Event::CallEnd { index: 0 }));
    assert_eq!(chat.messages()[1].tool_calls, outcome.tool_calls);
    // The conversation is saved with the call.
    let saved = chat.to_json().unwrap();
    let result = ChatMessage::tool_result(call, "done");
    let second = chat.send_messages(vec![result], &Request::greedy(50), &mut quiet).unwrap();
    assert_eq!((second.text.as_str(), chat.messages().len()), ("fine", 4));
    assert_eq!(chat.messages()[2].tool_call_id.as_ref(), Some(&call.id));
    chat.load_json(&saved).unwrap();
    assert_eq!(chat.messages()[1].tool_calls, outcome.tool_calls);
    // A call that is cut is no call, and what is too long leaves no messages behind.
    let cut = chat.regenerate(&Request::greedy(20), &mut quiet).unwrap();
    assert_eq!((cut.tool_calls.as_slice(), cut.reason), ([].as_slice(), StopReason::MaxTokens));
    let before = chat.messages().to_vec();
    let long = ChatMessage::tool_result(call, "x".repeat(300));
    chat.send_messages(vec![long], &Request::greedy(9), &mut quiet).unwrap_err();
    assert_eq!(chat.messages(), before);
}
