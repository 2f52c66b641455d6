//! Files and batches of clients, in a folder that outlasts the process.

mod batch_folder;
mod record_store;

pub(crate) use batch_folder::{BatchFolder, file_object};
pub(crate) use record_store::RecordStore;
