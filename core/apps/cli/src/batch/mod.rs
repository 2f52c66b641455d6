//! The parts of `batch`: it reads requests from a file, runs them in a queue, and writes results to another file.
//!
//! In reading order: `input` finds the lines (the crate `menagerie-openai` converts them to requests), `models` opens the
//! models, `work` runs the batch, `result` and `vectors` build the results, `output` writes them.

mod checksum;
pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod models;
pub(crate) mod output;
pub(crate) mod result;
mod result_file;
mod retry;
pub(crate) mod tally;
pub(crate) mod vectors;
pub(crate) mod work;
