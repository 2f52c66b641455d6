//! Links every built-in architecture: `use menagerie_all as _;` in a binary, test or bench.
#![forbid(unsafe_code)]

use menagerie_llama as _;
use menagerie_mistral3 as _;
use menagerie_phi2 as _;
use menagerie_phi3 as _;
use menagerie_qwen2 as _;
use menagerie_qwen3 as _;
use menagerie_qwen3moe as _;
use menagerie_specs as _;
use menagerie_starcoder2 as _;
use menagerie_xlora as _;
