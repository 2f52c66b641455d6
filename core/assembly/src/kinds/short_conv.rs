//! The mixer `short-conv`.

use super::recurrent::by_tap;
use crate::array::array_of;
use menagerie_model::components::{ShortConv, ShortConvLinears};
use menagerie_model::{Operation, SequenceMixer};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::ShortConvConfig;

component!(mixer ShortConvConfig, short_conv);

fn short_conv(
    config: &ShortConvConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    let ShortConvConfig { length } = *config;
    parts.needs(Operation::ShortConv)?;
    let width = parts.width();
    let gates_and_input = parts.split_linear("shortconv.in_proj", &[width; 3], &[]);
    let taps = parts.values("shortconv.conv", TensorPart::Main);
    let output = parts.linear("shortconv.out_proj");
    let taps = parts.vector("shortconv.conv", by_tap(&taps?, length))?;
    let [before, after, input] = array_of(parts, gates_and_input?)?;
    let linears = ShortConvLinears { before, after, input, output: output? };
    let name = parts.name("shortconv");
    let built = ShortConv::new(&name, linears, taps, length, parts.states());
    Ok(Box::new(or_fault(parts, built)?))
}
