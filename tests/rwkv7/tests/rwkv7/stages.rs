//! Values of the first layer go to later ones: a model cut between them is refused, not computed wrongly.

use crate::way::Way;
use menagerie::assembly::{AssembleOptions, assemble};
use menagerie::engine::Arithmetic;
use menagerie::model::StagePosition;
use menagerie_conformance::options;

#[test]
fn stages_that_do_not_send_what_layers_hand_on_are_refused() {
    for way in Way::ALL {
        let pipeline = way.open("rwkv7", &options(Arithmetic::Exact));
        let resolved = pipeline.resolved();
        let components = resolved.environment.components();
        let whole = AssembleOptions::whole(pipeline.compute(), components);
        let config = &resolved.resolution.config;
        assert!(assemble(config, &*resolved.tensors, &whole).is_ok(), "{way:?}");
        for (position, layers) in
            [(StagePosition::First, 0..2), (StagePosition::Middle, 1..2), (StagePosition::Last, 1..3)]
        {
            let options = AssembleOptions::whole(pipeline.compute(), components).stage(position, layers);
            let error = assemble(config, &*resolved.tensors, &options).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("{way:?}: a {position:?} stage is assembled"));
            assert!(
                error.contains("first values")
                    && error.contains("a stage needs the slots of the previous stages"),
                "{way:?}: {error}"
            );
        }
    }
}
