//! Another answer to the prompt that a session just answered: no row of the prompt is computed again.

use crate::fixture::{engine, mixing};
use menagerie_engine::{Request, Scheduler, Session};
use menagerie_testkit::FakeModel;
use std::sync::Arc;

/// Tokens of an answer: more than the pages that a window of 10 shows.
const ANSWER: usize = 700;

fn session(model: &Arc<FakeModel>) -> Session {
    Session::new(Scheduler::for_one(engine(model, 2000, 16), Vec::new()).unwrap(), None).unwrap()
}

/// Rows that the model was given since it was asked before.
fn rows(model: &FakeModel) -> usize {
    model.take_seen().iter().map(|seen| seen.tokens.len()).sum()
}

fn answer(session: &mut Session, prompt: &[u32], count: usize) -> (Vec<u32>, usize) {
    let outcome = session.generate(prompt, &Request::greedy(count), |_| {}).unwrap();
    (outcome.tokens, outcome.statistics.cached_tokens)
}

#[test]
fn only_rows_of_the_answer_are_computed_whatever_the_state_is() {
    let kinds: [fn(FakeModel) -> FakeModel; 4] = [
        |model| model,
        |model| model.windowed(10),
        FakeModel::recurrent,
        |model| model.recurrent().windowed(10),
    ];
    let prompt: Vec<u32> = (0..60).map(|at| at * 7 % 50).collect();
    for (kind, made) in kinds.into_iter().enumerate() {
        let model = Arc::new(made(FakeModel::new(50, mixing)));
        let mut session = session(&model);
        let (first, cached) = answer(&mut session, &prompt, ANSWER);
        assert_eq!((first.len(), cached), (ANSWER, 0), "kind {kind}");
        // What is said last is not fed.
        assert_eq!(rows(&model), prompt.len() + ANSWER - 1, "kind {kind}");
        for _ in 0..3 {
            let (again, cached) = answer(&mut session, &prompt, ANSWER);
            assert!(again == first, "kind {kind}");
            assert_eq!((cached, rows(&model)), (prompt.len(), ANSWER - 1), "kind {kind}");
        }
        // The conversation goes on, and another answer to that is given again; then the first prompt comes once more.
        let longer = [&prompt[..], &first[..40], &[3, 1, 4]].concat();
        let (next, _) = answer(&mut session, &longer, 30);
        rows(&model);
        assert!(answer(&mut session, &longer, 30) == (next, longer.len()), "kind {kind}");
        assert_eq!(rows(&model), 29, "kind {kind}");
        assert!(answer(&mut session, &prompt, ANSWER).0 == first, "kind {kind}");
    }
}

#[test]
fn an_answer_of_no_tokens_and_one_that_ends_at_once_are_given_again() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut session = session(&model);
    for count in [0, 1, 0, 2, 1] {
        assert_eq!(answer(&mut session, &[5, 6, 7], count).0.len(), count);
    }
    assert_eq!(rows(&model), 3 + 1);
}
