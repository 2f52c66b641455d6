//! A step in a stage: rows in, rows or logits out.

use super::{Answer, Fault, SessionStates, StageWorker, corrupted, execution, states_of};
use crate::fault::FaultKind;
use crate::frame::payload::{PayloadReader, PayloadWriter};
use crate::frame::{FrameContent, FrameHeader, FrameKind};
use crate::message::row_fault::RowFault;
use crate::message::section::{RowSection, RowsKind};
use crate::message::step::{SetMessage, SetWeights, StepMessage};
use menagerie_model::{
    AdapterSet, Cancellation, ModelError, Part, Rows, SequenceId, SlotId, StageOutput, TransformContext,
};
use std::ops::Range;
use std::sync::Arc;

/// Adapter sets that a stage caches.
const SETS: usize = 64;

impl SessionStates {
    /// Applies the changes before a step, and places its sequences; pool and copies may take `room` bytes.
    fn place(&mut self, step: &StepMessage, own: &Range<usize>, room: u64) -> Result<Vec<SequenceId>, Fault> {
        self.change(&step.changes, own, room)?;
        let placements: Vec<_> = step.sequences.iter().map(|part| part.placement.clone()).collect();
        let ids = self.pool.place(&placements, &self.windows).map_err(execution)?;
        self.pool.use_set(step.state_set as usize).map_err(execution)?;
        Ok(ids)
    }
}

impl StageWorker {
    pub(super) fn step(
        &mut self,
        header: &FrameHeader,
        content: FrameContent,
    ) -> Result<Option<Answer>, Fault> {
        let ReceivedStep { body, step, faults, sections } =
            ReceivedStep::read(&content.body, content.rows, self.parts.index)?;
        let sets = step.parts.sets.iter().map(|set| self.set(set)).collect::<Result<Vec<_>, _>>()?;
        self.observers.prepare(&step)?;
        let room = self.room_of(header.request);
        let Some(states) = states_of(&mut self.sessions, header)? else { return Ok(None) };
        let ids = states.place(&step, &self.own, room)?;
        let pool = &mut states.pool;
        let flag = self.parts.cancelled.as_deref();
        let layout = step.layout(&ids).map_err(execution)?;
        let mut context = TransformContext::new(&self.parts.compute, &layout, step.input.as_input(), pool);
        context.token_types = step.token_types.as_deref();
        context.adapters = &sets;
        context.scalings = step.scalings.as_ref();
        context.cancelled = Cancellation::by_all(flag.as_slice());
        (context.hooks, context.trace) = (self.observers.hooks(), self.observers.trace());
        let span = tracing::debug_span!(
            "stage",
            stage = self.parts.index,
            request = header.request,
            step = header.step,
            position = header.position,
            rows = layout.rows()
        );
        let _entered = span.enter();
        let run = |context: &mut TransformContext| {
            let stream = upload_sections(sections, context)?;
            let mut out = PayloadWriter::default();
            match self.parts.stage.execute(stream, step.parts.goal, context)? {
                StageOutput::Hidden(rows) => {
                    let shape = [rows.rows(), rows.cols()];
                    out.bytes(body);
                    RowFault::encode_all(&faults, &mut out);
                    let rows = RowSection::encode_all(sections_of(rows, context)?, &mut out);
                    Ok((FrameKind::Step, shape, FrameContent { body: out.0, rows }))
                }
                StageOutput::Ended(rows) => {
                    let shape = [rows.rows(), rows.cols()];
                    RowFault::encode_all(&faults, &mut out);
                    let rows = context.compute.backend.take(rows)?;
                    Ok((FrameKind::Logits, shape, FrameContent { body: out.0, rows }))
                }
            }
        };
        let made = context.timed(Part::Step, run);
        if let Some(guard) = &self.parts.guard {
            guard().map_err(execution)?;
        }
        made.map(Some).map_err(execution)
    }

    /// An adapter set, from the cache if possible.
    fn set(&mut self, message: &SetMessage) -> Result<Arc<AdapterSet>, Fault> {
        let SetMessage { members, weights } = message;
        let bits = members.iter().map(|(number, weight)| [*number, weight.to_bits()]).collect();
        let key = (bits, *weights);
        if let Some(known) = self.sets.get(&key) {
            return Ok(Arc::clone(known));
        }
        let member = |(number, weight): &(u32, f32)| match self.adapters.get(number) {
            Some(adapter) => Ok((Arc::clone(adapter), *weight)),
            None => Err((FaultKind::Missing, format!("adapter {number} is unknown to this stage"))),
        };
        let members = members.iter().map(member).collect::<Result<_, Fault>>()?;
        let mut made = AdapterSet::new(members, &*self.parts.compute.backend).map_err(execution)?;
        if *weights == SetWeights::ByRow {
            let layers = self.parts.library.scaling_layers().ok_or_else(|| {
                let detail = "the step uses an X-LoRA, but this stage was opened without one; start all stages with --xlora";
                (FaultKind::Refused, detail.to_owned())
            })?;
            made = made.with_scalings(layers).map_err(execution)?;
        }
        if self.sets.len() >= SETS {
            self.sets.clear();
        }
        let made = Arc::new(made);
        self.sets.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

/// The checked content of a step's frame.
pub(crate) struct ReceivedStep<'p> {
    /// The encoded [`StepMessage`], which is passed on unchanged.
    body: &'p [u8],
    pub(crate) step: StepMessage,
    /// Rows with values that are not finite, found here or by previous stages.
    faults: Vec<RowFault>,
    sections: Vec<RowSection>,
}

impl<'p> ReceivedStep<'p> {
    /// Decodes and checks the frame that stage `index` received.
    pub(crate) fn read(payload: &'p [u8], rows: Vec<f32>, index: usize) -> Result<Self, Fault> {
        let mut received = Self::decode(payload, rows).map_err(corrupted)?;
        check_sections(&received.sections, &received.step)?;
        note_faults(&mut received.faults, index, &received.sections, &received.step);
        Ok(received)
    }

    fn decode(payload: &'p [u8], rows: Vec<f32>) -> Result<Self, String> {
        let mut from = PayloadReader::new(payload);
        let length = from.count(1)?;
        let body = from.take(length)?;
        let faults = RowFault::decode_all(&mut from)?;
        let sections = RowSection::decode_all(&mut from, rows)?;
        from.end()?;
        let mut message = PayloadReader::new(body);
        let step = StepMessage::decode(&mut message)?;
        message.end()?;
        Ok(Self { body, step, faults, sections })
    }
}

/// Checks that the rows match the step, and that each kind occurs once.
fn check_sections(sections: &[RowSection], step: &StepMessage) -> Result<(), Fault> {
    let rows = step.rows();
    if let Some(scalings) = &step.scalings
        && rows.checked_mul(scalings.layers).and_then(|rows| rows.checked_mul(scalings.adapters))
            != Some(scalings.values.len())
    {
        return Err(corrupted(format!(
            "{} scalings of adapters for a step of {rows} rows",
            scalings.values.len()
        )));
    }
    for (index, section) in sections.iter().enumerate() {
        let own = section.values.len() / section.cols;
        let fits = match section.kind {
            RowsKind::PerLayer => rows > 0 && own.is_multiple_of(rows),
            _ => own == rows,
        };
        if !fits || sections[..index].iter().any(|other| other.kind == section.kind) {
            return Err(corrupted(format!(
                "{own} rows of kind {:?} for a step of {rows} rows",
                section.kind
            )));
        }
    }
    Ok(())
}

/// Adds the first row of each sequence that is not finite, unless a previous stage found one.
fn note_faults(faults: &mut Vec<RowFault>, stage: usize, sections: &[RowSection], step: &StepMessage) {
    for section in sections {
        let own = section.values.len() / section.cols;
        for bad in section.not_finite() {
            // There may be several rows for each row of the step.
            let row = bad.row / (own / step.rows()).max(1);
            let Some((sequence, position)) = step.place_of(row) else { continue };
            let sequence = sequence as u32;
            if faults.iter().all(|known| known.sequence != sequence) {
                let (column, value) = (bad.column as u32, bad.value);
                faults.push(RowFault { stage: stage as u16, sequence, position, column, value });
            }
        }
    }
}

/// Uploads the received rows to where layers expect them; returns the stream.
fn upload_sections(
    sections: Vec<RowSection>,
    context: &mut TransformContext,
) -> Result<Option<Rows>, ModelError> {
    let mut stream = None;
    for RowSection { kind, cols, values } in sections {
        let rows = context.compute.backend.upload(values, cols)?;
        match kind {
            RowsKind::Stream => stream = Some(rows),
            RowsKind::Embedded => context.embedded = Some(rows),
            RowsKind::OtherStream => context.held = Some(rows),
            RowsKind::PerLayer => context.per_layer = Some(rows),
            RowsKind::Slot(slot) => context.slots.write(SlotId(slot as usize), rows),
        }
    }
    Ok(stream)
}

/// The rows for the next stage.
fn sections_of(stream: Rows, context: &mut TransformContext) -> Result<Vec<RowSection>, ModelError> {
    let others = [
        (RowsKind::Embedded, context.embedded.take()),
        (RowsKind::OtherStream, context.held.take()),
        (RowsKind::PerLayer, context.per_layer.take()),
    ];
    let others = others.into_iter().filter_map(|(kind, rows)| Some((kind, rows?)));
    let slots = std::mem::take(&mut context.slots);
    let slots = slots.into_written().map(|(slot, rows)| (RowsKind::Slot(slot.0 as u32), rows));
    let section = |(kind, rows): (RowsKind, Rows)| {
        let cols = rows.cols();
        Ok(RowSection { kind, cols, values: context.compute.backend.take(rows)? })
    };
    std::iter::once((RowsKind::Stream, stream)).chain(others).chain(slots).map(section).collect()
}
