//! The parts of `batch`: it reads requests from a file, runs them in a queue, and writes results to another file.
//!
//! In reading order: the crate `menagerie-openai` finds the lines and converts them to requests, `models` opens the
//! models, `work` runs the batch, `result` and `vectors` build the results, `output` writes them.

pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod models;
pub(crate) mod output;
pub(crate) mod result;
pub(crate) mod tally;
pub(crate) mod vectors;
pub(crate) mod work;
