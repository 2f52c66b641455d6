//! [`RequestDeadline`]: the time at which the answer to a request must be complete.

use crate::fault::ApiFault;
use axum::http::HeaderMap;
use axum::response::Response;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// The header with which a client sets a shorter time, in seconds.
const HEADER: &str = "x-menagerie-timeout";

tokio::task_local! {
    /// The deadline of the request that a task answers.
    static CURRENT: Option<RequestDeadline>;
}

/// The end of the time of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestDeadline {
    at: Instant,
    time: Duration,
}

impl RequestDeadline {
    /// The deadline of a request that begins now: the time of the server, or a shorter one of the client. `None` without
    /// both.
    pub(crate) fn of(headers: &HeaderMap, most: Option<Duration>) -> Result<Option<Self>, ApiFault> {
        let own = headers.get(HEADER).map(|value| {
            let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok());
            let time = seconds.filter(|seconds| *seconds > 0.0).map(Duration::try_from_secs_f64);
            time.and_then(Result::ok).ok_or_else(|| {
                let reason = format!("the header {HEADER} is not a number of seconds above 0");
                ApiFault::new(400, reason).with_param(HEADER)
            })
        });
        let time = match (own.transpose()?, most) {
            (Some(own), Some(most)) => own.min(most),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Ok(None),
        };
        // A time that no clock can show is no limit.
        Ok(Instant::now().checked_add(time).map(|at| Self { at, time }))
    }

    /// The answer to a request with this deadline, if it begins in time. Otherwise its work is cancelled.
    pub(crate) async fn bound(
        deadline: Option<Self>,
        answer: impl Future<Output = Response>,
    ) -> Result<Response, ApiFault> {
        let answer = CURRENT.scope(deadline, answer);
        match deadline {
            Some(deadline) => timeout_at(deadline.at, answer).await.map_err(|_| deadline.fault()),
            None => Ok(answer.await),
        }
    }

    /// Work of the current request that goes on after its answer has begun, with the same deadline.
    pub(crate) fn carry<T>(
        work: impl Future<Output = Result<T, ApiFault>>,
    ) -> impl Future<Output = Result<T, ApiFault>> {
        let deadline = Self::current();
        async move {
            let work = CURRENT.scope(deadline, work);
            match deadline {
                Some(deadline) => timeout_at(deadline.at, work).await.map_err(|_| deadline.fault())?,
                None => work.await,
            }
        }
    }

    fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok().flatten()
    }

    fn fault(self) -> ApiFault {
        let reason = format!(
            "the answer took longer than {} s (--request-timeout of the server, or the header {HEADER})",
            self.time.as_secs_f64()
        );
        ApiFault::new(504, reason).with_code("deadline_exceeded")
    }
}

/// A timer that runs until the deadline of a request; without a deadline it never ends.
pub(crate) struct DeadlineTimer(Option<(RequestDeadline, Pin<Box<Sleep>>)>);

impl DeadlineTimer {
    /// Of the request that the current task answers.
    pub(crate) fn of_current() -> Self {
        Self(RequestDeadline::current().map(|deadline| (deadline, Box::pin(sleep_until(deadline.at)))))
    }

    /// The error of a request whose time is over.
    pub(crate) fn poll(&mut self, context: &mut Context) -> Poll<ApiFault> {
        match &mut self.0 {
            None => Poll::Pending,
            Some((deadline, sleep)) => sleep.as_mut().poll(context).map(|()| deadline.fault()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_time_counts_and_a_wrong_one_is_refused() {
        let time = |header: Option<&str>, most: Option<u64>| {
            let mut headers = HeaderMap::new();
            if let Some(text) = header {
                headers.insert(HEADER, text.parse().unwrap());
            }
            RequestDeadline::of(&headers, most.map(Duration::from_secs))
                .map(|found| found.map(|one| one.time))
        };
        assert_eq!(time(None, None), Ok(None));
        assert_eq!(time(Some("0.5"), None), Ok(Some(Duration::from_millis(500))));
        assert_eq!(time(Some("2"), Some(1)), Ok(Some(Duration::from_secs(1))));
        assert_eq!(time(None, Some(3)), Ok(Some(Duration::from_secs(3))));
        for wrong in ["0", "-1", "soon", "nan", "inf", "1e30"] {
            let fault = time(Some(wrong), Some(3)).unwrap_err();
            assert!(fault.status == 400 && fault.message.contains(HEADER), "{wrong}");
        }
    }
}
