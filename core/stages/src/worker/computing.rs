//! A step in a stage: rows in, rows or logits out.

use super::{Fault, Held, Sent, StageWorker, computing, corrupted, held};
use crate::bytes::{Reader, Writer};
use crate::fault::FaultKind;
use crate::frame::{Content, FrameKind, Header};
use crate::row_fault::RowFault;
use crate::section::{Carried, Section};
use crate::step::{SetMessage, SetWeights, StepMessage};
use menagerie_model::{
    AdapterSet, ModelError, Part, Rows, SequenceId, SlotId, StageOutput, TransformContext,
};
use std::sync::Arc;

/// Adapter sets that a stage keeps made.
const SETS: usize = 64;

impl Held {
    /// Puts the sequences of a step where its message says.
    fn place(&mut self, step: &StepMessage, own: &std::ops::Range<usize>) -> Result<Vec<SequenceId>, Fault> {
        self.change(&step.changes, own)?;
        let placements: Vec<_> = step.sequences.iter().map(|part| part.placement.clone()).collect();
        let ids = self.pool.place(&placements, &self.windows).map_err(computing)?;
        self.pool.use_set(step.state_set as usize).map_err(computing)?;
        Ok(ids)
    }
}

impl StageWorker {
    pub(super) fn step(&mut self, header: &Header, content: Content) -> Result<Option<Sent>, Fault> {
        let ReceivedStep { told, step, faults, sections } =
            ReceivedStep::read(&content.told, content.rows, self.parts.index)?;
        let sets = step.parts.sets.iter().map(|set| self.set(set)).collect::<Result<Vec<_>, _>>()?;
        self.watching.turn_to(&step)?;
        let Some(held) = held(&mut self.sessions, header)? else { return Ok(None) };
        let ids = held.place(&step, &self.own)?;
        let pool = &mut held.pool;
        let layout = step.layout(&ids).map_err(computing)?;
        let mut context = TransformContext::new(&self.parts.compute, &layout, step.input.as_input(), pool);
        context.token_types = step.token_types.as_deref();
        context.adapters = &sets;
        context.scalings = step.scalings.as_ref();
        context.cancelled = self.parts.cancelled.as_deref();
        (context.hooks, context.trace) = (self.watching.hooks(), self.watching.trace());
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
            let stream = put(sections, context)?;
            let mut out = Writer::default();
            match self.parts.stage.execute(stream, step.parts.goal, context)? {
                StageOutput::Hidden(rows) => {
                    let shape = [rows.rows(), rows.cols()];
                    out.bytes(told);
                    RowFault::encode_all(&faults, &mut out);
                    let rows = Section::encode_all(handed_on(rows, context)?, &mut out);
                    Ok((FrameKind::Step, shape, Content { told: out.0, rows }))
                }
                StageOutput::Ended(rows) => {
                    let shape = [rows.rows(), rows.cols()];
                    RowFault::encode_all(&faults, &mut out);
                    let rows = context.compute.backend.take(rows)?;
                    Ok((FrameKind::Logits, shape, Content { told: out.0, rows }))
                }
            }
        };
        let made = context.timed(Part::Step, run);
        if let Some(guard) = &self.parts.guard {
            guard().map_err(computing)?;
        }
        made.map(Some).map_err(computing)
    }

    /// An adapter set, made once.
    fn set(&mut self, message: &SetMessage) -> Result<Arc<AdapterSet>, Fault> {
        let SetMessage { members, weights } = message;
        let bits = members.iter().map(|(number, weight)| [*number, weight.to_bits()]).collect();
        let key = (bits, *weights);
        if let Some(known) = self.sets.get(&key) {
            return Ok(Arc::clone(known));
        }
        let member = |(number, weight): &(u32, f32)| match self.adapters.get(number) {
            Some(adapter) => Ok((Arc::clone(adapter), *weight)),
            None => Err((FaultKind::Missing, format!("adapter {number} was not announced"))),
        };
        let members = members.iter().map(member).collect::<Result<_, Fault>>()?;
        let mut made = AdapterSet::new(members, &*self.parts.compute.backend).map_err(computing)?;
        if *weights == SetWeights::ByRow {
            let layers = self.parts.library.scaling_layers().ok_or_else(|| {
                let detail = "adapters that an X-LoRA weights, which the stage was not opened with; give all stages --xlora";
                (FaultKind::Refused, detail.to_owned())
            })?;
            made = made.with_scalings(layers).map_err(computing)?;
        }
        if self.sets.len() >= SETS {
            self.sets.clear();
        }
        let made = Arc::new(made);
        self.sets.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

/// The content of a step's frame, checked.
pub(crate) struct ReceivedStep<'p> {
    /// The encoded message for every stage, as it came.
    told: &'p [u8],
    pub(crate) step: StepMessage,
    /// Rows with values that are not finite, found here or by the stages before.
    faults: Vec<RowFault>,
    sections: Vec<Section>,
}

impl<'p> ReceivedStep<'p> {
    /// Decodes and checks what stage `index` received.
    pub(crate) fn read(payload: &'p [u8], rows: Vec<f32>, index: usize) -> Result<Self, Fault> {
        let mut received = Self::decode(payload, rows).map_err(corrupted)?;
        check_sections(&received.sections, &received.step)?;
        note_faults(&mut received.faults, index, &received.sections, &received.step);
        Ok(received)
    }

    fn decode(payload: &'p [u8], rows: Vec<f32>) -> Result<Self, String> {
        let mut from = Reader::new(payload);
        let length = from.count(1)?;
        let told = from.take(length)?;
        let faults = RowFault::decode_all(&mut from)?;
        let sections = Section::decode_all(&mut from, rows)?;
        from.end()?;
        let mut message = Reader::new(told);
        let step = StepMessage::decode(&mut message)?;
        message.end()?;
        Ok(Self { told, step, faults, sections })
    }
}

/// Rows that fit the step, each kind once.
fn check_sections(sections: &[Section], step: &StepMessage) -> Result<(), Fault> {
    let rows = step.rows();
    if let Some(scalings) = &step.scalings
        && rows.checked_mul(scalings.layers).and_then(|rows| rows.checked_mul(scalings.adapters))
            != Some(scalings.values.len())
    {
        return Err(corrupted(format!("{} weights of adapters for a step of {rows}", scalings.values.len())));
    }
    for (index, section) in sections.iter().enumerate() {
        let own = section.values.len() / section.cols;
        let fits = match section.carried {
            Carried::PerLayer => rows > 0 && own.is_multiple_of(rows),
            _ => own == rows,
        };
        if !fits || sections[..index].iter().any(|other| other.carried == section.carried) {
            return Err(corrupted(format!("{own} rows of {:?} for a step of {rows}", section.carried)));
        }
    }
    Ok(())
}

/// Adds the first row of each sequence that is no number, where no stage before found one.
fn note_faults(faults: &mut Vec<RowFault>, stage: usize, sections: &[Section], step: &StepMessage) {
    for section in sections {
        let own = section.values.len() / section.cols;
        for bad in section.not_finite() {
            // Rows beside the stream are several for each of the step.
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

/// Puts what was handed on where layers look for it; gives the stream.
fn put(sections: Vec<Section>, context: &mut TransformContext) -> Result<Option<Rows>, ModelError> {
    let mut stream = None;
    for Section { carried, cols, values } in sections {
        let rows = context.compute.backend.upload(values, cols)?;
        match carried {
            Carried::Stream => stream = Some(rows),
            Carried::Embedded => context.embedded = Some(rows),
            Carried::Held => context.held = Some(rows),
            Carried::PerLayer => context.per_layer = Some(rows),
            Carried::Slot(slot) => context.slots.write(SlotId(slot as usize), rows),
        }
    }
    Ok(stream)
}

/// The rows for the next stage.
fn handed_on(stream: Rows, context: &mut TransformContext) -> Result<Vec<Section>, ModelError> {
    let beside = [
        (Carried::Embedded, context.embedded.take()),
        (Carried::Held, context.held.take()),
        (Carried::PerLayer, context.per_layer.take()),
    ];
    let beside = beside.into_iter().filter_map(|(carried, rows)| Some((carried, rows?)));
    let slots = std::mem::take(&mut context.slots);
    let slots = slots.into_written().map(|(slot, rows)| (Carried::Slot(slot.0 as u32), rows));
    let section = |(carried, rows): (Carried, Rows)| {
        let cols = rows.cols();
        Ok(Section { carried, cols, values: context.compute.backend.take(rows)? })
    };
    std::iter::once((Carried::Stream, stream)).chain(beside).chain(slots).map(section).collect()
}
