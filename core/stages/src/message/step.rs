//! [`StepMessage`]: the description of a step, the same for all stages.

use crate::frame::payload::{PayloadReader, PayloadWriter};
use crate::message::state_change::SetChange;
use menagerie_model::{
    InferenceStep, ModelError, PlacedPages, Placement, Positions, RopeRegime, Scalings, SequenceId,
    SequenceLayout, SequenceRows, StepGoal, StepInput, TransformContext,
};
use std::ops::Range;

/// An adapter set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetMessage {
    /// The numbers and weights of its adapters.
    pub(crate) members: Vec<(u32, f32)>,
    pub(crate) weights: SetWeights,
}

/// Additional factors of the adapters of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SetWeights {
    /// None.
    Constant,
    /// The step's scalings, row by row.
    ByRow,
}

/// The goal of a step, its adapters and its hooks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepParts {
    pub(crate) goal: StepGoal,
    pub(crate) sets: Vec<SetMessage>,
    /// The numbers of its hooks, in order.
    pub(crate) hooks: Vec<u32>,
}

/// A trace that records times: its number, and the most spans that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceRequest {
    pub(crate) number: u64,
    pub(crate) most: u64,
}

/// The description of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepMessage {
    pub(crate) changes: Vec<SetChange>,
    /// The state set to read and write.
    pub(crate) state_set: u32,
    pub(crate) sequences: Vec<StepSequence>,
    pub(crate) axes: usize,
    /// `[T, axes]`.
    pub(crate) positions: Vec<u32>,
    pub(crate) input: StepTokens,
    pub(crate) token_types: Option<Vec<u32>>,
    pub(crate) parts: StepParts,
    pub(crate) scalings: Option<Scalings>,
    pub(crate) trace: Option<TraceRequest>,
}

/// One sequence of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepSequence {
    pub(crate) placement: Placement,
    pub(crate) step: InferenceStep,
    pub(crate) regime: RopeRegime,
    pub(crate) logits: Range<usize>,
    pub(crate) adapters: Option<usize>,
}

/// The input of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StepTokens {
    Tokens(Vec<u32>),
    Embeddings(Vec<f32>),
}

impl StepTokens {
    pub(crate) fn as_input(&self) -> StepInput<'_> {
        match self {
            Self::Tokens(tokens) => StepInput::Tokens(tokens),
            Self::Embeddings(rows) => StepInput::Embeddings(rows),
        }
    }
}

impl StepMessage {
    /// The step of a context whose rows have been prepared.
    pub(crate) fn of(
        context: &TransformContext,
        changes: Vec<SetChange>,
        parts: StepParts,
    ) -> Result<Self, ModelError> {
        let sequence = |part: &SequenceRows| {
            Ok(StepSequence {
                placement: context.states.placement(part.sequence, part.rows.len())?,
                step: part.step,
                regime: part.regime,
                logits: part.logits.clone(),
                adapters: part.adapters,
            })
        };
        let layout = context.layout;
        Ok(Self {
            changes,
            state_set: context.states.set() as u32,
            sequences: layout.sequences().iter().map(sequence).collect::<Result<_, ModelError>>()?,
            axes: layout.positions().axes(),
            positions: layout.positions().values().to_vec(),
            input: match context.input {
                StepInput::Tokens(tokens) => StepTokens::Tokens(tokens.to_vec()),
                StepInput::Embeddings(rows) => StepTokens::Embeddings(rows.to_vec()),
            },
            token_types: context.token_types.map(<[u32]>::to_vec),
            parts,
            scalings: context.scalings.cloned(),
            trace: context.trace.map(|trace| TraceRequest { number: trace.number, most: trace.most as u64 }),
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.sequences.iter().map(|part| part.placement.rows).sum()
    }

    /// The index of the sequence of a row, and the position of the row in the sequence.
    pub(crate) fn place_of(&self, row: usize) -> Option<(usize, u64)> {
        let mut before = 0;
        self.sequences.iter().enumerate().find_map(|(index, StepSequence { placement, .. })| {
            let own = row.checked_sub(before)?;
            before += placement.rows;
            (own < placement.rows).then_some((index, (placement.tokens + own) as u64))
        })
    }

    /// The layout of the step, with the ids of its sequences in a pool.
    pub(crate) fn layout(&self, ids: &[SequenceId]) -> Result<SequenceLayout, ModelError> {
        let mut next = 0;
        let rows = self.sequences.iter().zip(ids).map(|(part, id)| {
            let rows = next..next + part.placement.rows;
            next = rows.end;
            SequenceRows {
                sequence: *id,
                rows,
                first_position: part.placement.tokens,
                step: part.step,
                regime: part.regime,
                logits: part.logits.clone(),
                adapters: part.adapters,
            }
        });
        let rows = rows.collect();
        SequenceLayout::with_positions(rows, Positions::new(self.axes, self.positions.clone())?)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = PayloadWriter::default();
        out.count(self.changes.len());
        self.changes.iter().for_each(|change| change.encode(&mut out));
        out.u32(self.state_set);
        out.count(self.sequences.len());
        self.sequences.iter().for_each(|sequence| sequence.encode(&mut out));
        out.count(self.axes);
        out.u32s(&self.positions);
        match &self.input {
            StepTokens::Tokens(tokens) => {
                out.u8(0);
                out.u32s(tokens);
            }
            StepTokens::Embeddings(rows) => {
                out.u8(1);
                out.f32s(rows);
            }
        }
        out.u8(u8::from(self.token_types.is_some()));
        if let Some(types) = &self.token_types {
            out.u32s(types);
        }
        self.parts.encode(&mut out);
        out.u8(u8::from(self.scalings.is_some()));
        if let Some(Scalings { layers, adapters, values }) = &self.scalings {
            out.count(*layers);
            out.count(*adapters);
            out.f32s(values);
        }
        out.u8(u8::from(self.trace.is_some()));
        if let Some(TraceRequest { number, most }) = self.trace {
            out.u64(number);
            out.u64(most);
        }
        out.0
    }

    pub(crate) fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        let count = from.count(21)?;
        let changes = (0..count).map(|_| SetChange::decode(from)).collect::<Result<_, _>>()?;
        let state_set = from.u32()?;
        let count = from.count(16)?;
        let sequences = (0..count).map(|_| StepSequence::decode(from)).collect::<Result<Vec<_>, _>>()?;
        let rows = sequences.iter().try_fold(0_u32, |sum, part: &StepSequence| {
            sum.checked_add(u32::try_from(part.placement.rows).ok()?)
        });
        rows.ok_or("a step has more rows than a frame can count")?;
        let (axes, positions) = (from.number()?, from.u32s()?);
        let input = match from.u8()? {
            0 => StepTokens::Tokens(from.u32s()?),
            1 => StepTokens::Embeddings(from.f32s()?),
            kind => return Err(format!("unknown kind {kind} of step")),
        };
        let token_types = if from.u8()? == 1 { Some(from.u32s()?) } else { None };
        let parts = StepParts::decode(from)?;
        let scalings = if from.u8()? == 1 { Some(scalings(from)?) } else { None };
        let trace = match from.u8()? {
            1 => Some(TraceRequest { number: from.u64()?, most: from.u64()? }),
            _ => None,
        };
        Ok(Self {
            changes,
            state_set,
            sequences,
            axes,
            positions,
            input,
            token_types,
            parts,
            scalings,
            trace,
        })
    }
}

fn scalings(from: &mut PayloadReader) -> Result<Scalings, String> {
    let (layers, adapters, values) = (from.number()?, from.number()?, from.f32s()?);
    match layers.checked_mul(adapters) {
        Some(width) if width > 0 && values.len().is_multiple_of(width) => {
            Ok(Scalings { layers, adapters, values })
        }
        _ => Err(format!("{} scalings for {adapters} adapters in {layers} layers", values.len())),
    }
}

impl StepParts {
    fn encode(&self, out: &mut PayloadWriter) {
        out.u8(match self.goal {
            StepGoal::Logits => 0,
            StepGoal::Normed => 1,
        });
        out.count(self.sets.len());
        self.sets.iter().for_each(|set| set.encode(out));
        out.u32s(&self.hooks);
    }

    fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        let goal = match from.u8()? {
            0 => StepGoal::Logits,
            1 => StepGoal::Normed,
            goal => return Err(format!("unknown goal {goal} of a step")),
        };
        let count = from.count(9)?;
        let sets = (0..count).map(|_| SetMessage::decode(from)).collect::<Result<_, _>>()?;
        Ok(Self { goal, sets, hooks: from.u32s()? })
    }
}

impl SetMessage {
    fn encode(&self, out: &mut PayloadWriter) {
        out.u8(match self.weights {
            SetWeights::Constant => 0,
            SetWeights::ByRow => 1,
        });
        out.count(self.members.len());
        for (adapter, weight) in &self.members {
            out.u32(*adapter);
            out.u32(weight.to_bits());
        }
    }

    fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        let weights = match from.u8()? {
            0 => SetWeights::Constant,
            1 => SetWeights::ByRow,
            weights => return Err(format!("unknown kind {weights} of adapter set")),
        };
        let count = from.count(8)?;
        let member = |_| Ok((from.u32()?, f32::from_bits(from.u32()?)));
        let members = (0..count).map(member).collect::<Result<_, String>>()?;
        Ok(Self { members, weights })
    }
}

impl StepSequence {
    fn encode(&self, out: &mut PayloadWriter) {
        let Self { placement, step, regime, logits, adapters } = self;
        let Placement { slot, tokens, rows, tables } = placement;
        out.u32(*slot);
        out.count(*tokens);
        out.count(*rows);
        out.count(tables.len());
        for PlacedPages { first_page, pages } in tables {
            out.count(*first_page);
            out.u32s(pages);
        }
        match *step {
            InferenceStep::Prefill {
                chunk_tokens,
                chunk_start_position,
                total_prompt_tokens,
                is_final_chunk,
            } => {
                out.u8(if is_final_chunk { 1 } else { 0 });
                [chunk_tokens, chunk_start_position, total_prompt_tokens].iter().for_each(|n| out.count(*n));
            }
            InferenceStep::Decode { current_position } => {
                out.u8(2);
                out.count(current_position);
            }
        }
        out.u8(match regime {
            RopeRegime::Short => 0,
            RopeRegime::Long => 1,
        });
        out.count(logits.start);
        out.count(logits.end);
        out.u64(adapters.map_or(u64::MAX, |set| set as u64));
    }

    fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        let (slot, tokens, rows) = (from.u32()?, from.number()?, from.number()?);
        let count = from.count(16)?;
        let table =
            |from: &mut PayloadReader| Ok(PlacedPages { first_page: from.number()?, pages: from.u32s()? });
        let tables = (0..count).map(|_| table(from)).collect::<Result<_, String>>()?;
        let step = match from.u8()? {
            2 => InferenceStep::Decode { current_position: from.number()? },
            last @ (0 | 1) => InferenceStep::Prefill {
                chunk_tokens: from.number()?,
                chunk_start_position: from.number()?,
                total_prompt_tokens: from.number()?,
                is_final_chunk: last == 1,
            },
            kind => return Err(format!("unknown kind {kind} of step")),
        };
        let regime = match from.u8()? {
            0 => RopeRegime::Short,
            1 => RopeRegime::Long,
            regime => return Err(format!("unknown rope regime {regime}")),
        };
        let logits = from.number()?..from.number()?;
        if logits.start > logits.end || logits.end > rows || tokens.checked_add(rows).is_none() {
            return Err(format!("logits of rows {logits:?} in a step of {rows} rows after {tokens} tokens"));
        }
        let adapters = match from.u64()? {
            u64::MAX => None,
            set => Some(
                usize::try_from(set)
                    .map_err(|_| format!("the number {set} of an adapter set is too large"))?,
            ),
        };
        let placement = Placement { slot, tokens, rows, tables };
        Ok(Self { placement, step, regime, logits, adapters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::state_change::StateChange;

    #[test]
    fn a_step_round_trips_and_is_never_read_past_its_end() {
        let sequence = |slot, step, adapters| StepSequence {
            placement: Placement {
                slot,
                tokens: 5,
                rows: 2,
                tables: vec![
                    PlacedPages { first_page: 0, pages: vec![4, 2] },
                    PlacedPages { first_page: 1, pages: vec![9] },
                ],
            },
            step,
            regime: RopeRegime::Long,
            logits: 1..2,
            adapters,
        };
        let prefill = InferenceStep::Prefill {
            chunk_tokens: 2,
            chunk_start_position: 5,
            total_prompt_tokens: 9,
            is_final_chunk: false,
        };
        let message = StepMessage {
            changes: vec![
                SetChange { set: 0, change: StateChange::CopyPage { state: 1, from: 2, to: 3 } },
                SetChange { set: 1, change: StateChange::Keep { state: 4, block: 0, copy: u64::MAX } },
                SetChange { set: 1, change: StateChange::Forget { state: 4, copy: 8 } },
            ],
            state_set: 1,
            sequences: vec![
                sequence(0, prefill, None),
                sequence(3, InferenceStep::Decode { current_position: 7 }, Some(1)),
            ],
            axes: 1,
            positions: vec![5, 6, 5, 6],
            input: StepTokens::Tokens(vec![1, 2, 3, 4]),
            token_types: Some(vec![0, 1, 0, 1]),
            parts: StepParts {
                goal: StepGoal::Normed,
                sets: vec![
                    SetMessage { members: vec![(0, 1.0)], weights: SetWeights::Constant },
                    SetMessage { members: vec![(1, 0.5), (0, -2.0)], weights: SetWeights::ByRow },
                ],
                hooks: vec![3, 0],
            },
            scalings: Some(Scalings { layers: 1, adapters: 2, values: vec![0.5; 8] }),
            trace: Some(TraceRequest { number: 4, most: 1000 }),
        };
        let payload = message.encode();
        let mut from = PayloadReader::new(&payload);
        assert_eq!(StepMessage::decode(&mut from).unwrap(), message);
        from.end().unwrap();
        for cut in 0..payload.len() {
            assert!(StepMessage::decode(&mut PayloadReader::new(&payload[..cut])).is_err(), "{cut} bytes");
        }
    }
}
