//! The text that `--version` prints.

use menagerie::kernels::Isa;
use std::sync::LazyLock;

static LONG: LazyLock<String> = LazyLock::new(|| {
    let available: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    format!(
        "{} ({})\nkernels here: {}; chosen: {}",
        env!("CARGO_PKG_VERSION"),
        env!("COMMIT_OF_THE_BUILD"),
        available.join(", "),
        Isa::detect().name()
    )
});

/// Version and commit.
pub(crate) fn short() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("COMMIT_OF_THE_BUILD"), ")")
}

/// Version, commit and instruction sets.
pub(crate) fn long() -> &'static str {
    &LONG
}
