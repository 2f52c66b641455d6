//! What `batch` does: requests read from a file, tasks of a queue, results written to a file.
//!
//! In reading order: `input` finds the lines, `body` and `request` make tasks of them, `models` opens what answers them,
//! `work` runs them, `result` and `vectors` make their answers, `output` keeps those.

pub(crate) mod body;
mod checksum;
pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod models;
pub(crate) mod output;
pub(crate) mod request;
pub(crate) mod result;
mod result_file;
mod retry;
mod tally;
pub(crate) mod vectors;
pub(crate) mod work;
