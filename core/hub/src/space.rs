//! Free disk space.

use crate::HubError;
use crate::progress::readable_bytes;
use std::path::Path;

/// Checks the free disk space before a download.
pub(crate) fn require_space(folder: &Path, model: &str, needed: u64) -> Result<(), HubError> {
    let available = fs4::available_space(folder).map_err(HubError::folder(folder))?;
    if available >= needed {
        return Ok(());
    }
    Err(HubError::DiskSpace {
        folder: folder.to_owned(),
        model: model.to_owned(),
        available: readable_bytes(available),
        needed: readable_bytes(needed),
    })
}
