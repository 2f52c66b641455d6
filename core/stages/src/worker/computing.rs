//! A step in a stage: rows in, rows or logits out.

use super::{Fault, Held, Sent, StageWorker, computing, corrupted, held};
use crate::bytes::{Reader, Writer};
use crate::fault::FaultKind;
use crate::frame::{FrameKind, Header};
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
    pub(super) fn step(&mut self, header: &Header, payload: &[u8]) -> Result<Option<Sent>, Fault> {
        let mut from = Reader::new(payload);
        let length = from.count(1).map_err(corrupted)?;
        let told = from.take(length).map_err(corrupted)?;
        let sections = sections(from).map_err(corrupted)?;
        let mut message = Reader::new(told);
        let step = StepMessage::decode(&mut message).and_then(|step| message.end().map(|()| step));
        let step = step.map_err(corrupted)?;
        check_sections(&sections, &step, header)?;
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
            match self.parts.stage.execute(stream, step.parts.goal, context)? {
                StageOutput::Hidden(rows) => {
                    Ok((FrameKind::Step, [rows.rows(), rows.cols()], handed_on(told, &rows, context)?))
                }
                StageOutput::Ended(rows) => {
                    let mut out = Writer::default();
                    out.f32s(&context.compute.backend.read(&rows)?);
                    Ok((FrameKind::Logits, [rows.rows(), rows.cols()], out.0))
                }
            }
        };
        context.timed(Part::Step, run).map(Some).map_err(computing)
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

fn sections(mut from: Reader) -> Result<Vec<Section>, String> {
    let count = from.count(21)?;
    let sections = (0..count).map(|_| Section::decode(&mut from)).collect::<Result<_, _>>()?;
    from.end()?;
    Ok(sections)
}

/// Rows that fit the step, each kind once, and numbers all of them.
fn check_sections(sections: &[Section], step: &StepMessage, header: &Header) -> Result<(), Fault> {
    let rows: usize = step.sequences.iter().map(|part| part.placement.rows).sum();
    if let Some(scalings) = &step.scalings
        && scalings.values.len() != rows * scalings.layers * scalings.adapters
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
        if let Some((row, column, value)) = section.not_finite() {
            let position = step.positions.get(row * step.axes).copied().unwrap_or(header.position);
            let detail = format!(
                "column {column} of the row at position {position} that it was given is {value}; the weights are broken, or \
                 the cache overflows (--kv-type f32 rules that out)"
            );
            return Err((FaultKind::NotFinite, detail));
        }
    }
    Ok(())
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

/// The payload for the next stage: what all are told, and the rows.
fn handed_on(told: &[u8], stream: &Rows, context: &TransformContext) -> Result<Vec<u8>, ModelError> {
    let beside = [
        (Carried::Embedded, &context.embedded),
        (Carried::Held, &context.held),
        (Carried::PerLayer, &context.per_layer),
    ];
    let beside = beside.into_iter().filter_map(|(carried, rows)| Some((carried, rows.as_ref()?)));
    let slots = context.slots.written().map(|(slot, rows)| (Carried::Slot(slot.0 as u32), rows));
    let all: Vec<(Carried, &Rows)> =
        std::iter::once((Carried::Stream, stream)).chain(beside).chain(slots).collect();
    let mut out = Writer::default();
    out.count(told.len());
    out.0.extend_from_slice(told);
    out.count(all.len());
    for (carried, rows) in all {
        carried.encode(rows.cols(), &context.compute.backend.read(rows)?, &mut out);
    }
    Ok(out.0)
}
