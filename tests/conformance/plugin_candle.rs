//! A plugin's component may compute with candle: rows become tensors of the plugin's own version, and tensors rows.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_plugin::testing::{self, RandomNumbers, Setup};
use menagerie_plugin::{
    Build, Call, Component, Error, Host, Mixer, Norm, Result, Role, Rows, RowsMut, State, candle_views,
    options,
};

candle_views! {
    /// Rows as tensors.
    mod views for candle_core;
}

options! {
    /// Options of `candle-rms`.
    pub(crate) struct RmsOptions {
        /// Added to the mean of the squares.
        epsilon: f64 = Number(1e-6) => guarded,
    }
}

/// An RMS norm in candle's operations.
struct Rms {
    epsilon: f64,
    weight: Vec<f32>,
}

impl Component for Rms {
    const NAME: &'static str = "candle-rms";
    const DOC: &'static str = "`x / sqrt(mean(x^2) + epsilon) * weight` (Zhang and Sennrich, 2019).";
    const ROLES: &'static [Role] = &[Role::values("", &["width"], "Multiplies the row.")];
    type Options = RmsOptions;

    fn create(options: RmsOptions, build: &mut Build) -> Result<Self> {
        Ok(Self { epsilon: options.epsilon, weight: build.values("")? })
    }
}

impl Norm for Rms {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        if x.rows() == 0 {
            return Ok(());
        }
        let (x, weight) = (views::tensor(&x)?, views::values(&self.weight, &[1, self.weight.len()])?);
        let normed = || {
            let mean = x.sqr()?.mean_keepdim(1)?;
            x.broadcast_div(&(mean + self.epsilon)?.sqrt()?)?.broadcast_mul(&weight)
        };
        views::write(&normed().map_err(Error::new)?, &mut output)
    }
}

/// A sum over earlier tokens, its state a tensor in between.
struct Sum {
    state: State,
}

impl Component for Sum {
    const NAME: &'static str = "candle-sum";
    const DOC: &'static str = "The sum of all tokens so far.";
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        Ok(Self { state: build.state("sum", &[build.width()])? })
    }
}

impl Mixer for Sum {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, sequences, mut states, .. } = call;
        for (index, sequence) in
            sequences.iter().enumerate().filter(|(_, sequence)| !sequence.rows().is_empty())
        {
            let state = states.get_mut(index, &self.state)?;
            let before = views::values(state, &[1, state.len()])?;
            // Columns in two halves: rows with gaps between them.
            let rows = x.range(sequence.rows());
            let half = x.cols() / 2;
            let halves =
                [rows.columns(0..half), rows.columns(half..x.cols())].map(|half| views::tensor(&half));
            let [left, right] = halves;
            let (left, right) = (left?, right?);
            let summed = || {
                let rows = candle_core::Tensor::cat(&[&left, &right], 1)?;
                let sums = rows.cumsum(0)?.broadcast_add(&before)?;
                let last = sums.narrow(0, sums.dim(0)? - 1, 1)?;
                Ok::<_, candle_core::Error>((sums, last))
            };
            let (sums, last) = summed().map_err(Error::new)?;
            views::write(&sums, &mut output.range(sequence.rows()))?;
            views::write_values(&last, state)?;
        }
        Ok(())
    }
}

#[test]
fn a_norm_in_candle_is_a_norm() {
    let component = testing::norm::<Rms>();
    let given = Setup::new(16);
    for outcome in testing::check(&component, &given) {
        assert!(outcome.fault.is_none(), "{outcome}");
    }
    let (x, weight) = (RandomNumbers::new(3).reals(32, 2.0), RandomNumbers::new(4).reals(16, 1.0));
    let found = given.tensor(".weight", weight.clone()).create(&component).unwrap().rows(&x).unwrap();
    for (x, found) in x.chunks_exact(16).zip(found.chunks_exact(16)) {
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 16.0;
        for ((x, weight), found) in x.iter().zip(&weight).zip(found) {
            let wanted = f64::from(*x) / (mean + 1e-6).sqrt() * f64::from(*weight);
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "{found} {wanted}");
        }
    }
}

#[test]
fn a_mixer_in_candle_keeps_its_state_with_the_host() {
    let component = testing::mixer::<Sum>();
    for outcome in testing::check(&component, &Setup::new(6)) {
        assert!(outcome.fault.is_none(), "{outcome}");
    }
}

#[test]
fn a_tensor_that_does_not_fit_is_refused() {
    let tensor = views::values(&[1.0, 2.0, 3.0], &[1, 3]).unwrap();
    let mut memory = [0.0; 4];
    let error = views::write(&tensor, &mut RowsMut::new(&mut memory, 2).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "a tensor [1, 3] does not fit into rows [2, 2]");
    let error = views::write_values(&tensor, &mut memory).unwrap_err();
    assert_eq!(error.to_string(), "expected a tensor of 4 numbers, found 3");
    assert!(views::values(&[1.0], &[2]).is_err());
}
