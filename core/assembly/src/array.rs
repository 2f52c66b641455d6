//! [`array_of`]: the parts of a fused role, as many as were asked for.

use menagerie_registry::{BuildResult, ComponentParts};

/// A list of a known length as an array.
///
/// # Errors
/// Another length, which is a defect and reported as one.
pub(crate) fn array_of<T, const N: usize>(
    parts: &mut dyn ComponentParts,
    list: Vec<T>,
) -> BuildResult<[T; N]> {
    let found = list.len();
    list.try_into()
        .map_err(|_| parts.fault(&format!("{found} parts instead of {N} (a defect: please report it)")))
}
