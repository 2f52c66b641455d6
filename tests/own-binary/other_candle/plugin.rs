//! An RMS norm in the operations of candle 0.10.

use menagerie_plugin::{
    Build, Component, Error, Host, Norm, Result, Role, Rows, RowsMut, candle_views, export, options,
};

candle_views! {
    /// Rows as tensors of candle 0.10.
    mod views for candle_core;
}

options! {
    /// Options of `rms`.
    pub struct RmsOptions {
        /// Added to the mean of the squares.
        eps: f64 = Number(1e-5) => guarded,
    }
}

/// An RMS norm.
pub struct Rms {
    eps: f64,
    weight: Vec<f32>,
}

impl Component for Rms {
    const NAME: &'static str = "rms";
    const DOC: &'static str = "`x / sqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich, 2019).";
    const ROLES: &'static [Role] = &[Role::values("", &["width"], "Multiplies the row.")];
    type Options = RmsOptions;

    fn create(options: RmsOptions, build: &mut Build) -> Result<Self> {
        Ok(Self { eps: options.eps, weight: build.values("")? })
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
            x.broadcast_div(&(mean + self.eps)?.sqrt()?)?.broadcast_mul(&weight)
        };
        views::write(&normed().map_err(Error::new)?, &mut output)
    }
}

export! {
    id: "acme/other-candle",
    components: [norm Rms],
}
