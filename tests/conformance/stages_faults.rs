//! Frames that are dropped, doubled, swapped, changed or late; stages that are gone: each is a named error, within its
//! deadline, and what is asked afterwards is right or refused.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::assembly::{AssembleOptions, Assembly, StagePlan, assemble_stages};
use menagerie::model::Stage;
use menagerie::pipeline::{Arithmetic, Engine, LogitsOptions, Scheduler, TextPipeline, Wanted, logits};
use menagerie::registry::Components;
use menagerie::stages::{
    ChainFacts, ChainOptions, Channel, Frame, FrameKind, Header, Identity, PipelineTransport, SharedAdapters,
    StageChain, StageName, StageWorker, TransportFault, WorkerParts, ring,
};
use menagerie_conformance::{fixtures, options};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mischief {
    Drop,
    Double,
    Swap,
    FlipBit,
    OldEpoch,
    NotANumber,
    Slow,
    Gone,
}

/// A channel that does something to the `at`-th step that is sent over it.
struct Faulty {
    inner: Channel,
    mischief: Option<(Mischief, usize)>,
    steps: Arc<AtomicUsize>,
    kept: Option<Frame>,
}

impl Faulty {
    fn number(frame: &Frame, change: impl Fn(&mut Header, &mut Vec<u8>)) -> Frame {
        let (mut header, mut payload) = (frame.header().unwrap(), frame.payload.clone());
        change(&mut header, &mut payload);
        Frame::new(&header, payload).unwrap()
    }
}

impl PipelineTransport for Faulty {
    fn send(&mut self, frame: Frame, by: Instant) -> Result<(), TransportFault> {
        let is_step = frame.header().unwrap().kind == FrameKind::Step;
        let count = if is_step { self.steps.fetch_add(1, Ordering::SeqCst) } else { usize::MAX };
        let due = self.mischief.filter(|(_, at)| *at == count).map(|(mischief, _)| mischief);
        match due {
            None => {
                self.inner.send(frame, by)?;
                match self.kept.take() {
                    Some(kept) => self.inner.send(kept, by),
                    None => Ok(()),
                }
            }
            Some(Mischief::Drop) => Ok(()),
            Some(Mischief::Double) => {
                self.inner.send(frame.clone(), by)?;
                self.inner.send(frame, by)
            }
            Some(Mischief::Swap) => {
                self.kept = Some(frame);
                Ok(())
            }
            Some(Mischief::FlipBit) => {
                let mut frame = frame;
                let at = frame.payload.len() / 2;
                frame.payload[at] ^= 4;
                self.inner.send(frame, by)
            }
            Some(Mischief::OldEpoch) => {
                self.inner.send(Self::number(&frame, |header, _| header.epoch += 7), by)
            }
            Some(Mischief::NotANumber) => {
                let change = |_: &mut Header, payload: &mut Vec<u8>| {
                    let at = payload.len() - 8;
                    payload[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
                };
                self.inner.send(Self::number(&frame, change), by)
            }
            Some(Mischief::Slow) => {
                std::thread::sleep(Duration::from_millis(4500));
                self.inner.send(frame, by)
            }
            Some(Mischief::Gone) => Err(TransportFault::Closed),
        }
    }

    fn receive(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault> {
        self.inner.receive(by)
    }

    fn send_back(&mut self, frame: Frame) -> Result<(), TransportFault> {
        self.inner.send_back(frame)
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault> {
        self.inner.receive_back(by)
    }
}

/// The base model in two stages, with mischief on the link between them; and in one piece.
fn model(mischief: Option<(Mischief, usize)>) -> (Arc<Engine>, Arc<Engine>) {
    let (_, split, whole) = model_and_chain(mischief);
    (split, whole)
}

fn model_and_chain(mischief: Option<(Mischief, usize)>) -> (Arc<StageChain>, Arc<Engine>, Arc<Engine>) {
    let file = fixtures().join("base/llama/model-f32.gguf");
    let whole = TextPipeline::open(&file, &options(Arithmetic::Fast)).unwrap();
    let (resolved, components) = (whole.resolved().unwrap(), Components::linked().unwrap());
    let plan = StagePlan::by_bytes(resolved.config(), &*resolved.tensors, 2).unwrap();
    let how = AssembleOptions::whole(whole.compute(), &components);
    let made = assemble_stages(resolved.config(), &*resolved.tensors, &how, &plan).unwrap();
    let stages: Vec<Stage> = made.into_iter().filter_map(Assembly::into_stage).collect();
    let names: Vec<StageName> = plan
        .stages()
        .iter()
        .enumerate()
        .map(|(index, layers)| StageName {
            index: index as u16,
            first: layers.start as u32,
            end: layers.end as u32,
        })
        .collect();
    let facts = ChainFacts::of(&stages).unwrap();
    let adapters: Arc<SharedAdapters> = Arc::default();
    let mut channels = ring(3).into_iter();
    let end = channels.next().unwrap();
    for (index, (stage, channel)) in stages.into_iter().zip(channels).enumerate() {
        let parts = WorkerParts {
            stage,
            compute: whole.compute().clone(),
            identity: Identity::default(),
            adapters: Arc::clone(&adapters) as _,
            names: names.clone(),
            index,
            credits: 3,
            cancelled: None,
        };
        let mischief = mischief.filter(|_| index == 0);
        let transport = Faulty { inner: channel, mischief, steps: Arc::default(), kept: None };
        std::thread::spawn(move || StageWorker::new(parts, Box::new(transport)).run());
    }
    let waits = ChainOptions { deadline: Duration::from_secs(3), ..ChainOptions::default() };
    let chain =
        StageChain::connect(facts, Box::new(end), names, &Identity::default(), adapters, waits).unwrap();
    let chain = Arc::new(chain);
    let split = Engine { model: Arc::clone(&chain) as _, ..(**whole.engine()).clone() };
    (chain, Arc::new(split), Arc::clone(whole.engine()))
}

const TOKENS: [u32; 12] = [3, 14, 15, 9, 26, 5, 35, 8, 97, 93, 2, 38];

/// Chunks of three, then single tokens: the mischief hits a chunk, or a token.
fn computed(engine: &Arc<Engine>) -> Result<Vec<u32>, String> {
    let how = LogitsOptions { chunk: Some(3), decode_from: Some(6) };
    let values = logits(engine, Vec::new(), &TOKENS, &how).map_err(|error| error.to_string())?;
    Ok(values.values.iter().map(|value| value.to_bits()).collect())
}

/// A frame of a prompt, and one of a token.
const PLACES: [usize; 2] = [1, 4];

fn fails_with(mischief: Mischief, wanted: &[&str]) {
    for at in PLACES {
        let (split, whole) = model(Some((mischief, at)));
        let began = Instant::now();
        let error = computed(&split).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(20), "{mischief:?} at {at}: {:?}", began.elapsed());
        for part in wanted {
            assert!(error.contains(part), "{mischief:?} at {at}: {error}");
        }
        // What is asked next is right: nothing of the step that failed is left.
        let again =
            computed(&split).unwrap_or_else(|error| panic!("{mischief:?} at {at}, asked again: {error}"));
        assert!(again == computed(&whole).unwrap(), "{mischief:?} at {at}");
    }
}

#[test]
fn without_mischief_the_bits_are_those_of_one() {
    let (split, whole) = model(None);
    assert!(computed(&split).unwrap() == computed(&whole).unwrap());
}

#[test]
fn a_frame_that_is_lost_is_noticed_by_its_deadline() {
    fails_with(Mischief::Drop, &["stage 1", "has not answered for 3 s", "request 1, position"]);
}

#[test]
fn a_frame_that_comes_twice_is_named() {
    fails_with(Mischief::Double, &["stage 1", "came twice or too late", "request 1, position"]);
}

#[test]
fn frames_out_of_order_are_named() {
    fails_with(Mischief::Swap, &["stage 1"]);
}

#[test]
fn a_frame_that_was_changed_is_named() {
    fails_with(Mischief::FlipBit, &["stage 1", "checksum", "stage 0"]);
}

#[test]
fn a_frame_of_another_epoch_is_named() {
    fails_with(Mischief::OldEpoch, &["stage 1", "epoch 8, and epoch 1 is open", "request 1, position"]);
}

#[test]
fn a_row_that_is_no_number_is_named() {
    fails_with(Mischief::NotANumber, &["stage 1", "is NaN", "position"]);
}

#[test]
fn a_stage_that_is_slow_is_named_and_its_late_answer_is_nobodys() {
    fails_with(Mischief::Slow, &["has not answered for 3 s"]);
}

#[test]
fn a_stage_that_is_gone_is_named_for_ever() {
    for at in PLACES {
        let (split, _) = model(Some((Mischief::Gone, at)));
        for _ in 0..2 {
            let error = computed(&split).unwrap_err();
            assert!(error.contains("stage") && error.contains("gone"), "{error}");
        }
    }
}

/// A stage begins the next chunk of a prompt before the stage after it has ended the last one.
#[test]
fn chunks_of_a_prompt_overlap() {
    let (chain, split, _) = model_and_chain(None);
    let mut scheduler =
        Scheduler::for_one(Arc::new(Engine { chunk: 60, ..(*split).clone() }), Vec::new()).unwrap();
    let mut sequence = scheduler.create().unwrap();
    let tokens: Vec<u32> = (0..600).map(|index| index % 90).collect();
    scheduler.begin(&mut sequence, &tokens, Wanted::Last).unwrap();
    scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap();
    // One more step, before which the chain hears of the others.
    scheduler.push(&mut sequence, 7).unwrap();
    scheduler.feed(&mut sequence, None, &mut |_, _| Ok(())).unwrap();
    let times = chain.times();
    let of = |stage: u16, step: u32| times.iter().find(|time| (time.stage, time.step) == (stage, step));
    let overlap = |step: &u32| match (of(0, step + 1), of(1, *step)) {
        (Some(next), Some(last)) => next.began < last.ended,
        _ => false,
    };
    let overlapping = (1..10).filter(overlap).count();
    assert!(overlapping >= 3, "{overlapping} of 9 overlap: {times:?}");
}
