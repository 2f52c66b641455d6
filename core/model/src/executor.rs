//! [`Executor`]: what runs steps for a pipeline.

use crate::cancellation::Cancellation;
use crate::compute::Compute;
use crate::context::TransformContext;
use crate::hook::StepHead;
use crate::hooks::Hooks;
use crate::layout::SequenceLayout;
use crate::nextn::NextnExecutor;
use crate::rows::Rows;
use crate::stage::{ModelShape, StagePosition, WholeModel};
use crate::state::{PoolOptions, StatePool, StateSpec};
use crate::step_in_flight::BegunStep;
use crate::trace::Trace;
use crate::traits::OutputHead;
use crate::{ModelError, Result};

/// Runs steps of a language model. A pipeline treats one model and several stages in the same way.
pub trait Executor: Send + Sync {
    /// Numbers of the whole model.
    fn shape(&self) -> &ModelShape;

    /// The states of all layers, in the order of their ids.
    fn states(&self) -> &[StateSpec];

    /// State sets of a sequence: passes of a step that each keep all states ([`crate::PoolOptions::sets`]).
    fn state_sets(&self) -> usize {
        1
    }

    /// Layers and adapters of the weights that hooks receive ([`crate::LayerHook::scalings`]); none without X-LoRA.
    fn scaling_shape(&self) -> Option<[usize; 2]> {
        None
    }

    /// Rows of the embedding: ids at or past it are refused.
    fn vocabulary(&self) -> usize;

    /// Columns of the logits.
    fn logits_width(&self) -> usize;

    /// Whether a sequence must be computed in one step (a layer sees later tokens).
    fn is_bidirectional(&self) -> bool;

    /// Whether a prompt must be computed in one step, though tokens may follow it one by one (a mixture that chooses
    /// for a whole prompt).
    fn takes_whole_prompts(&self) -> bool {
        false
    }

    /// A component whose rows may have other bits beside other rows ([`crate::SequenceMixer::company_dependent`]).
    fn company_dependent(&self) -> Option<&'static str> {
        None
    }

    /// The heads that predict further tokens, if they were loaded. [`Self::execute`] then fills their states too, if the
    /// context has [`TransformContext::hidden_rows`].
    fn nextn(&self) -> Option<&dyn NextnExecutor> {
        None
    }

    /// An empty pool for the states, where they are computed.
    ///
    /// # Errors
    /// The cache type does not fit a state, or there is not enough memory.
    fn pool(&self, compute: &Compute, options: PoolOptions) -> Result<StatePool> {
        let sets = options.sets.max(self.state_sets());
        StatePool::new(&*compute.backend, self.states().to_vec(), options.with_sets(sets))
    }

    /// Logits `[T', V]` of the rows of the step that request them.
    ///
    /// Appends to the state of the sequences but does not advance their length: the caller does, in one place. Rows of
    /// sequences in [`TransformContext::failures`] are undefined.
    ///
    /// # Errors
    /// What a part returns.
    fn execute(&self, context: &mut TransformContext) -> Result<Rows>;

    /// The most steps that are in flight at once, if these hooks act: a chain of stages can compute one in each stage.
    fn overlap(&self, hooks: &Hooks) -> usize {
        let _ = hooks;
        1
    }

    /// Begins a step like [`Self::execute`]; steps are computed in the order in which they begin. If [`Self::overlap`] is
    /// 1, the step is complete when this returns. Executors with [`Self::nextn`] complete every step.
    ///
    /// # Errors
    /// What a part returns.
    fn begin(&self, context: &mut TransformContext) -> Result<BegunStep> {
        self.execute(context).map(BegunStep::Complete)
    }

    /// After a step failed with `error`: restores what steps need, if stages were lost. Returns whether the sequences whose
    /// states are lost can be computed again from their tokens. It is `false` if the computation itself failed, which would
    /// fail again, and if nothing can be restored.
    ///
    /// # Errors
    /// The stages could not be restored: later calls try again. [`ModelError::Cancelled`].
    fn restore(&self, error: &ModelError, cancelled: Cancellation) -> Result<bool> {
        let _ = (error, cancelled);
        Ok(false)
    }

    /// Checks that hooks see the head ([`crate::LayerHook::at_head`]) and that hooks of one sequence see only its rows
    /// ([`Hooks::push_for`]), so that a lens can read every layer.
    ///
    /// # Errors
    /// The reason why not.
    fn check_lens(&self) -> Result<()> {
        Err(ModelError::Unsupported("what runs the steps of this model shows its head to no hook".to_owned()))
    }

    /// Waits until every step that was started is done, and passes hooks the results of their copies in other
    /// processes.
    ///
    /// # Errors
    /// A step that failed meanwhile; errors of a hook.
    fn settle(&self, hooks: &Hooks) -> Result<()> {
        let _ = hooks;
        Ok(())
    }

    /// The trace of each stage, in their order; none if the trace itself contains everything.
    ///
    /// # Errors
    /// A step that failed meanwhile; a stage that does not answer.
    fn stage_traces(&self, trace: &Trace) -> Result<Vec<StageTrace>> {
        let _ = trace;
        Ok(Vec::new())
    }
}

/// What a stage noted.
#[derive(Debug)]
pub struct StageTrace {
    /// The stage, as messages call it.
    pub name: String,
    /// When its parts began and how long they took.
    pub trace: Trace,
}

/// An executor that also returns the rows after the final norm; X-LoRA requires it.
pub trait NormedExecutor: Executor {
    /// The rows of the step after the final norm, `[T, D]`. Appends to the state as [`Executor::execute`] does.
    ///
    /// # Errors
    /// What a part returns.
    fn normed(&self, context: &mut TransformContext) -> Result<Rows>;
}

/// The head of a whole model in a step.
struct HeadInStep<'h, 'c> {
    head: &'h dyn OutputHead,
    context: &'h TransformContext<'c>,
}

impl StepHead for HeadInStep<'_, '_> {
    fn layout(&self) -> &SequenceLayout {
        self.context.layout
    }

    fn compute(&self) -> &Compute {
        self.context.compute
    }

    fn logits(&self, rows: Rows, origin: &[u32]) -> Result<Rows> {
        self.context.check_cancelled()?;
        let normed = self.head.norm(rows, self.context)?;
        self.head.logits(&normed, origin, self.context)
    }
}

impl NormedExecutor for WholeModel {
    fn normed(&self, context: &mut TransformContext) -> Result<Rows> {
        let hidden = self.hidden(context)?;
        self.head.norm(hidden, context)
    }
}

impl Executor for WholeModel {
    fn shape(&self) -> &ModelShape {
        &self.body.shape
    }

    fn states(&self) -> &[StateSpec] {
        self.body.stack.states()
    }

    fn vocabulary(&self) -> usize {
        self.embedding.vocabulary()
    }

    fn logits_width(&self) -> usize {
        self.head.vocabulary()
    }

    fn is_bidirectional(&self) -> bool {
        self.body.stack.is_bidirectional()
    }

    fn takes_whole_prompts(&self) -> bool {
        self.body.stack.takes_whole_prompts()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.body.stack.company_dependent()
    }

    fn nextn(&self) -> Option<&dyn NextnExecutor> {
        (!self.nextn.is_empty()).then_some(self as &dyn NextnExecutor)
    }

    fn check_lens(&self) -> Result<()> {
        if self.body.stack.has_two_streams() {
            return Err(ModelError::Unsupported(
                "the layers of this model update two streams in turn, and its head reads only one of them"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn execute(&self, context: &mut TransformContext) -> Result<Rows> {
        let _span = tracing::debug_span!("stage", position = ?StagePosition::Only).entered();
        let hidden = self.hidden(context)?;
        self.follow(&hidden, context)?;
        context.hooks.at_head(&HeadInStep { head: &*self.head, context })?;
        self.head.logits_of_step(hidden, context)
    }
}
