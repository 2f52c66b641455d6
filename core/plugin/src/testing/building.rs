//! The `Build` of the host for tests.

use super::host_table::note;
use super::numbers::RandomNumbers;
use super::setup::{MissingOption, Setting, Setup};
use super::sizes::DimSizes;
use crate::abi::{self, Header, OptionDef, RoleDef, Status, Tensor, Text, dtype, part};
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::slice;

/// A linear of the host.
#[derive(Clone, Debug)]
pub(super) struct TestLinear {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) weight: String,
    pub(super) bias: Option<String>,
}

/// A state that was declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeclaredState {
    pub(super) kind: u32,
    pub(super) elements: usize,
    pub(super) window: usize,
}

impl DeclaredState {
    /// Elements of a sequence's block.
    pub(super) fn block(&self) -> usize {
        if self.kind == abi::StateSpec::PER_SEQUENCE { self.elements } else { 0 }
    }
}

/// A slot that was asked for.
#[derive(Clone, Debug)]
pub(super) struct SlotRequest {
    pub(super) name: String,
    pub(super) width: usize,
    pub(super) reads: bool,
}

/// What an instance has asked for.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) linears: Vec<TestLinear>,
    pub(super) states: Vec<DeclaredState>,
    pub(super) slots: Vec<SlotRequest>,
}

/// A tensor of the file, dims with the contiguous one first.
#[derive(Debug)]
struct FileTensor {
    dims: Vec<u64>,
    values: Vec<f32>,
}

/// What an instance is made from; lives as long as it.
#[derive(Debug)]
pub(super) struct SetupData {
    options: BTreeMap<String, Setting>,
    sizes: DimSizes,
    tensors: BTreeMap<String, FileTensor>,
    read_slots: BTreeSet<String>,
    vocabulary: Vec<(String, i32, f32)>,
    merges: Vec<String>,
    pub(super) wanted: RefCell<Requests>,
}

/// A list of a component.
///
/// # Safety
/// As the ABI says: `data` leads to `len` of them for the life of the process.
pub(super) unsafe fn list<T>(data: *const T, len: usize) -> &'static [T] {
    // SAFETY: the caller's promise.
    if len == 0 { &[] } else { unsafe { slice::from_raw_parts(data, len) } }
}

/// A text of a component.
fn text_of(text: Text, what: &str) -> Result<&'static str> {
    // SAFETY: texts of a component live as long as the process.
    unsafe { text.as_str() }.ok_or_else(|| Error::new(format!("{what} is not UTF-8")))
}

impl SetupData {
    pub(super) fn new(component: &abi::Component, given: &Setup) -> Result<Box<SetupData>> {
        let mut made = SetupData {
            options: BTreeMap::new(),
            sizes: DimSizes::default(),
            tensors: BTreeMap::new(),
            read_slots: given.read_slots.clone(),
            vocabulary: given.vocabulary.clone(),
            merges: given.merges.clone(),
            wanted: RefCell::default(),
        };
        made.sizes.set("D", given.width as u64);
        made.sizes.set("width", given.width as u64);
        for (symbol, size) in &given.sizes {
            made.sizes.set(symbol, *size);
        }
        // SAFETY: the component is what the ABI says.
        let (options, roles) = unsafe {
            (list(component.options, component.n_options), list(component.roles, component.n_roles))
        };
        made.take_options(options, given)?;
        made.take_tensors(roles, given)?;
        Ok(Box::new(made))
    }

    fn take_options(&mut self, rows: &[OptionDef], given: &Setup) -> Result<()> {
        for row in rows {
            let name = text_of(row.name, "the name of an option")?;
            let setting = match given.options.get(name) {
                Some(setting) => setting.clone(),
                None => unsaid(row, name, given.unsaid)?,
            };
            if let Setting::Count(count) = setting {
                self.sizes.set(name, count);
            }
            self.options.insert(name.to_owned(), setting);
        }
        match given.options.keys().find(|name| !self.options.contains_key(*name)) {
            Some(name) => Err(Error::new(format!("the component has no option {name}"))),
            None => Ok(()),
        }
    }

    fn take_tensors(&mut self, roles: &[RoleDef], given: &Setup) -> Result<()> {
        let mut numbers = RandomNumbers::new(given.seed);
        for role in roles {
            let name = text_of(role.name, "a role")?;
            // SAFETY: the component is what the ABI says.
            let symbols = unsafe { list(role.dims, role.n_dims) };
            let mut dims = Vec::with_capacity(symbols.len());
            for symbol in symbols {
                dims.push(self.sizes.dim(text_of(*symbol, "a dim")?)?);
            }
            let (linear, with_bias) = match role.form {
                RoleDef::LINEAR => (true, false),
                RoleDef::LINEAR_WITH_BIAS | RoleDef::LINEAR_MAY_HAVE_BIAS => (true, true),
                RoleDef::VALUES | RoleDef::BIAS => (false, false),
                form => return Err(Error::new(format!("role {name}: unknown form {form}"))),
            };
            let main = tensor_name(name, if role.form == RoleDef::BIAS { part::BIAS } else { part::MAIN });
            let scale =
                if linear { 1.0 / (dims.first().copied().unwrap_or(1).max(1) as f32).sqrt() } else { 0.5 };
            if with_bias {
                self.store(
                    format!("{name}.bias"),
                    dims.get(1..).unwrap_or(&[]).to_vec(),
                    0.1,
                    (given, &mut numbers),
                )?;
            }
            self.store(main, dims, scale, (given, &mut numbers))?;
        }
        match given.tensors.keys().chain(&given.absent).find(|name| !self.tensors.contains_key(*name)) {
            Some(name) if !given.absent.contains(name) => {
                Err(Error::new(format!("the component has no tensor {name}")))
            }
            _ => Ok(()),
        }
    }

    fn store(
        &mut self,
        name: String,
        dims: Vec<u64>,
        scale: f32,
        (given, numbers): (&Setup, &mut RandomNumbers),
    ) -> Result<()> {
        let len = dims.iter().try_fold(1u64, |all, dim| all.checked_mul(*dim)).filter(|len| *len < 1 << 28);
        let len =
            len.ok_or_else(|| Error::new(format!("tensor {name} of {dims:?} is too large for a test")))?;
        let random = numbers.reals(len as usize, scale);
        if given.absent.contains(&name) {
            return Ok(());
        }
        let values = given.tensors.get(&name).cloned().unwrap_or(random);
        if values.len() as u64 != len {
            let found = values.len();
            return Err(Error::new(format!(
                "tensor {name}: expected {len} numbers for {dims:?}, found {found}"
            )));
        }
        self.tensors.insert(name, FileTensor { dims, values });
        Ok(())
    }

    /// The numbers of a tensor.
    pub(super) fn values(&self, name: &str) -> &[f32] {
        self.tensors.get(name).map_or(&[], |stored| &stored.values)
    }

    /// The ABI's `Build` over this, for one call.
    pub(super) fn build(&self, given: &Setup, vocabulary: &abi::Vocabulary) -> abi::Build {
        abi::Build {
            header: Header::of::<abi::Build>(),
            layer: given.layer.map_or(-1, |layer| layer as i64),
            layers: given.layers as u64,
            width: given.width as u64,
            context: (&raw const *self).cast_mut().cast(),
            count,
            real,
            name,
            size,
            has,
            weight: values,
            values,
            linear,
            declare_state,
            slot,
            vocabulary: if self.vocabulary.is_empty() { std::ptr::null() } else { vocabulary },
        }
    }

    /// The ABI's `Vocabulary` over this.
    pub(super) fn vocabulary(&self) -> abi::Vocabulary {
        abi::Vocabulary {
            header: Header::of::<abi::Vocabulary>(),
            tokens: self.vocabulary.len() as u64,
            merges: self.merges.len() as u64,
            context: (&raw const *self).cast_mut().cast(),
            token,
            merge,
        }
    }

    pub(super) fn tokens(&self) -> usize {
        self.vocabulary.len()
    }
}

/// What holds for an option that a test does not say.
fn unsaid(row: &OptionDef, name: &str, unsaid: MissingOption) -> Result<Setting> {
    let default = text_of(row.default, "a default")?;
    // SAFETY: the component is what the ABI says.
    let names = unsafe { list(row.names, row.n_names) };
    let read = match row.kind {
        OptionDef::COUNT => default.parse().ok().map(Setting::Count),
        OptionDef::REAL => default.parse().ok().map(Setting::Real),
        OptionDef::NAME | OptionDef::TEXT => {
            let name = default.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            name.map(|name| Setting::Name(name.to_owned()))
        }
        kind => return Err(Error::new(format!("option {name}: unknown kind {kind}"))),
    };
    match (read, unsaid, row.kind) {
        (Some(setting), _, _) => Ok(setting),
        (None, MissingOption::Refused, _) => {
            Err(Error::new(format!("option {name} has no value: set it with `Setup::option`")))
        }
        (None, MissingOption::Chosen, OptionDef::COUNT) => Ok(Setting::Count(8)),
        (None, MissingOption::Chosen, OptionDef::REAL) => Ok(Setting::Real(0.5)),
        (None, MissingOption::Chosen, OptionDef::TEXT) => Ok(Setting::Name("text".to_owned())),
        (None, MissingOption::Chosen, _) => {
            let first = names.first().ok_or_else(|| Error::new(format!("option {name} has no names")))?;
            Ok(Setting::Name(text_of(*first, "a name")?.to_owned()))
        }
    }
}

/// What a function of the table does: the value, or the fault noted.
///
/// # Safety
/// `context` is a [`SetupData`] that lives; `value` may be written.
unsafe fn answer<T>(
    context: *mut c_void,
    key: Text,
    value: *mut T,
    find: impl FnOnce(&SetupData, &str) -> Result<T, String>,
) -> Status {
    // SAFETY: the promise above; the text is borrowed for the call.
    let (made, key) = unsafe { (&*context.cast_const().cast::<SetupData>(), key.as_str()) };
    let found = key.ok_or_else(|| "a name is not UTF-8".to_owned()).and_then(|key| find(made, key));
    match found {
        Ok(found) => {
            // SAFETY: the promise above.
            unsafe { value.write(found) };
            abi::OK
        }
        Err(fault) => {
            note(fault);
            abi::ERROR
        }
    }
}

unsafe extern "C" fn count(context: *mut c_void, option: Text, value: *mut u64) -> Status {
    let find = |made: &SetupData, option: &str| match made.options.get(option) {
        Some(Setting::Count(count)) => Ok(*count),
        _ => Err(format!("there is no count {option}")),
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, option, value, find) }
}

unsafe extern "C" fn real(context: *mut c_void, option: Text, value: *mut f64) -> Status {
    let find = |made: &SetupData, option: &str| match made.options.get(option) {
        Some(Setting::Real(number)) => Ok(*number),
        Some(Setting::Count(count)) => Ok(*count as f64),
        _ => Err(format!("there is no number {option}")),
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, option, value, find) }
}

unsafe extern "C" fn name(context: *mut c_void, option: Text, value: *mut Text) -> Status {
    let find = |made: &SetupData, option: &str| match made.options.get(option) {
        Some(Setting::Name(name)) => Ok(Text::new(name)),
        _ => Err(format!("there is no name {option}")),
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, option, value, find) }
}

unsafe extern "C" fn size(context: *mut c_void, symbol: Text, value: *mut u64) -> Status {
    let find = |made: &SetupData, symbol: &str| {
        made.sizes.get(symbol).ok_or_else(|| format!("no tensor has bound the size {symbol}"))
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, symbol, value, find) }
}

/// `role.weight` or `role.bias`.
fn tensor_name(role: &str, part: u32) -> String {
    match part {
        part::BIAS => format!("{role}.bias"),
        _ if role.ends_with(".scale") => role.to_owned(),
        _ => format!("{role}.weight"),
    }
}

unsafe extern "C" fn has(context: *mut c_void, role: Text, part: u32) -> i32 {
    // SAFETY: the ABI's promise.
    let (made, role) = unsafe { (&*context.cast_const().cast::<SetupData>(), role.as_str()) };
    i32::from(role.is_some_and(|role| made.tensors.contains_key(&tensor_name(role, part))))
}

unsafe extern "C" fn values(context: *mut c_void, role: Text, part: u32, tensor: *mut Tensor) -> Status {
    let find = |made: &SetupData, role: &str| {
        let name = tensor_name(role, part);
        let stored = made.tensors.get(&name).ok_or_else(|| format!("there is no tensor {name}"))?;
        Ok(descriptor(stored))
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, role, tensor, find) }
}

/// A tensor of the file, read only, the slowest dimension first.
fn descriptor(stored: &FileTensor) -> Tensor {
    let shape: Vec<u64> = stored.dims.iter().rev().copied().collect();
    let bytes = stored.values.len() * size_of::<f32>();
    Tensor::dense(stored.values.as_ptr().cast_mut().cast(), bytes, dtype::F32, &shape, Tensor::READ_ONLY)
}

unsafe extern "C" fn linear(context: *mut c_void, role: Text, linear: *mut abi::Linear) -> Status {
    let find = |made: &SetupData, role: &str| {
        let weight = tensor_name(role, part::MAIN);
        let stored = made.tensors.get(&weight).ok_or_else(|| format!("there is no tensor {weight}"))?;
        let [inputs, outputs] = stored.dims[..] else {
            return Err(format!("{weight}: expected 2 dims for a linear, found {}", stored.dims.len()));
        };
        let bias = Some(tensor_name(role, part::BIAS)).filter(|bias| made.tensors.contains_key(bias));
        let linears = &mut made.wanted.borrow_mut().linears;
        linears.push(TestLinear { inputs: inputs as usize, outputs: outputs as usize, weight, bias });
        Ok(abi::Linear { number: linears.len() as u32 - 1, padding: 0, inputs, outputs })
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, role, linear, find) }
}

unsafe extern "C" fn declare_state(
    context: *mut c_void,
    state: *const abi::StateSpec,
    number: *mut u32,
) -> Status {
    // SAFETY: the ABI's promise.
    let state = unsafe { *state };
    let find = |made: &SetupData, name: &str| {
        let dims = state
            .shape
            .get(..state.ndim as usize)
            .ok_or_else(|| format!("state {name} has {} dims", state.ndim))?;
        let elements =
            dims.iter().try_fold(1u64, |all, dim| all.checked_mul(*dim)).filter(|all| *all < 1 << 28);
        let elements =
            elements.ok_or_else(|| format!("state {name} of {dims:?} is too large for a test"))? as usize;
        if ![abi::StateSpec::PER_SEQUENCE, abi::StateSpec::PER_TOKEN].contains(&state.kind) {
            return Err(format!("state {name}: unknown kind {}", state.kind));
        }
        let states = &mut made.wanted.borrow_mut().states;
        states.push(DeclaredState { kind: state.kind, elements, window: state.window as usize });
        Ok(states.len() as u32 - 1)
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, state.name, number, find) }
}

unsafe extern "C" fn slot(
    context: *mut c_void,
    name: Text,
    width: u64,
    writes: *mut u32,
    number: *mut u32,
) -> Status {
    let find = |made: &SetupData, name: &str| {
        let reads = made.read_slots.contains(name);
        // SAFETY: the ABI's promise.
        unsafe { writes.write(u32::from(!reads)) };
        let slots = &mut made.wanted.borrow_mut().slots;
        slots.push(SlotRequest { name: name.to_owned(), width: width as usize, reads });
        Ok(slots.len() as u32 - 1)
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, name, number, find) }
}

unsafe extern "C" fn token(context: *mut c_void, id: u32, token: *mut abi::Token) -> Status {
    let find = |made: &SetupData, _: &str| {
        let found = made.vocabulary.get(id as usize).ok_or_else(|| format!("there is no token {id}"))?;
        Ok(abi::Token { text: Text::new(&found.0), kind: found.1, score: found.2 })
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, Text::EMPTY, token, find) }
}

unsafe extern "C" fn merge(context: *mut c_void, index: u64, merge: *mut Text) -> Status {
    let find = |made: &SetupData, _: &str| {
        let found = made.merges.get(index as usize).ok_or_else(|| format!("there is no merge {index}"))?;
        Ok(Text::new(found))
    };
    // SAFETY: the ABI's promise.
    unsafe { answer(context, Text::EMPTY, merge, find) }
}
