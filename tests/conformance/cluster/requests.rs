//! Requests over the stages of a cluster: many that are cancelled.

use super::bits::{base, prompt};
use super::stages::Cluster;
use menagerie::engine::{Arithmetic, Event, Request};
use menagerie_conformance::{fixtures, options};
use std::ops::ControlFlow;

#[test]
fn a_thousand_cancelled_requests_leave_nothing_in_the_stages() {
    let (load, file) = (options(Arithmetic::Fast), base("llama"));
    let cluster = Cluster::with_stages(&file, &load, 2);
    let pipeline = cluster.open(&file, &load).unwrap();
    let tokens = prompt(&fixtures().join("base/llama"));
    let answer =
        || pipeline.session().unwrap().generate(&tokens, &Request::greedy(6), |_| ()).unwrap().tokens;
    let expected = answer();
    for number in 0..1000 {
        let mut session = pipeline.session().unwrap();
        let outcome = session.generate(&tokens[..1 + number % 3], &Request::greedy(6), |event| match event {
            Event::Token { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert_eq!(outcome.unwrap().tokens.len(), 1, "request {number}");
    }
    assert_eq!(expected, answer());
    for meter in cluster.meters.lock().unwrap().iter() {
        Cluster::wait_until("requests are left", || meter.counts().requests <= 2);
    }
}
