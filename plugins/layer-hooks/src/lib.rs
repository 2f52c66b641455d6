//! Hooks between layers as a plugin: one that puts rows in the place of others, and one that only looks.
//!
//! `--hook menagerie/layer-hooks:norm-clamp=most=20,layers=10-20`, `--hook menagerie/layer-hooks:statistics=file=rows.tsv`.

mod norm_clamp;
mod statistics;

pub use norm_clamp::{NormClamp, NormClampOptions};
pub use statistics::{Statistics, StatisticsOptions};

menagerie_plugin::export! {
    id: "menagerie/layer-hooks",
    components: [layer_replacer NormClamp, layer_observer Statistics],
}
