//! [`EngineLoop`]: the thread of a model. It owns the queues, and only this thread steps them.

use super::job::{AdmittedRequests, AnswerMessage, AnswersJob, EngineJob, TextVectors, VectorsJob};
use menagerie::engine::{Event, GenerateError, Queue, RequestId, VectorQueue};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The queues of a model and their open requests.
pub(crate) struct EngineLoop {
    text: Option<Queue>,
    vectors: Option<VectorQueue>,
    /// The time of a step of vectors while answers are generated.
    step_time: Option<Duration>,
    answers: HashMap<RequestId, OpenAnswer>,
    /// The job and the place of each text.
    texts: HashMap<RequestId, (u64, usize)>,
    jobs: HashMap<u64, OpenVectors>,
    next: u64,
}

/// An answer that has not ended.
struct OpenAnswer {
    number: usize,
    sink: mpsc::UnboundedSender<AnswerMessage>,
    /// Whether it had an event.
    has_begun: bool,
    /// All answers of a job are open until the last one has ended.
    _admission: Arc<AdmittedRequests>,
}

/// Texts whose vectors are not complete.
struct OpenVectors {
    vectors: Vec<Option<Result<Vec<f32>, GenerateError>>>,
    cancel: Arc<AtomicBool>,
    sink: oneshot::Sender<TextVectors>,
    _admission: AdmittedRequests,
}

impl EngineLoop {
    pub(crate) fn new(
        text: Option<Queue>,
        vectors: Option<VectorQueue>,
        step_time: Option<Duration>,
    ) -> Self {
        let (answers, texts, jobs) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { text, vectors, step_time, answers, texts, jobs, next: 0 }
    }

    /// Computes jobs until all senders are gone.
    pub(crate) fn run(&mut self, jobs: &Receiver<EngineJob>) {
        loop {
            if self.is_idle() {
                let Ok(job) = jobs.recv() else { return };
                self.begin(job);
            }
            while let Ok(job) = jobs.try_recv() {
                self.begin(job);
            }
            self.step_text();
            self.step_vectors();
        }
    }

    fn is_idle(&self) -> bool {
        self.text.as_ref().is_none_or(Queue::is_idle)
            && self.vectors.as_ref().is_none_or(VectorQueue::is_idle)
    }

    fn begin(&mut self, job: EngineJob) {
        match job {
            EngineJob::Answers(job) => self.begin_answers(job),
            EngineJob::Vectors(job) => self.begin_vectors(job),
            EngineJob::CancelAll => {
                if let Some(queue) = &mut self.text {
                    self.answers.keys().for_each(|id| queue.cancel(*id));
                }
                self.jobs.values().for_each(|job| job.cancel.store(true, Ordering::Relaxed));
            }
        }
    }

    fn begin_answers(&mut self, AnswersJob { prompts, sink, admission }: AnswersJob) {
        // Without a queue the sinks are dropped, which the receiver reports.
        let Some(queue) = &mut self.text else { return };
        let (admission, mut number) = (Arc::new(admission), 0);
        for (prompt, requests) in prompts {
            for request in requests {
                let id = queue.submit(prompt.clone(), &request);
                let (sink, _admission) = (sink.clone(), Arc::clone(&admission));
                self.answers.insert(id, OpenAnswer { number, sink, has_begun: false, _admission });
                number += 1;
            }
        }
    }

    fn begin_vectors(&mut self, job: VectorsJob) {
        let Some(queue) = &mut self.vectors else { return };
        let VectorsJob { texts, options, tenant, cancel, sink, admission } = job;
        let number = self.next;
        self.next += 1;
        let vectors = texts.iter().map(|_| None).collect();
        for (place, text) in texts.into_iter().enumerate() {
            self.texts.insert(queue.submit(text, &options, tenant), (number, place));
        }
        self.jobs.insert(number, OpenVectors { vectors, cancel, sink, _admission: admission });
    }

    fn step_text(&mut self) {
        let Some(queue) = self.text.as_mut().filter(|queue| !queue.is_idle()) else { return };
        let (answers, began) = (&mut self.answers, Instant::now());
        let ended = queue.step(|id, event| hear(answers, (id, event), began));
        for (id, result) in ended {
            if let Some(OpenAnswer { number, sink, .. }) = answers.remove(&id) {
                // The client may be gone.
                let _ = sink.send(AnswerMessage::Ended(number, Box::new(result), Instant::now()));
            }
        }
    }

    fn step_vectors(&mut self) {
        let is_alone = self.text.as_ref().is_none_or(Queue::is_idle);
        let Some(queue) = self.vectors.as_mut().filter(|queue| !queue.is_idle()) else { return };
        for (id, (job, _)) in &self.texts {
            if self.jobs.get(job).is_some_and(|job| job.cancel.load(Ordering::Relaxed)) {
                queue.cancel(*id);
            }
        }
        for (id, vector) in queue.step(self.step_time.filter(|_| !is_alone)) {
            let Some((number, place)) = self.texts.remove(&id) else { continue };
            let Some(job) = self.jobs.get_mut(&number) else { continue };
            if let Some(slot) = job.vectors.get_mut(place) {
                *slot = Some(vector);
            }
            if job.vectors.iter().all(Option::is_some)
                && let Some(job) = self.jobs.remove(&number)
            {
                // The client may be gone.
                let _ = job.sink.send(job.vectors.into_iter().flatten().collect());
            }
        }
    }
}

/// Passes on an event of a step that began at this time. A client that is gone stops its answer.
fn hear(
    answers: &mut HashMap<RequestId, OpenAnswer>,
    (id, event): (RequestId, Event),
    began: Instant,
) -> ControlFlow<()> {
    let Some(OpenAnswer { number, sink, has_begun, .. }) = answers.get_mut(&id) else {
        return ControlFlow::Continue(());
    };
    if !std::mem::replace(has_begun, true) {
        // A client that is gone is found below.
        let _ = sink.send(AnswerMessage::Began(*number, began));
    }
    match sink.send(AnswerMessage::Event(*number, event, Instant::now())) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}
