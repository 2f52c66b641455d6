//! What a stopped generation leaves behind, on a real file.

use crate::opening::{open, options};
use menagerie_engine::{Event, Outcome, Request, Session, StopReason};
use std::ops::ControlFlow;

/// Tokens of an answer and the bits of their log probabilities.
type Bits = Vec<(u32, u32)>;

fn asked() -> Request {
    Request::greedy(12).with_ignore_eos(true).with_logprobs(0)
}

fn bits(session: &mut Session, prompt: &[u32]) -> Bits {
    let mut said = Bits::new();
    let note = |event| {
        if let Event::Token { id, logprob: Some(logprob), .. } = event {
            said.push((id, logprob.to_bits()));
        }
    };
    session.generate(prompt, &asked(), note).unwrap();
    said
}

/// Stops at the event of this number, by a callback.
fn broken(session: &mut Session, prompt: &[u32], at: usize) -> Outcome {
    let mut seen = 0;
    let outcome = session.generate(prompt, &asked(), |_| {
        seen += 1;
        if seen == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(seen, at, "it was called after it had stopped");
    outcome.unwrap()
}

#[test]
fn a_stopped_session_answers_with_the_same_bits() {
    let pipeline = open("llama", &options().with_chunk(4)).unwrap();
    let prompt: Vec<u32> = (1..40).collect();
    let other: Vec<u32> = (20..50).collect();
    let whole = bits(&mut pipeline.session().unwrap(), &prompt);
    let other_whole = bits(&mut pipeline.session().unwrap(), &other);
    let mut outcomes = Vec::new();
    // In the prompt, at its end, and in the answer.
    for at in [1, 3, 10, 13, 17] {
        let mut session = pipeline.session().unwrap();
        let outcome = broken(&mut session, &prompt, at);
        assert_eq!(outcome.reason, StopReason::Cancelled);
        assert!(outcome.tokens.iter().zip(&whole).all(|(token, (id, _))| token == id));
        outcomes.push(outcome.tokens.len());
        assert_eq!(bits(&mut session, &prompt), whole, "after a break at {at}");
        broken(&mut session, &prompt, at);
        assert_eq!(bits(&mut session, &other), other_whole, "another prompt after a break at {at}");

        let mut session = pipeline.session().unwrap();
        let request = asked();
        assert!(session.events(&prompt, &request).take(at).all(|event| event.is_ok()));
        assert_eq!(bits(&mut session, &prompt), whole, "after dropping the iterator at {at}");
        let mut events = session.events(&prompt, &request);
        assert!(events.by_ref().take(at).all(|event| event.is_ok()));
        assert_eq!(events.into_outcome().unwrap().reason, StopReason::Cancelled);
        assert_eq!(bits(&mut session, &other), other_whole, "after an early outcome at {at}");
    }
    // Ten chunks of the prompt; each token comes with its text or without.
    assert_eq!(outcomes[0], 0);
    assert!(outcomes[4] > outcomes[2] && outcomes[4] < whole.len(), "{outcomes:?}");
}
