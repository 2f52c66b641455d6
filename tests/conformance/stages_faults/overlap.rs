//! Steps in flight: how many there are, and what a fault of one does to the others.

use crate::mischief::{Mischief, Place};
use crate::split::{LONG, Making, Split};
use menagerie::engine::{Engine, GenerateError, Queue, Request, RequestId, Scheduler, SchedulerOptions};
use menagerie::open::stage_fault;
use menagerie::stages::{FaultKind, FrameKind, PipelineTransport, StageFrame, TransportFault, TransportKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The frames of steps that the chain has sent, and the answers that it has received, in order.
#[derive(Default)]
pub(crate) struct SeenFrames(Mutex<Vec<SeenFrame>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeenFrame {
    /// A step of sequences that decode, by its number.
    Sent(u32),
    /// The answer of a step.
    Answered(u32),
}

/// The chain's end of the links, which records the frames.
pub(crate) struct Recorder<T> {
    pub(crate) inner: T,
    pub(crate) seen: Arc<SeenFrames>,
}

impl SeenFrames {
    fn add(&self, frame: SeenFrame) {
        self.0.lock().unwrap().push(frame);
    }

    /// For each answer of a step that decodes, the number of such steps in flight while the chain waited for it.
    fn in_flight(&self) -> Vec<usize> {
        let (mut steps, mut found) = (BTreeSet::new(), Vec::new());
        for frame in &*self.0.lock().unwrap() {
            match frame {
                SeenFrame::Sent(step) => assert!(steps.insert(*step)),
                SeenFrame::Answered(step) if steps.contains(step) => {
                    found.push(steps.len());
                    steps.remove(step);
                }
                SeenFrame::Answered(_) => {}
            }
        }
        found
    }
}

impl<T: PipelineTransport> PipelineTransport for Recorder<T> {
    fn kind(&self) -> TransportKind {
        self.inner.kind()
    }

    fn send(&mut self, frame: StageFrame, by: Instant) -> Result<(), TransportFault> {
        let header = frame.header(self.inner.kind()).unwrap();
        self.inner.send(frame, by)?;
        // The last chunk of a prompt has logits, too.
        if header.kind == FrameKind::Step && header.needs_logits && !header.last_chunk {
            self.seen.add(SeenFrame::Sent(header.step));
        }
        Ok(())
    }

    fn receive(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        let frame = self.inner.receive(by)?;
        let header = frame.as_ref().and_then(|frame| frame.header(self.inner.kind()).ok());
        if let Some(header) = header.filter(|header| header.kind == FrameKind::Logits) {
            self.seen.add(SeenFrame::Answered(header.step));
        }
        Ok(frame)
    }

    fn send_back(&mut self, frame: StageFrame) -> Result<(), TransportFault> {
        self.inner.send_back(frame)
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.inner.receive_back(by)
    }
}

fn queue(engine: &Arc<Engine>) -> Queue {
    let room = SchedulerOptions::default()
        .with_sequences(8)
        .with_prefixes(0)
        .with_capacity_tokens(512)
        .with_step_tokens(16);
    let engine = Arc::new(Engine { chunk: 16, ..(**engine).clone() });
    Queue::new(Scheduler::new(engine, Vec::new(), room).unwrap(), None)
}

type Answers = BTreeMap<RequestId, Result<Vec<u32>, GenerateError>>;

/// Answers of twelve tokens to four prompts of five, which are all computed in the first steps.
fn answers(queue: &mut Queue) -> Answers {
    for index in 0..4 {
        let prompt: Vec<u32> = (0..5).map(|at| 3 + 11 * index + 5 * at).collect();
        queue.submit(&prompt, &Request::greedy(12));
    }
    let ended = queue.run(|_, _| {});
    ended.into_iter().map(|(id, result)| (id, result.map(|outcome| outcome.tokens))).collect()
}

fn overlapping(mischief: Option<(Mischief, Place)>, overlap: usize, seen: &Arc<SeenFrames>) -> Split {
    let transport = mischief.map_or(TransportKind::Serialized, |(mischief, _)| mischief.transport());
    let making = Making { mischief, transport, overlap, seen: Some(Arc::clone(seen)), ..Making::default() };
    Split::made(making).unwrap()
}

/// The tokens of the whole model.
fn expected(split: &Split) -> Vec<Vec<u32>> {
    answers(&mut queue(&split.whole)).into_values().map(Result::unwrap).collect()
}

/// While the chain waits for an answer, other steps are on their way, whatever the machine does meanwhile.
#[test]
fn as_many_steps_are_on_their_way_as_may_be() {
    for overlap in 1..=4 {
        let seen = Arc::default();
        let split = overlapping(None, overlap, &seen);
        let found = answers(&mut queue(&split.engine));
        let found: Vec<Vec<u32>> = found.into_values().map(Result::unwrap).collect();
        assert!(found == expected(&split));
        let in_flight = seen.in_flight();
        assert_eq!(in_flight.iter().max(), Some(&overlap));
        // At the beginning prompts are in flight too, and at the end there are fewer requests.
        let fewer = in_flight.iter().filter(|steps| **steps < overlap).count();
        assert!(in_flight.len() >= 11 && fewer <= 2 * overlap, "{overlap}: {in_flight:?}");
        split.end();
    }
}

/// A row that is no number fails its sequence, in whichever step it is.
#[test]
fn a_row_that_is_no_number_fails_only_its_sequence_of_all_in_flight() {
    for frame in [0, 5, 6, 11] {
        let seen = Arc::default();
        let place = Place { link: 1, frame };
        let split = overlapping(Some((Mischief::NotANumber, place)), 2, &seen);
        let found = answers(&mut queue(&split.engine));
        let failed: Vec<&GenerateError> = found.values().filter_map(|one| one.as_ref().err()).collect();
        assert_eq!(failed.len(), 1, "frame {frame}: {failed:?}");
        let fault = stage_fault(failed[0]).unwrap_or_else(|| panic!("{}", failed[0]));
        assert_eq!((fault.kind, fault.stage.index), (FaultKind::NotFinite, 1), "{fault}");
        for (found, expected) in found.values().zip(expected(&split)) {
            assert!(found.as_ref().map_or(true, |found| *found == expected), "frame {frame}");
        }
        split.end();
    }
}

/// A frame that is lost or changed loses the states of all sequences, those in flight included. They are computed again, and
/// nothing is lost or doubled in any text.
#[test]
fn a_lost_frame_changes_no_text_of_those_in_flight() {
    for (mischief, link) in [
        (Mischief::FlipBit, 0),
        (Mischief::FlipBit, 1),
        (Mischief::FlipBit, 2),
        (Mischief::Drop, 1),
        (Mischief::Double, 1),
        (Mischief::OldEpoch, 1),
    ] {
        for frame in [6, 7] {
            let seen = Arc::default();
            let split = overlapping(Some((mischief, Place { link, frame })), 2, &seen);
            let mut queue = queue(&split.engine);
            let (began, what) = (Instant::now(), format!("{mischief:?} of frame {frame} on link {link}"));
            let found: Vec<Vec<u32>> =
                answers(&mut queue).into_values().map(|one| one.expect(&what)).collect();
            assert!(found == expected(&split), "{what}");
            assert!(began.elapsed() < LONG / 2, "{what}: {:?}", began.elapsed());
            let counts = *queue.scheduler().counts();
            assert_eq!((counts.restores, counts.replays), (1, 4), "{what}");
            drop(queue);
            split.end();
        }
    }
}

/// A step that is not answered in time is given up with the one after it; late answers are nobody's.
#[test]
fn a_late_step_is_given_up_with_those_after_it() {
    let seen = Arc::default();
    let place = Place { link: 1, frame: 6 };
    let making = Making {
        mischief: Some((Mischief::Slow(4), place)),
        overlap: 2,
        seen: Some(Arc::clone(&seen)),
        deadline: Duration::from_secs(2),
        ..Making::default()
    };
    let split = Split::made(making).unwrap();
    let mut queue = queue(&split.engine);
    for error in answers(&mut queue).into_values().map(Result::unwrap_err) {
        assert!(error.to_string().contains("has not answered for 2 s"), "{error}");
    }
    let began = Instant::now();
    let again = loop {
        // The stage is still busy with the step that was given up.
        match answers(&mut queue).into_values().collect::<Result<Vec<_>, _>>() {
            Err(error) if error.to_string().contains("has not answered") && began.elapsed() < LONG => {}
            again => break again.unwrap(),
        }
    };
    assert!(again == expected(&split));
    drop(queue);
    split.end();
}
