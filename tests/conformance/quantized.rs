//! The quantized files on the CPU.
#![allow(missing_docs)]

use menagerie::engine::Arithmetic;
use menagerie_conformance::{options, quantized_files};

quantized_files!(1e-3, options(Arithmetic::Exact), options(Arithmetic::Fast));
