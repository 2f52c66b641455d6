//! [`array_of`]: a list of parts as an array.

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
    list.try_into().map_err(|_| {
        parts.fault(&format!("expected {N} parts, found {found}; this is a defect, please report it"))
    })
}
