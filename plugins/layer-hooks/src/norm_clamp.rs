//! [`NormClamp`]: rows are held below a size.

use menagerie_plugin::{Build, Component, Error, LayerCall, LayerReplacer, Result, RowsMut, options};

options! {
    /// Options of `norm-clamp`.
    pub struct NormClampOptions {
        /// Largest root of the mean square of a row.
        most: f32 = Required => guarded,
    }
}

/// Makes rows smaller whose root of the mean square is above a bound, and leaves the others as they are.
#[derive(Debug)]
pub struct NormClamp {
    most: f32,
}

impl NormClamp {
    /// With this bound.
    pub fn new(most: f32) -> Self {
        Self { most }
    }

    /// Of a row `x [D]`, what takes its place.
    pub fn apply(&self, x: &[f32], y: &mut [f32]) {
        let size = (x.iter().map(|x| x * x).sum::<f32>() / x.len().max(1) as f32).sqrt();
        let scale = if size > self.most { self.most / size } else { 1.0 };
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * scale);
    }
}

impl Component for NormClamp {
    const NAME: &'static str = "norm-clamp";
    const DOC: &'static str = "Scales rows down whose root of the mean square is above a bound.";
    type Options = NormClampOptions;

    fn create(options: NormClampOptions, _build: &mut Build) -> Result<Self> {
        let NormClampOptions { most } = options;
        if !most.is_finite() || most <= 0.0 {
            return Err(Error::new(format!("most is {most}, expected a number above 0")));
        }
        Ok(Self { most })
    }
}

impl LayerReplacer for NormClamp {
    fn replace(&self, call: LayerCall, output: RowsMut) -> Result<()> {
        let LayerCall { x, host, .. } = call;
        host.parallel_over(output.chunks(8), |index, mut rows| {
            for row in 0..rows.rows() {
                self.apply(x.row(index * 8 + row), rows.row_mut(row));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_plugin::testing::{self, Setup};

    #[test]
    fn a_row_above_the_bound_is_scaled_to_it_and_others_stay() {
        let component = testing::layer_replacer::<NormClamp>();
        let given = Setup::new(2).option("most", 5.0);
        let found = given.create(&component).unwrap().rows(&[3.0, 4.0, 30.0, 40.0]).unwrap();
        let bound = 5.0f32;
        let size = (2500.0f32 / 2.0).sqrt();
        assert_eq!(found, [3.0, 4.0, 30.0 * (bound / size), 40.0 * (bound / size)]);
        assert!(given.clone().option("most", 0.0).create(&component).is_err());
        for outcome in testing::check(&component, &Setup::new(12).option("most", 0.3)) {
            assert!(outcome.fault.is_none(), "{outcome}");
        }
    }
}
