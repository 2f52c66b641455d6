//! The mixer `short-conv`.

use super::recurrent::by_tap;
use menagerie_model::components::{ShortConv, ShortConvLinears};
use menagerie_model::{Operation, SequenceMixer};
use menagerie_registry::{Part, Parts, component, noted};
use menagerie_spec::config::ShortConvConfig;

component!(mixer ShortConvConfig, short_conv);

fn short_conv(config: &ShortConvConfig, parts: &mut dyn Parts) -> Option<Box<dyn SequenceMixer>> {
    let ShortConvConfig { length } = *config;
    parts.needs(Operation::ShortConv)?;
    let width = parts.width();
    let gates_and_input = parts.split_linear("shortconv.in_proj", &[width; 3], &[]);
    let taps = parts.values("shortconv.conv", Part::Main);
    let output = parts.linear("shortconv.out_proj");
    let taps = parts.vector("shortconv.conv", by_tap(&taps?, length))?;
    let [before, after, input] = <[_; 3]>::try_from(gates_and_input?).ok()?;
    let linears = ShortConvLinears { before, after, input, output: output? };
    let name = parts.name("shortconv");
    let built = ShortConv::new(&name, linears, taps, length, parts.states());
    Some(Box::new(noted(parts, built)?))
}
