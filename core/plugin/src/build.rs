//! [`Build`]: the parts for creating an instance.

use crate::abi::{self, OK, Tensor, Text, part};
use crate::descriptor::{ArrayAccess, floats};
use crate::error::{Error, Result};
use crate::slots::{Slot, SlotReader, SlotWriter};
use crate::states::{State, TokenState};
use crate::text::given;
use crate::vocabulary::Vocabulary;
use std::slice;

/// The parts for creating an instance: tensors by role, states, and the place in the model.
///
/// The host records faults with their place (file, layer, tensor).
#[derive(Debug)]
pub struct Build<'a> {
    raw: &'a abi::Build,
    weights: Vec<Tensor>,
}

/// A linear that the host stores and computes, with its quantization and adapters; see
/// [`Host::linear`](crate::Host::linear).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    raw: abi::Linear,
}

impl Linear {
    /// Elements of an input row.
    pub fn inputs(&self) -> usize {
        self.raw.inputs as usize
    }

    /// Elements of an output row.
    pub fn outputs(&self) -> usize {
        self.raw.outputs as usize
    }

    pub(crate) fn number(&self) -> u32 {
        self.raw.number
    }
}

/// A tensor as the file stores it; [`Host::weight`](crate::Host::weight) returns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    pub(crate) index: usize,
    pub(crate) bytes: usize,
    /// Of [`abi::dtype`].
    pub dtype: u32,
    /// Elements, the slowest dimension first.
    pub shape: Vec<usize>,
}

impl<'a> Build<'a> {
    pub(crate) fn of(raw: &'a abi::Build) -> Build<'a> {
        Build { raw, weights: Vec::new() }
    }

    /// Weights that the instance reads during calls.
    pub(crate) fn into_weights(self) -> Vec<Tensor> {
        self.weights
    }

    /// The block; `None` for the whole model, or without a model.
    pub fn layer(&self) -> Option<usize> {
        usize::try_from(self.raw.layer).ok()
    }

    /// Number of blocks of the model; 0 without a model.
    pub fn layers(&self) -> usize {
        self.raw.layers as usize
    }

    /// Elements of its rows: D, or the width of a norm.
    pub fn width(&self) -> usize {
        self.raw.width as usize
    }

    pub(crate) fn count(&self, option: &str) -> Result<u64> {
        // SAFETY: the build's function with its context; the text is borrowed for the call.
        filled(|value| unsafe { (self.raw.count)(self.raw.context, Text::new(option), value) })
    }

    pub(crate) fn real(&self, option: &str) -> Result<f64> {
        // SAFETY: as in `count`.
        filled(|value| unsafe { (self.raw.real)(self.raw.context, Text::new(option), value) })
    }

    pub(crate) fn name(&self, option: &str) -> Result<&'a str> {
        // SAFETY: as in `count`; the name lives for the life of the instance.
        let name = filled(|value| unsafe { (self.raw.name)(self.raw.context, Text::new(option), value) })?;
        // SAFETY: as above.
        unsafe { given(name, option) }
    }

    /// A size that a tensor has bound: a symbol of [`Role::dims`](crate::Role::dims).
    ///
    /// # Errors
    /// A symbol that no tensor has bound.
    pub fn size(&self, symbol: &str) -> Result<usize> {
        // SAFETY: as in `count`.
        let size = filled(|value| unsafe { (self.raw.size)(self.raw.context, Text::new(symbol), value) })?;
        usize::try_from(size).map_err(|_| Error::new(format!("size {symbol}: {size} is larger than memory")))
    }

    /// Whether the file has a role's tensor.
    pub fn has(&self, role: &str) -> bool {
        self.has_part(role, part::MAIN)
    }

    /// Whether the file has a role's bias.
    pub fn has_bias(&self, role: &str) -> bool {
        self.has_part(role, part::BIAS)
    }

    fn has_part(&self, role: &str, part: u32) -> bool {
        // SAFETY: as in `count`.
        unsafe { (self.raw.has)(self.raw.context, Text::new(role), part) == 1 }
    }

    /// A role's linear.
    ///
    /// # Errors
    /// A missing tensor, or one of another shape.
    pub fn linear(&mut self, role: &str) -> Result<Linear> {
        // SAFETY: as in `count`.
        let raw = filled(|linear| unsafe { (self.raw.linear)(self.raw.context, Text::new(role), linear) })?;
        Ok(Linear { raw })
    }

    /// The values of a role, in the order of the file.
    ///
    /// # Errors
    /// A missing tensor, or one of another shape.
    pub fn values(&mut self, role: &str) -> Result<Vec<f32>> {
        self.values_of(role, part::MAIN)
    }

    /// The values of a role's bias.
    ///
    /// # Errors
    /// As [`Build::values`].
    pub fn bias_values(&mut self, role: &str) -> Result<Vec<f32>> {
        self.values_of(role, part::BIAS)
    }

    fn values_of(&mut self, role: &str, part: u32) -> Result<Vec<f32>> {
        let (text, context) = (Text::new(role), self.raw.context);
        // SAFETY: as in `count`.
        let tensor = filled(|tensor| unsafe { (self.raw.values)(context, text, part, tensor) })?;
        let found = floats(&tensor, ArrayAccess::Read, role)?;
        // SAFETY: checked; the host keeps it for longer than this call.
        Ok(unsafe { slice::from_raw_parts(found.data, found.len) }.to_vec())
    }

    /// A role's tensor as the file stores it, without a copy; for what [`Build::linear`] cannot compute.
    ///
    /// # Errors
    /// As [`Build::values`].
    pub fn weight(&mut self, role: &str) -> Result<Weight> {
        let (text, context) = (Text::new(role), self.raw.context);
        // SAFETY: as in `count`.
        let tensor = filled(|tensor| unsafe { (self.raw.weight)(context, text, part::MAIN, tensor) })?;
        let refused =
            |why: &str| Error::new(format!("{role}: the array from the host cannot be used: {why}"));
        let dims = tensor.shape.get(..tensor.ndim as usize).ok_or_else(|| refused("too many dimensions"))?;
        let shape = dims.iter().map(|dim| usize::try_from(*dim)).collect::<Result<Vec<_>, _>>();
        let bytes = usize::try_from(tensor.byte_len).ok().filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| refused("it is larger than memory"))?;
        if tensor.device_type != abi::device::CPU || (tensor.data.is_null() && bytes > 0) {
            return Err(refused("it is not in memory"));
        }
        let shape = shape.map_err(|_| refused("a negative dimension"))?;
        self.weights.push(tensor);
        Ok(Weight { index: self.weights.len() - 1, bytes, dtype: tensor.dtype, shape })
    }

    /// Declares a state: a block of f32 for every sequence, zero where a sequence begins. The host keeps it, so that prefixes,
    /// snapshots, stages and batches work.
    ///
    /// # Errors
    /// More than 4 dimensions, a size that overflows; an error of the host.
    pub fn state(&mut self, name: &str, shape: &[usize]) -> Result<State> {
        let mut dims = [0u64; 4];
        let len = shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        let (Some(len), true) = (len, (1..=dims.len()).contains(&shape.len())) else {
            return Err(Error::new(format!("state {name}: expected 1 to 4 dimensions, found {shape:?}")));
        };
        for (dim, size) in dims.iter_mut().zip(shape) {
            *dim = *size as u64;
        }
        let number = self.declare(name, abi::StateSpec::PER_SEQUENCE, (shape.len(), dims), 0)?;
        Ok(State { number, len })
    }

    /// Declares a state with a row for every token, `heads * head_dim` elements, stored as the host's cache type says.
    /// `window` tokens stay visible, the newest included; none = all.
    ///
    /// # Errors
    /// A size that overflows; an error of the host.
    pub fn token_state(
        &mut self,
        name: &str,
        heads_and_dim: [usize; 2],
        window: Option<usize>,
    ) -> Result<TokenState> {
        let [heads, dim] = heads_and_dim;
        let cols = heads.checked_mul(dim);
        let cols = cols.ok_or_else(|| Error::new(format!("state {name}: [{heads}, {dim}] overflows")))?;
        let dims = (2, [heads as u64, dim as u64, 0, 0]);
        let number = self.declare(name, abi::StateSpec::PER_TOKEN, dims, window.unwrap_or(0) as u64)?;
        Ok(TokenState { number, cols })
    }

    fn declare(&mut self, name: &str, kind: u32, shape: (usize, [u64; 4]), window: u64) -> Result<u32> {
        let (ndim, shape) = (shape.0 as u32, shape.1);
        let spec = abi::StateSpec { name: Text::new(name), kind, ndim, shape, window, reserved: [0; 2] };
        // SAFETY: as in `count`; the spec is borrowed for the call.
        filled(|number| unsafe { (self.raw.declare_state)(self.raw.context, &spec, number) })
    }

    /// Rows `[T, width]` that layers hand on within a step, by a name that is the model's: the first layer that asks for it
    /// writes it, later ones read it.
    ///
    /// # Errors
    /// A width that is not that of the layer that writes.
    pub fn slot(&mut self, name: &str, width: usize) -> Result<Slot> {
        let mut writes = 0;
        let (text, wide) = (Text::new(name), width as u64);
        let number = filled(|number| {
            // SAFETY: as in `count`.
            unsafe { (self.raw.slot)(self.raw.context, text, wide, &raw mut writes, number) }
        })?;
        Ok(match writes {
            0 => Slot::Reads(SlotReader { number, width }),
            _ => Slot::Writes(SlotWriter { number, width }),
        })
    }

    /// The vocabulary of the model, for tokenizers and samplers; `None` if there is none.
    ///
    /// # Errors
    /// A host of another version.
    pub fn vocabulary(&self) -> Result<Option<Vocabulary<'_>>> {
        if self.raw.vocabulary.is_null() {
            return Ok(None);
        }
        // SAFETY: not null; lives for this call.
        unsafe { abi::checked(self.raw.vocabulary) }.map(|raw| Some(Vocabulary::of(raw))).map_err(Error::new)
    }
}

/// The value that a function of the host fills in.
pub(crate) fn filled<T: Blank>(function: impl FnOnce(*mut T) -> abi::Status) -> Result<T> {
    let mut value = T::BLANK;
    if function(&raw mut value) == OK { Ok(value) } else { Err(Error::noted()) }
}

/// What is there before the host fills it in.
pub(crate) trait Blank {
    const BLANK: Self;
}

impl Blank for u32 {
    const BLANK: u32 = 0;
}

impl Blank for u64 {
    const BLANK: u64 = 0;
}

impl Blank for f64 {
    const BLANK: f64 = 0.0;
}

impl Blank for Text {
    const BLANK: Text = Text::EMPTY;
}

impl Blank for abi::Token {
    const BLANK: abi::Token = abi::Token { text: Text::EMPTY, kind: 0, score: 0.0 };
}

impl Blank for abi::Linear {
    const BLANK: abi::Linear = abi::Linear { number: 0, padding: 0, inputs: 0, outputs: 0 };
}

impl Blank for Tensor {
    const BLANK: Tensor = Tensor {
        data: std::ptr::null_mut(),
        byte_len: 0,
        dtype: u32::MAX,
        device_type: 0,
        device_id: 0,
        ndim: 0,
        shape: [0; 6],
        strides: [0; 6],
        flags: 0,
    };
}
