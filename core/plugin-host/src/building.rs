//! The host's side of [`abi::Build`]: parts of a place, handed to `create`.

use crate::component::{Described, Work};
use crate::instance::{Instance, Kept, KeptLinear, KeptSlot, KeptState};
use crate::plugin::Misstep;
use crate::texts;
use gguf_file::GgmlType;
use menagerie_model::{SlotUse, StateSpec};
use menagerie_plugin::abi::{self, ERROR, Header, OK, Status, Tensor, Text, dtype, part};
use menagerie_registry::{Part, Parts};
use menagerie_spec::kind::{Component as Config, OptionValue};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{addr_of, null, null_mut};

/// Where an instance is made.
struct Building<'a> {
    described: &'static Described,
    config: &'a Config,
    parts: &'a mut dyn Parts,
    /// Role of a norm's tensors; empty for others.
    role: &'a str,
    kept: Kept,
    faulted: bool,
}

/// Makes an instance; `None` has noted a fault.
pub(crate) fn create(
    described: &'static Described,
    config: &Config,
    parts: &mut dyn Parts,
    (role, width): (&str, usize),
) -> Option<Instance> {
    if let Err(why) = described.conduct.check() {
        parts.fault(&why);
        return None;
    }
    let layer = parts.layer().and_then(|layer| i64::try_from(layer).ok()).unwrap_or(-1);
    let layers = parts.layers() as u64;
    let mut building = Building { described, config, parts, role, kept: Kept::default(), faulted: false };
    let build = abi::Build {
        header: Header::of::<abi::Build>(),
        layer,
        layers,
        width: width as u64,
        context: (&raw mut building).cast(),
        count,
        real,
        name,
        size,
        has,
        weight,
        values,
        linear,
        declare_state,
        slot,
        vocabulary: null(),
    };
    let mut handle = null_mut();
    texts::hush();
    // SAFETY: the function is the plugin's `create`; everything that `build` points to outlives the call.
    let status = unsafe { (described.create)(&build, &mut handle) };
    let Building { kept, faulted, parts, .. } = building;
    let refused = match described.conduct.judge(status, "create") {
        Ok(()) if !faulted => return Some(Instance::new(described, handle, kept)),
        Ok(()) => {
            // It went on to find more faults and has made something all the same.
            drop(Instance::new(described, handle, kept));
            return None;
        }
        Err(Misstep::Failed(_)) if faulted => return None,
        Err(Misstep::Failed(said)) => said,
        Err(Misstep::Broke(how)) => how,
    };
    parts.fault(&format!("component `{}`: {refused}", described.name));
    None
}

/// The building that a callback was given, and a guard: no panic of the host's leaves into the plugin.
///
/// # Safety
/// `context` is that of a [`Building`] whose `create` is under way on this thread.
unsafe fn within(context: *mut c_void, work: impl FnOnce(&mut Building<'_>) -> Option<()>) -> Status {
    // SAFETY: as this function asks; nobody else uses it during the callback.
    let building = unsafe { &mut *context.cast::<Building<'_>>() };
    match catch_unwind(AssertUnwindSafe(|| work(building))) {
        Ok(Some(())) => OK,
        Ok(None) => {
            building.faulted = true;
            ERROR
        }
        Err(_) => {
            building.faulted = true;
            building.parts.fault("the host panicked while it served a plugin (a defect: please report it)");
            ERROR
        }
    }
}

impl Building<'_> {
    /// A fault of the plugin's asking.
    fn refuse<T>(&mut self, why: &str) -> Option<T> {
        let text = format!("component `{}` {why} (a defect of the plugin)", self.described.name);
        self.parts.fault(&text);
        None
    }

    /// The text of an option, role or symbol.
    fn text(&mut self, text: Text, what: &str) -> Option<String> {
        // SAFETY: texts of a plugin are there, by the ABI.
        match unsafe { texts::name(text) } {
            Ok(text) => Some(text),
            Err(fault) => self.refuse(&format!("asks for {what} whose name is {fault}")),
        }
    }

    /// A role as files have it: a norm's own tensors are under the role of its place.
    fn role(&mut self, role: Text) -> Option<String> {
        let role = self.text(role, "a role")?;
        Some(if role.is_empty() { self.role.to_owned() } else { role })
    }

    fn option(&mut self, option: Text, kind: &str) -> Option<OptionValue> {
        let option = self.text(option, "an option")?;
        match self.config.as_made().and_then(|made| made.get(&option)) {
            Some(value) => Some(value),
            None => self.refuse(&format!("asks for the {kind} `{option}`, which is not among its options")),
        }
    }

    fn which(&mut self, which: u32) -> Option<Part> {
        match which {
            part::MAIN => Some(Part::Main),
            part::BIAS => Some(Part::Bias),
            other => self.refuse(&format!("asks for part {other} of a role")),
        }
    }

    /// Elements of a role's tensor, the slowest dimension first.
    fn shape(&self, role: &str) -> Vec<u64> {
        self.parts.dims(role).map(|dims| dims.iter().rev().copied().collect()).unwrap_or_default()
    }

    /// Refuses what a component that sees no sequences cannot have.
    fn sees_sequences(&mut self, what: &str) -> Option<()> {
        match self.described.work {
            Work::Mixer(_) | Work::FeedForward(_) => Some(()),
            other => self.refuse(&format!("asks for {what}, which a {} cannot have", other.family())),
        }
    }

    fn state_spec(&mut self, given: &abi::StateSpec) -> Option<StateSpec> {
        let name = self.text(given.name, "a state")?;
        let sizes = given.shape.get(..given.ndim as usize).unwrap_or_default();
        let sizes: Vec<usize> = sizes.iter().filter_map(|size| usize::try_from(*size).ok()).collect();
        if sizes.is_empty() || sizes.len() != given.ndim as usize || sizes.contains(&0) {
            return self.refuse(&format!(
                "declares the state `{name}` of {} dimensions, {:?}",
                given.ndim, given.shape
            ));
        }
        let name = self.parts.name(&name);
        match (given.kind, &*sizes) {
            (abi::StateSpec::PER_SEQUENCE, _) => Some(StateSpec::PerSequence { name, shape: sizes }),
            (abi::StateSpec::PER_TOKEN, &[heads, head_dim]) => {
                let window = usize::try_from(given.window).ok().filter(|window| *window > 0);
                Some(StateSpec::PerToken { name, dtype: None, heads, head_dim, window })
            }
            (abi::StateSpec::PER_TOKEN, _) => self.refuse(&format!(
                "declares `{name}` per token with other dimensions than heads and elements of a head"
            )),
            (other, _) => self.refuse(&format!("declares the state `{name}` of kind {other}")),
        }
    }
}

/// Describes memory that is not written.
pub(crate) fn read_only(data: *const u8, byte_len: usize, kind: u32, shape: &[u64]) -> Tensor {
    Tensor::dense(data.cast_mut().cast(), byte_len, kind, shape, Tensor::READ_ONLY)
}

/// The ABI's number of a type of a file.
fn dtype_of(block: GgmlType) -> u32 {
    match block {
        GgmlType::F32 => dtype::F32,
        GgmlType::F16 => dtype::F16,
        GgmlType::BF16 => dtype::BF16,
        GgmlType::I32 => dtype::I32,
        GgmlType::F64 => dtype::F64,
        other => dtype::GGML + other.id(),
    }
}

unsafe extern "C" fn count(context: *mut c_void, option: Text, value: *mut u64) -> Status {
    // SAFETY: the ABI: `context` is the building's, `value` can be written.
    unsafe {
        within(context, |at| match at.option(option, "count")? {
            OptionValue::Count(count) => {
                value.write(count as u64);
                Some(())
            }
            other => at.refuse(&format!("asks for a count, and the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn real(context: *mut c_void, option: Text, value: *mut f64) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| match at.option(option, "number")? {
            OptionValue::Real(real) => {
                value.write(f64::from(real));
                Some(())
            }
            other => at.refuse(&format!("asks for a number, and the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn name(context: *mut c_void, option: Text, value: *mut Text) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| match at.option(option, "name")? {
            OptionValue::Name(name) => {
                value.write(Text::new(name));
                Some(())
            }
            other => at.refuse(&format!("asks for a name, and the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn size(context: *mut c_void, symbol: Text, value: *mut u64) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            let symbol = at.text(symbol, "a size")?;
            match at.parts.size(&symbol) {
                Some(size) => {
                    value.write(size as u64);
                    Some(())
                }
                None => at.refuse(&format!(
                    "asks for the size `{symbol}`, which is no dim of its roles, or which no tensor has given so far"
                )),
            }
        })
    }
}

unsafe extern "C" fn has(context: *mut c_void, role: Text, which: u32) -> i32 {
    let mut found = 0;
    let asked = |at: &mut Building<'_>| {
        let (role, which) = (at.role(role)?, at.which(which)?);
        found = i32::from(at.parts.has(&role, which));
        Some(())
    };
    // SAFETY: as in `count`.
    unsafe { within(context, asked) };
    found
}

unsafe extern "C" fn weight(context: *mut c_void, role: Text, which: u32, tensor: *mut Tensor) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            let role = at.role(role)?;
            if which != part::MAIN {
                return at.refuse(&format!(
                    "asks for the bias of `{role}` as it is stored; its values can be had"
                ));
            }
            let shape = at.shape(&role);
            let weight = at.parts.weight(&role)?;
            let count = weight.shape().count;
            let (first, last) = (weight.matrix(0), weight.matrix(count.saturating_sub(1)));
            let (Ok(first), Ok(last)) = (first, last) else {
                return at.refuse(&format!("asks for `{role}`, which is empty"));
            };
            let bytes = first.len() * count;
            // Experts that a file keeps apart do not follow each other.
            if first.as_ptr().wrapping_add(bytes - last.len()) != last.as_ptr() {
                return at
                    .refuse(&format!("asks for the bytes of `{role}`, whose matrices the file keeps apart"));
            }
            tensor.write(read_only(first.as_ptr(), bytes, dtype_of(weight.block()), &shape));
            at.kept.weights.push(weight);
            Some(())
        })
    }
}

unsafe extern "C" fn values(context: *mut c_void, role: Text, which: u32, tensor: *mut Tensor) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            let (role, which) = (at.role(role)?, at.which(which)?);
            let shape = if which == Part::Main { at.shape(&role) } else { Vec::new() };
            let values = at.parts.values(&role, which)?;
            let flat = [values.len() as u64];
            let shape =
                if shape.iter().product::<u64>() == flat[0] && !shape.is_empty() { &*shape } else { &flat };
            tensor.write(read_only(values.as_ptr().cast(), size_of_val(&*values), dtype::F32, shape));
            at.kept.values.push(values);
            Some(())
        })
    }
}

unsafe extern "C" fn linear(context: *mut c_void, role: Text, linear: *mut abi::Linear) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            let role = at.role(role)?;
            if matches!(at.described.work, Work::Activation(_) | Work::Rope(_)) {
                return at.refuse(&format!("asks for the linear `{role}`, which it could not compute with"));
            }
            let made = at.parts.linear(&role)?;
            let (inputs, outputs) = (made.in_features(), made.out_features());
            let number = at.kept.linears.len() as u32;
            linear.write(abi::Linear { number, padding: 0, inputs: inputs as u64, outputs: outputs as u64 });
            at.kept.linears.push(KeptLinear { linear: made, inputs, outputs });
            Some(())
        })
    }
}

unsafe extern "C" fn declare_state(
    context: *mut c_void,
    state: *const abi::StateSpec,
    number: *mut u32,
) -> Status {
    // SAFETY: as in `count`; `state` can be read.
    unsafe {
        within(context, |at| {
            at.sees_sequences("a state")?;
            let given = addr_of!(*state).read();
            let spec = at.state_spec(&given)?;
            let id = at.parts.states().declare(spec.clone());
            number.write(at.kept.states.len() as u32);
            at.kept.states.push(KeptState { id, spec });
            Some(())
        })
    }
}

unsafe extern "C" fn slot(
    context: *mut c_void,
    name: Text,
    width: u64,
    writes: *mut u32,
    number: *mut u32,
) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            at.sees_sequences("a slot")?;
            let name = at.text(name, "a slot")?;
            let Some(width) = usize::try_from(width).ok().filter(|width| *width > 0) else {
                return at.refuse(&format!("asks for the slot `{name}` of {width} elements"));
            };
            let declared = at.parts.slots().declare(&name, width);
            let (id, how) = match declared {
                Ok(slot) => slot,
                Err(error) => {
                    at.parts.fault(&error.to_string());
                    return None;
                }
            };
            writes.write(u32::from(how == SlotUse::Writes));
            number.write(at.kept.slots.len() as u32);
            at.kept.slots.push(KeptSlot { id, how, width });
            Some(())
        })
    }
}
