//! Frames from bytes alone, for fuzz targets: [`read_frame`] decodes one as a stage and the chain do, without a model.

use crate::bytes::{Reader, Writer};
use crate::chain::StagedStates;
use crate::change::{SetChange, StateChange};
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::{Content, Frame, FrameKind, HEADER_BYTES, Header};
use crate::gather::{Asked, GatherMessage, stage_of};
use crate::hook_message::HookMessage;
use crate::identity::Identity;
use crate::open::OpenMessage;
use crate::row_fault::RowFault;
use crate::section::{Carried, Section};
use crate::session::Session;
use crate::states::{Access, StatesMessage};
use crate::step::{SetMessage, SetWeights, StepMessage, StepParts, StepSequence, StepTokens};
use crate::times;
use crate::trace_message::TraceParts;
use crate::transport::Carriage;
use crate::worker::{ReceivedStep, read_hello};
use menagerie_model::{
    HookRecipe, InferenceStep, KvType, PlacedPages, Placement, PoolOptions, RopeRegime, Scalings, SequenceId,
    StatePool, StateSpec, StepGoal,
};
use std::sync::Arc;

/// Decodes a frame that arrived over a socket, with every check that comes before a layer computes.
///
/// # Errors
/// What is wrong with the frame.
#[doc(hidden)]
pub fn read_frame(bytes: &[u8]) -> Result<(), String> {
    let (head, payload) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or("shorter than a header")?;
    let frame = Frame { head: *head, payload: payload.to_vec(), rows: Vec::new() };
    let (header, content) = frame.open(Carriage::Travels)?;
    read_content(&header, content)
}

/// The same bytes with the fields that only a sender of frames gets right (magic, version, lengths, checksum), so that
/// changed bytes reach the decoders behind them. `None` if they are shorter than a header.
#[doc(hidden)]
pub fn sealed_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let rows = (field(60) as usize).min(payload.len()) / 4 * 4;
    let (told, values) = payload.split_at(payload.len() - rows);
    let kind = FrameKind::ALL[usize::from(head[6]) % FrameKind::ALL.len()];
    let header = Header {
        last_chunk: head[8] & 1 != 0,
        wants_logits: head[8] & 2 != 0,
        stage: u16::from_le_bytes([head[10], head[11]]),
        epoch: field(12),
        request: u64::from(field(16)),
        number: u64::from(field(24)),
        step: field(32),
        position: field(36),
        rows: field(40),
        cols: field(44),
        deadline: field(48),
        ..Header::of(kind)
    };
    let (values, _) = values.as_chunks::<4>();
    let rows = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let frame = Frame::new(&header, Content { told: told.to_vec(), rows }, Carriage::Travels).ok()?;
    Some([&frame.head[..], &frame.payload].concat())
}

/// Valid frames, at least one of each kind that has content.
#[doc(hidden)]
pub fn sample_frames() -> Vec<Vec<u8>> {
    contents()
        .into_iter()
        .filter_map(|(kind, content)| {
            let header = Header { rows: 4, cols: 2, request: 1, epoch: 1, ..Header::of(kind) };
            let frame = Frame::new(&header, content, Carriage::Travels).ok()?;
            Some([&frame.head[..], &frame.payload].concat())
        })
        .collect()
}

/// Decodes what a frame of each kind carries; where a message can be written again, it is the same message.
fn read_content(header: &Header, content: Content) -> Result<(), String> {
    let told = &content.told;
    match header.kind {
        FrameKind::Hello => read_hello(told).map(drop),
        FrameKind::Open => {
            let message = OpenMessage::decode(told)?;
            assert_eq!(message.encode(), *told, "a request was opened with other options");
            Ok(())
        }
        FrameKind::Step => read_step(content),
        FrameKind::Logits => RowFault::decode_all(&mut Reader::new(told)).map(drop),
        FrameKind::Fault => {
            let fault = StageFault::decode(told)?;
            assert_eq!(fault.encode(), *told, "another fault was read");
            drop((fault.to_string(), fault.seen_from(header.request, 3)));
            Ok(())
        }
        FrameKind::Done => times::decode(told).map(drop),
        FrameKind::Hook => HookMessage::decode(told).map(drop),
        FrameKind::Gather => {
            let message = GatherMessage::decode(told)?;
            assert_eq!(GatherMessage::decode(&message.encode()).as_ref(), Ok(&message));
            Ok(())
        }
        FrameKind::Gathered => {
            let (_, piece) = stage_of(told)?;
            let mut parts = TraceParts::default();
            parts.take(piece)?;
            drop(parts.finish());
            Ok(())
        }
        FrameKind::States => {
            let message = StatesMessage::decode(told)?;
            assert_eq!(message.encode(), *told, "another access was read");
            let mut pool = pool().ok_or("no pool")?;
            drop(message.access.apply(menagerie_model::StateId(0), &mut pool, &Default::default()));
            Ok(())
        }
        FrameKind::Adapter | FrameKind::Close | FrameKind::Ask => Ok(()),
    }
}

/// A step up to the point where layers would compute: checked, placed into a pool, laid out.
fn read_step(content: Content) -> Result<(), String> {
    let ReceivedStep { step, .. } =
        ReceivedStep::read(&content.told, content.rows, 1).map_err(|(_, what)| what)?;
    let mut pool = pool().ok_or("no pool")?;
    let placements: Vec<_> = step.sequences.iter().map(|part| part.placement.clone()).collect();
    let windows = pool.windows();
    let placed: Result<Vec<SequenceId>, _> = pool.place(&placements, &windows);
    let layout =
        step.layout(&placed.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    assert_eq!(layout.rows(), step.rows());
    let rows: usize = layout.sequences().iter().map(|part| part.logits.len()).sum();
    assert!(rows <= layout.rows(), "more rows want logits than there are");
    assert!((0..layout.rows()).all(|row| step.place_of(row).is_some()));
    Ok(())
}

/// A pool with a window, as the chain of a small model has it: tables, and no memory.
fn pool() -> Option<StatePool> {
    let state = |name: &str, window| StateSpec::PerToken {
        name: name.to_owned(),
        dtype: None,
        heads: 1,
        head_dim: 4,
        window,
    };
    let block = StateSpec::PerSequence { name: "s".to_owned(), shape: vec![4] };
    let options = PoolOptions { page_len: 4, ..PoolOptions::sequences(KvType::F32, 4, 64) };
    let session = Arc::new(Session::new(1, options, Arc::default()));
    StatePool::with_backing(vec![state("k", None), state("w", Some(8)), block], options, |_| {
        Ok(Box::new(StagedStates::closed(Arc::clone(&session))))
    })
    .ok()
}

fn contents() -> Vec<(FrameKind, Content)> {
    let mut hello = Writer::default();
    Identity { version: "1".to_owned(), ..Identity::default() }.encode(&mut hello);
    hello.count(2);
    let options = PoolOptions { page_len: 7, ..PoolOptions::sequences(KvType::Q8_0, 3, 100) };
    let stage = StageName { index: 1, first: 2, end: 4 };
    let fault = StageFault { request: 3, rows: 2, ..StageFault::of(FaultKind::Late, stage, "nothing came") };
    let recipe = HookRecipe { kind: "capture".to_owned(), content: vec![1, 2, 3] };
    let asked = GatherMessage { asked: Asked::Trace(4), given: vec![1, 0] };
    let mut logits = Writer::default();
    RowFault::encode_all(
        &[RowFault { stage: 0, sequence: 0, position: 5, column: 1, value: f32::NAN }],
        &mut logits,
    );
    let changes = vec![SetChange { set: 0, change: StateChange::CopyPage { state: 1, from: 2, to: 3 } }];
    let access = Access::WriteBlock(0, vec![0.5, 1.0]);
    let mut trace = Writer::default();
    trace.u32(0);
    trace.u8(1);
    trace.count(1);
    [0, 1, 0, 0, 0, 0].iter().for_each(|byte| trace.u8(*byte));
    trace.u32(3);
    [5, 6, 7].iter().for_each(|number| trace.u64(*number));
    let open = OpenMessage { options, windows: vec![None, Some(12)] }.encode();
    let told = [
        (FrameKind::Hello, hello.0),
        (FrameKind::Open, open),
        (FrameKind::Logits, logits.0),
        (FrameKind::Fault, fault.encode()),
        (FrameKind::Done, times::encode(5, 9)),
        (FrameKind::Hook, HookMessage { gone: vec![4], recipe: Some(recipe) }.encode()),
        (FrameKind::Gather, asked.encode()),
        (FrameKind::Gathered, trace.0),
        (FrameKind::States, StatesMessage { changes, set: 0, state: 1, access }.encode()),
        (FrameKind::Close, Vec::new()),
    ];
    let told = told.into_iter().map(|(kind, told)| (kind, Content::from(told)));
    told.chain([(FrameKind::Step, step())]).collect()
}

fn step() -> Content {
    let sequence = |slot, tokens, pages: &[u32], step| StepSequence {
        placement: Placement {
            slot,
            tokens,
            rows: 2,
            tables: vec![
                PlacedPages { first_page: 0, pages: pages.to_vec() },
                PlacedPages { first_page: 0, pages: pages.to_vec() },
            ],
        },
        step,
        regime: RopeRegime::Short,
        logits: 1..2,
        adapters: Some(0),
    };
    let prefill = InferenceStep::Prefill {
        chunk_tokens: 2,
        chunk_start_position: 5,
        total_prompt_tokens: 9,
        is_final_chunk: false,
    };
    let message = StepMessage {
        changes: vec![SetChange { set: 0, change: StateChange::Clear { state: 2, block: 0 } }],
        state_set: 0,
        sequences: vec![
            sequence(0, 5, &[2, 1], prefill),
            sequence(1, 2, &[3], InferenceStep::Decode { current_position: 2 }),
        ],
        axes: 1,
        positions: vec![5, 6, 2, 3],
        input: StepTokens::Tokens(vec![1, 2, 3, 4]),
        token_types: Some(vec![0, 1, 0, 1]),
        parts: StepParts {
            goal: StepGoal::Logits,
            sets: vec![SetMessage { members: vec![(0, 1.0)], weights: SetWeights::ByRow }],
            hooks: vec![3],
        },
        scalings: Some(Scalings { layers: 1, adapters: 2, values: vec![0.5; 8] }),
        trace: None,
    };
    let mut out = Writer::default();
    out.bytes(&message.encode());
    RowFault::encode_all(&[], &mut out);
    let sections = vec![
        Section { carried: Carried::Stream, cols: 2, values: vec![1.0; 8] },
        Section { carried: Carried::Slot(1), cols: 1, values: vec![f32::NAN; 4] },
    ];
    let rows = Section::encode_all(sections, &mut out);
    Content { told: out.0, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_read_and_sealing_keeps_them() {
        let samples = sample_frames();
        assert!(samples.len() >= 11);
        for sample in samples {
            read_frame(&sample).unwrap();
            assert_eq!(sealed_frame(&sample).unwrap(), sample);
        }
        assert!(sealed_frame(&[0; 63]).is_none() && read_frame(&[0; 63]).is_err());
    }
}
