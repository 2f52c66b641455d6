//! The quantised files on the CPU.
#![allow(missing_docs)]

use menagerie::pipeline::Arithmetic;
use menagerie_conformance::{options, quantised_files};

quantised_files!(1e-3, options(Arithmetic::Exact), options(Arithmetic::Fast));
