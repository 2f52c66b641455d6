//! [`layer_sizes`]: the sizes of the layers of a model, for a plan.

use crate::failure::Failure;
use menagerie::assembly::{AssembleOptions, StagePlan};
use menagerie::cluster::{LayerSizes, ShapeLayer};
use menagerie::engine::{Arithmetic, KvType, SchedulerOptions};
use menagerie::model::{Compute, PoolOptions};
use menagerie::open::{Device, ResolvedFile};

/// How much room the states of a stage have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateRoomRequest {
    /// Tokens of a sequence.
    pub(crate) context: usize,
    /// Sequences at once.
    pub(crate) sequences: usize,
    pub(crate) kv_type: KvType,
}

/// The sizes of the layers of a model. No tensor is read: the smallest possible stages are assembled over the mapped file.
pub(crate) fn layer_sizes(resolved: &ResolvedFile, room: StateRoomRequest) -> Result<LayerSizes, Failure> {
    let entries = resolved.environment.entries();
    let compute =
        Compute::new(Device::default().backend(entries, Some(1), Arithmetic::Fast)?, Arithmetic::Fast);
    let options = AssembleOptions::whole(&compute, resolved.environment.components());
    let finest = StagePlan::finest(resolved.config());
    let pieces = finest.assemble(resolved.config(), &*resolved.tensors, &options)?;
    let states = PoolOptions::sequences(room.kv_type, room.sequences, room.context)
        .with_step_tokens(SchedulerOptions::default().step_tokens);
    let mut shape = LayerSizes { layers: Vec::new(), embedding_bytes: 0, head_bytes: 0 };
    let last = finest.stages().len().saturating_sub(1);
    for (index, (layers, piece)) in finest.stages().iter().zip(&pieces).enumerate() {
        let of = |is_layer: bool| -> u64 {
            let own = piece.claims.iter().filter(|claim| claim.layer.is_some() == is_layer);
            own.map(|claim| claim.tensor.bytes).sum()
        };
        let outside = of(false);
        match index {
            // A model in one piece has both; that they are not told apart does not matter, because it cannot be divided.
            index if index == last => shape.head_bytes += outside,
            0 => shape.embedding_bytes += outside,
            _ => {}
        }
        // The layers of a piece stay together, so its first one may count for all of them.
        let whole = ShapeLayer {
            weight_bytes: of(true),
            state_bytes: states.memory(piece.body().stack.states())?,
            may_begin_stage: true,
        };
        let others = ShapeLayer { weight_bytes: 0, state_bytes: 0, may_begin_stage: false };
        shape.layers.push(whole);
        shape.layers.extend(layers.clone().skip(1).map(|_| others));
    }
    Ok(shape)
}
