//! Files that appear whole or not at all, locks between processes, and paths as text. Nothing of a file format.
#![forbid(unsafe_code)]

mod atomic_file;
mod atomic_folder;
mod error;
mod file_lock;
mod path_text;

pub use atomic_file::AtomicFile;
pub use atomic_folder::AtomicFolder;
pub use error::FileError;
pub use file_lock::FileLock;
pub use path_text::path_text;
