//! [`WaitingList`]: requests that have not started, in the order in which they start.

use super::admission::WaitingRequest;
use crate::hooks::RequestId;
use crate::sequence::STEPS_PER_PRIORITY;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The place of a request among those of its tenant: each step of waiting counts like a sixteenth of a priority. It
/// does not change while the request waits, because all requests wait for the same steps.
type Place = (i64, RequestId);

/// Requests that have not started.
///
/// The next one is of the most urgent tenant: the one with the highest priority among its waiting requests, raised
/// while none of its requests run. Among equals, it is the tenant with the fewest running requests, then the one that
/// was served longest ago. So neither urgent requests nor many requests of other tenants keep a tenant waiting
/// forever. Among the requests of one tenant, priority and time of waiting decide.
#[derive(Default)]
pub(crate) struct WaitingList {
    /// Only tenants with waiting requests.
    tenants: BTreeMap<u64, TenantQueue>,
    len: usize,
}

/// The waiting requests of a tenant.
#[derive(Default)]
struct TenantQueue {
    requests: BTreeMap<Place, WaitingRequest>,
    /// How many of them have each priority.
    priorities: BTreeMap<i32, usize>,
    /// The step in which it was served last: one of its requests started or ended. At first the step in which it came.
    served: usize,
}

/// The most requests of a tenant that wait for a prefix and let later ones start before them. More are not looked at,
/// because each is compared with all prefixes.
const MAX_PASSED: usize = 64;

/// Goes through the requests of a [`WaitingList`] in the order in which they start. Those that it has passed keep
/// their places.
#[derive(Default)]
pub(crate) struct WaitingCursor {
    /// The last passed request of each tenant, and how many were passed.
    passed: BTreeMap<u64, (Place, usize)>,
}

fn place(request: &WaitingRequest) -> Place {
    let credit = i64::from(request.priority()) * STEPS_PER_PRIORITY as i64;
    (request.arrival_step() as i64 - credit, request.id())
}

impl TenantQueue {
    /// Its first request after those that were passed.
    fn next(&self, passed: Option<&(Place, usize)>) -> Option<(Place, &WaitingRequest)> {
        let mut rest = match passed {
            Some((_, MAX_PASSED..)) => return None,
            Some((place, _)) => self.requests.range((Bound::Excluded(*place), Bound::Unbounded)),
            None => self.requests.range(..),
        };
        rest.next().map(|(place, request)| (*place, request))
    }

    /// Its highest priority, raised by the time in which none of its requests ran; `running` is their number.
    fn urgency(&self, steps: usize, running: usize) -> i64 {
        let highest = self.priorities.keys().next_back().copied().unwrap_or_default();
        let waited = if running > 0 { 0 } else { steps.saturating_sub(self.served) };
        i64::from(highest) + (waited / STEPS_PER_PRIORITY) as i64
    }
}

impl WaitingList {
    /// The number of requests.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a request.
    pub(crate) fn push(&mut self, request: WaitingRequest) {
        let arrival_step = request.arrival_step();
        let new = || TenantQueue { served: arrival_step, ..TenantQueue::default() };
        let tenant = self.tenants.entry(request.tenant()).or_insert_with(new);
        *tenant.priorities.entry(request.priority()).or_default() += 1;
        tenant.requests.insert(place(&request), request);
        self.len += 1;
    }

    /// The next request in order, with its place; `running` is the number of running requests of a tenant.
    pub(crate) fn next(
        &self,
        cursor: &WaitingCursor,
        steps: usize,
        running: impl Fn(u64) -> usize,
    ) -> Option<(Place, &WaitingRequest)> {
        let candidates = self.tenants.iter().filter_map(|(tenant, own)| {
            let (place, request) = own.next(cursor.passed.get(tenant))?;
            let running = running(*tenant);
            let rank = (Reverse(own.urgency(steps, running)), running, own.served, request.id());
            Some((rank, place, request))
        });
        let first = candidates.min_by_key(|(rank, ..)| *rank);
        first.map(|(_, place, request)| (place, request))
    }

    /// Notes that a request of a tenant has started or ended.
    pub(crate) fn served(&mut self, tenant: u64, steps: usize) {
        if let Some(own) = self.tenants.get_mut(&tenant) {
            own.served = steps;
        }
    }

    /// Removes the requests for which `gone` returns true, in the order of their tenants.
    pub(crate) fn remove_all(&mut self, gone: impl Fn(&WaitingRequest) -> bool) -> Vec<WaitingRequest> {
        let all = self.tenants.iter().flat_map(|(tenant, own)| {
            own.requests.iter().map(move |(place, request)| (*tenant, *place, request))
        });
        let found: Vec<(u64, Place)> =
            all.filter(|(.., request)| gone(request)).map(|(tenant, place, _)| (tenant, place)).collect();
        found.into_iter().filter_map(|(tenant, place)| self.remove(tenant, place)).collect()
    }

    /// Removes the request at a place.
    pub(crate) fn remove(&mut self, tenant: u64, place: Place) -> Option<WaitingRequest> {
        let own = self.tenants.get_mut(&tenant)?;
        let request = own.requests.remove(&place)?;
        self.len -= 1;
        if let Some(count) = own.priorities.get_mut(&request.priority()) {
            *count -= 1;
            if *count == 0 {
                own.priorities.remove(&request.priority());
            }
        }
        if own.requests.is_empty() {
            self.tenants.remove(&tenant);
        }
        Some(request)
    }

    /// All requests, those of `tenant` first.
    pub(crate) fn requests(&self, tenant: u64) -> impl Iterator<Item = &WaitingRequest> {
        let own = self.tenants.get(&tenant).into_iter();
        let others = self.tenants.iter().filter(move |(other, _)| **other != tenant).map(|(_, one)| one);
        own.chain(others).flat_map(|one| one.requests.values())
    }
}

impl WaitingCursor {
    /// Passes a request, which waits for something that later ones may not need.
    pub(crate) fn pass(&mut self, tenant: u64, place: Place) {
        let passed = self.passed.entry(tenant).or_insert((place, 0));
        *passed = (place, passed.1 + 1);
    }
}
