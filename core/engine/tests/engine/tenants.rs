//! Tenants of a queue take turns.

use crate::fixture::{engine, mixing};
use menagerie_engine::{Event, Queue, Request, RequestId, Scheduler, SchedulerOptions};
use menagerie_testkit::FakeModel;
use std::collections::BTreeMap;
use std::sync::Arc;

fn queue(places: usize) -> Queue {
    let model = Arc::new(FakeModel::new(50, mixing));
    let options = SchedulerOptions::default().with_sequences(places).with_prefixes(0).with_step_tokens(256);
    Queue::new(Scheduler::new(engine(&model, 512, 256), Vec::new(), options).unwrap(), None)
}

/// Submits requests of a tenant, each of which runs for `steps` steps.
fn submit(queue: &mut Queue, tenant: u64, count: u32, steps: usize) -> Vec<RequestId> {
    let request = Request::greedy(steps).with_tenant(tenant);
    (0..count).map(|salt| queue.submit(&[(tenant % 50) as u32, salt % 50, 3], &request)).collect()
}

/// A step; the number of tokens of each tenant's requests in it.
fn step(queue: &mut Queue, owner: &BTreeMap<RequestId, u64>) -> (Vec<RequestId>, BTreeMap<u64, usize>) {
    let mut tokens = BTreeMap::new();
    let ended = queue.step(|id, event| {
        if matches!(event, Event::Token { .. }) {
            *tokens.entry(owner[&id]).or_default() += 1;
        }
    });
    (ended.into_iter().map(|(id, _)| id).collect(), tokens)
}

#[test]
fn a_thousand_requests_of_one_tenant_do_not_hold_up_another() {
    for places in [1, 4] {
        let mut queue = queue(places);
        submit(&mut queue, 1, 1000, 3);
        (0..100).for_each(|_| drop(queue.step(|_, _| {})));
        for round in 0..20 {
            let late = submit(&mut queue, 2, 1, 3)[0];
            let steps = (1..).find(|_| queue.step(|_, _| {}).iter().any(|(id, _)| *id == late));
            // Until a place is free, and its own three steps.
            assert!(steps.unwrap() <= 6, "{places} places, round {round}: {steps:?} steps");
        }
        assert!(queue.waiting() > 500);
    }
}

/// Tenants share the places evenly while all have requests, independent of the numbers and the order of the requests.
#[test]
fn places_are_shared_evenly() {
    let mut queue = queue(6);
    let mut owner = BTreeMap::new();
    for (tenant, count) in [(7, 300), (1, 40), (u64::MAX, 40)] {
        owner.extend(submit(&mut queue, tenant, count, 10).into_iter().map(|id| (id, tenant)));
    }
    for at in 0..180 {
        let (_, tokens) = step(&mut queue, &owner);
        assert_eq!(tokens, [(1, 2), (7, 2), (u64::MAX, 2)].into(), "step {at}");
    }
    // Alone, a tenant has all places.
    while queue.waiting() > 200 {
        step(&mut queue, &owner);
    }
    let (_, tokens) = step(&mut queue, &owner);
    assert_eq!(tokens, [(7, 6)].into());
}

/// A higher priority comes before a tenant's turn, but not forever; and a tenant's own urgent requests come before its
/// others, but not forever.
#[test]
fn priorities_come_before_turns() {
    let of = |tenant, priority| Request::greedy(2).with_tenant(tenant).with_priority(priority);
    let mut turns = queue(1);
    let urgent: Vec<RequestId> = (0..3).map(|salt| turns.submit(&[1, salt], &of(1, 5))).collect();
    let other = turns.submit(&[2, 2], &of(2, 0));
    let order: Vec<RequestId> = std::iter::from_fn(|| {
        (!turns.is_idle()).then(|| turns.step(|_, _| {}).into_iter().map(|(id, _)| id).collect::<Vec<_>>())
    })
    .flatten()
    .collect();
    assert_eq!(order, [urgent[0], urgent[1], urgent[2], other]);

    // Three priorities are 48 steps. Those that came in these steps are before it, two steps each, if they are of the
    // same tenant.
    for (patient_tenant, most) in [(1, 2 * 48 + 4), (2, 48 + 4)] {
        let mut queue = queue(1);
        let patient = queue.submit(&[9, 9], &of(patient_tenant, 0));
        let ended = (0..1000).find(|salt| {
            queue.submit(&[1, salt % 50], &of(1, 3));
            queue.step(|_, _| {}).iter().any(|(id, _)| *id == patient)
        });
        assert!(ended.is_some_and(|step| (48..=most).contains(&step)), "tenant {patient_tenant}: {ended:?}");
    }
}

/// Without tenants requests start as they come.
#[test]
fn requests_of_one_tenant_start_in_the_order_of_submission() {
    let mut queue = queue(1);
    let ids = [submit(&mut queue, 0, 5, 1), submit(&mut queue, 0, 5, 1)].concat();
    let mut order = Vec::new();
    while !queue.is_idle() {
        order.extend(queue.step(|_, _| {}).into_iter().map(|(id, _)| id));
    }
    assert_eq!(order, ids);
}
