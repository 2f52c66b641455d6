//! Checks that only root and the user can change a plugin's file.

use crate::error::PluginFault;
use std::path::{Path, PathBuf};

/// The canonical path of the file, if only root and the user can change or replace it.
///
/// # Errors
/// A missing file; another user who could change it.
pub(crate) fn trusted(path: &Path) -> Result<PathBuf, PluginFault> {
    let file = std::fs::canonicalize(path).map_err(crate::inspect::unreadable)?;
    check(&file, What::File)?;
    for folder in file.ancestors().skip(1) {
        check(folder, if Some(folder) == file.parent() { What::Folder } else { What::FolderAbove })?;
    }
    // A user who can change the folder of a link can replace the link.
    let named = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = std::fs::canonicalize(named).map_err(crate::inspect::unreadable)?;
    if Some(&*named) != file.parent() {
        check(&named, What::Folder)?;
    }
    Ok(file)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    File,
    Folder,
    /// On many systems another user owns it; it is enough that others cannot rename its content.
    FolderAbove,
}

#[cfg(unix)]
fn check(path: &Path, what: What) -> Result<(), PluginFault> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path).map_err(crate::inspect::unreadable)?;
    let (mode, owner) = (metadata.mode(), metadata.uid());
    // SAFETY: it has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let refused = |why: String| Err(PluginFault::Trust(why));
    // In a folder with the sticky bit, users can only rename their own files.
    let open = mode & 0o002 != 0 && !(what == What::FolderAbove && mode & 0o1000 != 0);
    if open {
        return refused(format!("all users may write to {}; revoke this with `chmod o-w`", path.display()));
    }
    if what != What::FolderAbove && owner != 0 && owner != user {
        return refused(format!(
            "{} belongs to user {owner}, not to root or to you (user {user}); copy it to one of your folders",
            path.display()
        ));
    }
    Ok(())
}

/// Owners and permissions are not checked on other systems.
#[cfg(not(unix))]
fn check(_path: &Path, _what: What) -> Result<(), PluginFault> {
    Ok(())
}
