//! Frames as bytes, for fuzz targets: [`read_frame`] decodes a frame as a stage and the chain do, without a model.

use crate::block_copies::BlockCopies;
use crate::chain::{ChainSession, StagedStates};
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::payload::{PayloadReader, PayloadWriter};
use crate::frame::{FRAME_HEADER_BYTES, FrameContent, FrameHeader, FrameKind, StageFrame, TransportKind};
use crate::identity::Identity;
use crate::message::gather::{GatherMessage, GatherSubject, stage_of};
use crate::message::hook::HookMessage;
use crate::message::open::OpenMessage;
use crate::message::row_fault::RowFault;
use crate::message::section::{RowSection, RowsKind};
use crate::message::state_access::{StateAccess, StatesMessage};
use crate::message::state_change::{SetChange, StateChange};
use crate::message::step::{SetMessage, SetWeights, StepMessage, StepParts, StepSequence, StepTokens};
use crate::message::times;
use crate::message::trace::TraceParts;
use crate::worker::{Fault, ReceivedStep, pool_bytes, read_hello};
use menagerie_model::{
    HookRecipe, InferenceStep, KvType, PlacedPages, Placement, PoolOptions, RopeRegime, Scalings, SequenceId,
    StatePool, StateSpec, StepGoal,
};
use std::sync::Arc;

/// Memory for the states of the small stage that frames are decoded for.
const STATE_MEMORY: u64 = 16 << 20;

/// Decodes a frame that arrived over a socket, with every check before a layer computes.
///
/// # Errors
/// The frame is invalid.
#[doc(hidden)]
pub fn read_frame(bytes: &[u8]) -> Result<(), String> {
    let (head, payload) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or("shorter than a header")?;
    let frame = StageFrame { head: *head, payload: payload.to_vec(), rows: Vec::new() };
    let (header, content) = frame.open(TransportKind::Serialized)?;
    read_content(&header, content)
}

/// The same bytes with correct magic, version, lengths and checksum, so that changed bytes reach the decoders. `None` if they
/// are shorter than a header.
#[doc(hidden)]
pub fn sealed_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, payload) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>()?;
    let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let rows = (field(60) as usize).min(payload.len()) / 4 * 4;
    let (body, values) = payload.split_at(payload.len() - rows);
    let kind = FrameKind::ALL[usize::from(head[6]) % FrameKind::ALL.len()];
    let header = FrameHeader {
        last_chunk: head[8] & 1 != 0,
        needs_logits: head[8] & 2 != 0,
        stage: u16::from_le_bytes([head[10], head[11]]),
        epoch: field(12),
        request: u64::from(field(16)),
        number: u64::from(field(24)),
        step: field(32),
        position: field(36),
        rows: field(40),
        cols: field(44),
        deadline: field(48),
        ..FrameHeader::of(kind)
    };
    let (values, _) = values.as_chunks::<4>();
    let rows = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let frame =
        StageFrame::new(&header, FrameContent { body: body.to_vec(), rows }, TransportKind::Serialized)
            .ok()?;
    Some([&frame.head[..], &frame.payload].concat())
}

/// Valid frames: at least one of each kind that has content.
#[doc(hidden)]
pub fn sample_frames() -> Vec<Vec<u8>> {
    contents()
        .into_iter()
        .filter_map(|(kind, content)| {
            let header = FrameHeader { rows: 4, cols: 2, request: 1, epoch: 1, ..FrameHeader::of(kind) };
            let frame = StageFrame::new(&header, content, TransportKind::Serialized).ok()?;
            Some([&frame.head[..], &frame.payload].concat())
        })
        .collect()
}

/// Decodes the content of a frame of each kind; if the message can be encoded again, the result is the same.
fn read_content(header: &FrameHeader, content: FrameContent) -> Result<(), String> {
    let body = &content.body;
    match header.kind {
        FrameKind::Hello => read_hello(body).map(drop),
        FrameKind::Open => {
            let message = OpenMessage::decode(body)?;
            assert_eq!(message.encode(), *body, "the decoded options differ");
            let states = states(32);
            pool_bytes(&message.options, &states, STATE_MEMORY).map_err(text)?;
            pool(states, message.options).map(drop)
        }
        FrameKind::Step => read_step(content),
        FrameKind::Logits => RowFault::decode_all(&mut PayloadReader::new(body)).map(drop),
        FrameKind::Fault => {
            let fault = StageFault::decode(body)?;
            assert_eq!(fault.encode(), *body, "the decoded fault differs");
            drop((fault.to_string(), fault.seen_from(header.request, 3)));
            Ok(())
        }
        FrameKind::Acknowledgment => times::decode(body).map(drop),
        FrameKind::Hook => HookMessage::decode(body).map(drop),
        FrameKind::Gather => {
            let message = GatherMessage::decode(body)?;
            assert_eq!(GatherMessage::decode(&message.encode()).as_ref(), Ok(&message));
            Ok(())
        }
        FrameKind::Piece => {
            let (_, piece) = stage_of(body)?;
            let mut parts = TraceParts::default();
            parts.take(piece)?;
            drop(parts.finish());
            Ok(())
        }
        FrameKind::States => {
            let message = StatesMessage::decode(body)?;
            assert_eq!(message.encode(), *body, "the decoded access differs");
            let mut pool = small_pool()?;
            drop(message.access.apply(menagerie_model::StateId(0), &mut pool, &BlockCopies::default()));
            Ok(())
        }
        FrameKind::Adapter | FrameKind::Close | FrameKind::Poll => Ok(()),
    }
}

/// Decodes a step, places it into a pool and makes its layout.
fn read_step(content: FrameContent) -> Result<(), String> {
    let ReceivedStep { step, .. } = ReceivedStep::read(&content.body, content.rows, 1).map_err(text)?;
    let mut pool = small_pool()?;
    let placements: Vec<_> = step.sequences.iter().map(|part| part.placement.clone()).collect();
    let windows = pool.windows();
    let placed: Result<Vec<SequenceId>, _> = pool.place(&placements, &windows);
    let layout =
        step.layout(&placed.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    assert_eq!(layout.rows(), step.rows());
    let rows: usize = layout.sequences().iter().map(|part| part.logits.len()).sum();
    assert!(rows <= layout.rows(), "more rows need logits than the step has");
    assert!((0..layout.rows()).all(|row| step.place_of(row).is_some()));
    Ok(())
}

fn text((_, detail): Fault) -> String {
    detail
}

/// The states of a small model: one with all tokens, one with a window, and a recurrent one.
fn states(head_dim: usize) -> Vec<StateSpec> {
    let rows = |name: &str, window| StateSpec::PerToken {
        name: name.to_owned(),
        dtype: None,
        heads: 1,
        head_dim,
        window,
    };
    let block = StateSpec::PerSequence { name: "s".to_owned(), shape: vec![4] };
    vec![rows("k", None), rows("w", Some(8)), block]
}

/// A pool as a chain has it: page tables without memory.
fn pool(states: Vec<StateSpec>, options: PoolOptions) -> Result<StatePool, String> {
    let session = Arc::new(ChainSession::new(1, options, Arc::default()));
    let pool = StatePool::with_backing(states, options, |_| {
        Ok(Box::new(StagedStates::closed(Arc::clone(&session))))
    });
    pool.map_err(|error| error.to_string())
}

fn small_pool() -> Result<StatePool, String> {
    pool(states(4), PoolOptions { page_len: 4, ..PoolOptions::sequences(KvType::F32, 4, 64) })
}

fn contents() -> Vec<(FrameKind, FrameContent)> {
    let mut hello = PayloadWriter::default();
    Identity { version: "1".to_owned(), ..Identity::default() }.encode(&mut hello);
    hello.count(2);
    let options = PoolOptions { page_len: 7, ..PoolOptions::sequences(KvType::Q8_0, 3, 100) };
    let stage = StageName { index: 1, first: 2, end: 4 };
    let fault =
        StageFault { request: 3, rows: 2, ..StageFault::of(FaultKind::Timeout, stage, "nothing came") };
    let recipe = HookRecipe { kind: "capture".to_owned(), content: vec![1, 2, 3] };
    let gather = GatherMessage { subject: GatherSubject::Trace(4), pieces: vec![1, 0] };
    let mut logits = PayloadWriter::default();
    RowFault::encode_all(
        &[RowFault { stage: 0, sequence: 0, position: 5, column: 1, value: f32::NAN }],
        &mut logits,
    );
    let changes = vec![SetChange { set: 0, change: StateChange::CopyPage { state: 1, from: 2, to: 3 } }];
    let access = StateAccess::WriteBlock(0, vec![0.5, 1.0]);
    let mut trace = PayloadWriter::default();
    trace.u32(0);
    trace.u8(1);
    trace.count(1);
    [0, 1, 0, 0, 0, 0].iter().for_each(|byte| trace.u8(*byte));
    trace.u32(3);
    [5, 6, 7].iter().for_each(|number| trace.u64(*number));
    let open = OpenMessage { options, windows: vec![None, Some(12)] }.encode();
    let body = [
        (FrameKind::Hello, hello.0),
        (FrameKind::Open, open),
        (FrameKind::Logits, logits.0),
        (FrameKind::Fault, fault.encode()),
        (FrameKind::Acknowledgment, times::encode(5, 9)),
        (FrameKind::Hook, HookMessage { removed: vec![4], recipe: Some(recipe) }.encode()),
        (FrameKind::Gather, gather.encode()),
        (FrameKind::Piece, trace.0),
        (FrameKind::States, StatesMessage { changes, set: 0, state: 1, access }.encode()),
        (FrameKind::Close, Vec::new()),
    ];
    let body = body.into_iter().map(|(kind, body)| (kind, FrameContent::from(body)));
    body.chain([(FrameKind::Step, step())]).collect()
}

fn step() -> FrameContent {
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
    let mut out = PayloadWriter::default();
    out.bytes(&message.encode());
    RowFault::encode_all(&[], &mut out);
    let sections = vec![
        RowSection { kind: RowsKind::Stream, cols: 2, values: vec![1.0; 8] },
        RowSection { kind: RowsKind::Slot(1), cols: 1, values: vec![f32::NAN; 4] },
    ];
    let rows = RowSection::encode_all(sections, &mut out);
    FrameContent { body: out.0, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_valid_and_sealing_keeps_them() {
        let samples = sample_frames();
        assert!(samples.len() >= 11);
        for sample in samples {
            read_frame(&sample).unwrap();
            assert_eq!(sealed_frame(&sample).unwrap(), sample);
        }
        assert!(sealed_frame(&[0; 63]).is_none() && read_frame(&[0; 63]).is_err());
    }
}
