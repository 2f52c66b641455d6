//! [`Mamba1`]: the selective state space.

use crate::Result;
use crate::components::CausalConv;
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::recurrence::SelectiveScanInputs;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::{Norm, SequenceMixer};
use menagerie_formulas::{Activation, Gating};

/// The products of a [`Mamba1`]. The first two are row ranges of one weight in files, and so are the next three.
pub struct Mamba1Linears {
    /// `[D]` to `[C]`.
    pub input: Box<dyn Linear>,
    /// `[D]` to `[C]`.
    pub gate: Box<dyn Linear>,
    /// `[C]` to the rank of the time steps.
    pub rank: Box<dyn Linear>,
    /// B, `[C]` to `[N]`.
    pub write: Box<dyn Linear>,
    /// C, `[C]` to `[N]`.
    pub read: Box<dyn Linear>,
    /// The rank to time steps `[C]`, with a bias.
    pub step: Box<dyn Linear>,
    /// `[C]` to `[D]`.
    pub output: Box<dyn Linear>,
}

/// Norms on the low-rank time step, B and C (Jamba, FalconMamba).
pub struct Mamba1Norms {
    /// On the time step, before its product.
    pub rank: Box<dyn Norm>,
    /// On B.
    pub write: Box<dyn Norm>,
    /// On C.
    pub read: Box<dyn Norm>,
}

/// The parameters of a channel.
pub struct Mamba1Channels {
    /// A, negative, `[N * C]`, a row of channels per element of state.
    pub decay: Param,
    /// D, `[C]`.
    pub skip: Param,
}

/// `output(scan(conv(x), softplus(dt), B, C) * silu(gate))` (Gu and Dao, 2023).
pub struct Mamba1 {
    linears: Mamba1Linears,
    convolution: CausalConv,
    channels: Mamba1Channels,
    norms: Option<Mamba1Norms>,
    state: StateId,
}

impl Mamba1 {
    /// A mixer whose state, `[N, C]`, is declared here as `name`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if A or D do not fit the products.
    pub fn new(
        name: &str,
        (linears, convolution): (Mamba1Linears, CausalConv),
        channels: Mamba1Channels,
        norms: Option<Mamba1Norms>,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        let (width, size) = (linears.input.out_features(), linears.write.out_features());
        channels.decay.expect_len(size * width, "A")?;
        channels.skip.expect_len(width, "D")?;
        let shape = vec![size, width];
        let state = declarations.declare(StateSpec::PerSequence { name: name.to_owned(), shape });
        Ok(Self { linears, convolution, channels, norms, state })
    }
}

impl SequenceMixer for Mamba1 {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let Self { linears, convolution, channels, norms, state } = self;
        let backend = &context.compute.backend;
        let [x, gate] = linear_many([&*linears.input, &*linears.gate], &LinearInput::new(x), context)?;
        let x = convolution.forward(&x, context)?;
        let wanted = [&*linears.rank, &*linears.write, &*linears.read];
        let [mut rank, mut write, mut read] = linear_many(wanted, &LinearInput::new(&x), context)?;
        if let Some(norms) = norms {
            rank = norms.rank.forward(&rank, context)?;
            write = norms.write.forward(&write, context)?;
            read = norms.read.forward(&read, context)?;
        }
        let dt = linears.step.forward(&LinearInput::new(&rank), context)?;
        let dt = backend.activate(dt, Activation::Softplus)?;
        let inputs = SelectiveScanInputs {
            x: &x,
            dt: &dt,
            b: &write,
            c: &read,
            a: &channels.decay,
            skip: &channels.skip,
        };
        let mixed = backend.selective_scan(&inputs, *state, context.state_step())?;
        drop((x, dt));
        let mixed = backend.gated(gate, &mixed, Gating::Plain(Activation::Silu))?;
        linears.output.forward(&LinearInput::new(&mixed), context)
    }
}
