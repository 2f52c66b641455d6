//! The host's side of [`abi::Build`]: passes the parts of a component to `create`.

use crate::component::{ComponentDescription, FamilyFunctions};
use crate::instance::{Instance, InstanceLinear, InstanceParts, InstanceSlot, InstanceState};
use crate::plugin::CallFailure;
use crate::texts;
use gguf_file::GgmlType;
use menagerie_model::{SlotUse, StateSpec};
use menagerie_plugin::abi::{self, ERROR, Header, OK, Status, Tensor, Text, dtype, part};
use menagerie_registry::{BuildResult, ComponentParts, ReportedFault, TensorPart};
use menagerie_spec::kind::{Component as Config, OptionValue};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{addr_of, null, null_mut};

/// A running call of `create`.
struct InstanceBuild<'a> {
    described: &'static ComponentDescription,
    config: &'a Config,
    parts: &'a mut dyn ComponentParts,
    /// Role of the tensors of a norm; empty for other families.
    role: &'a str,
    kept: InstanceParts,
    /// The first fault of a callback.
    fault: Option<ReportedFault>,
}

/// Creates an instance.
///
/// # Errors
/// The reported fault.
pub(crate) fn create(
    described: &'static ComponentDescription,
    config: &Config,
    parts: &mut dyn ComponentParts,
    (role, width): (&str, usize),
) -> BuildResult<Instance> {
    described.record.check().map_err(|why| parts.fault(&why))?;
    let layer = parts.layer().and_then(|layer| i64::try_from(layer).ok()).unwrap_or(-1);
    let layers = parts.layers() as u64;
    let mut building =
        InstanceBuild { described, config, parts, role, kept: InstanceParts::default(), fault: None };
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
    let InstanceBuild { kept, fault, parts, .. } = building;
    let reason = match (described.record.judge(status, "create"), fault) {
        (Ok(()), None) => return Ok(Instance::new(described, handle, kept)),
        (Ok(()), Some(fault)) => {
            // The plugin created an instance in spite of the fault.
            drop(Instance::new(described, handle, kept));
            return Err(fault);
        }
        (Err(CallFailure::Failed(_)), Some(fault)) => return Err(fault),
        (Err(CallFailure::Failed(reason) | CallFailure::Broke(reason)), _) => reason,
    };
    Err(parts.fault(&format!("component `{}`: {reason}", described.name)))
}

/// Runs a callback of `create`; panics of the host do not unwind into the plugin.
///
/// # Safety
/// `context` is that of an [`InstanceBuild`] whose `create` is running on this thread.
unsafe fn within(
    context: *mut c_void,
    work: impl FnOnce(&mut InstanceBuild<'_>) -> BuildResult<()>,
) -> Status {
    // SAFETY: as this function asks; nobody else uses it during the callback.
    let building = unsafe { &mut *context.cast::<InstanceBuild<'_>>() };
    match catch_unwind(AssertUnwindSafe(|| work(building))) {
        Ok(Ok(())) => OK,
        Ok(Err(fault)) => {
            building.fault.get_or_insert(fault);
            ERROR
        }
        Err(_) => {
            let fault = building
                .parts
                .fault("the host panicked during a request of a plugin (a defect: please report it)");
            building.fault.get_or_insert(fault);
            ERROR
        }
    }
}

impl InstanceBuild<'_> {
    /// Refuses a request of the plugin.
    fn refuse<T>(&mut self, why: &str) -> BuildResult<T> {
        let text = format!("component `{}` {why} (a defect of the plugin)", self.described.name);
        Err(self.parts.fault(&text))
    }

    /// The text of an option, role or symbol.
    fn text(&mut self, text: Text, what: &str) -> BuildResult<String> {
        // SAFETY: texts of a plugin are there, by the ABI.
        match unsafe { texts::name(text) } {
            Ok(text) => Ok(text),
            Err(fault) => self.refuse(&format!("requests {what} whose name is {fault}")),
        }
    }

    /// A role as in files: the tensors of a norm have the role of its place.
    fn role(&mut self, role: Text) -> BuildResult<String> {
        let role = self.text(role, "a role")?;
        Ok(if role.is_empty() { self.role.to_owned() } else { role })
    }

    fn option(&mut self, option: Text, kind: &str) -> BuildResult<OptionValue> {
        let option = self.text(option, "an option")?;
        match self.config.as_made().and_then(|made| made.get(&option)) {
            Some(value) => Ok(value),
            None => self.refuse(&format!("requests the {kind} `{option}`, which is not among its options")),
        }
    }

    fn which(&mut self, which: u32) -> BuildResult<TensorPart> {
        match which {
            part::MAIN => Ok(TensorPart::Main),
            part::BIAS => Ok(TensorPart::Bias),
            other => self.refuse(&format!("requests part {other} of a role")),
        }
    }

    /// Elements of a role's tensor, the slowest dimension first.
    fn shape(&self, role: &str) -> Vec<u64> {
        self.parts.dims(role).map(|dims| dims.iter().rev().copied().collect()).unwrap_or_default()
    }

    /// Refuses requests that need sequences, for families without access to sequences.
    fn sees_sequences(&mut self, what: &str) -> BuildResult<()> {
        match self.described.work {
            FamilyFunctions::Mixer(_) | FamilyFunctions::FeedForward(_) => Ok(()),
            other => self.refuse(&format!("requests {what}, which a {} cannot have", other.family())),
        }
    }

    fn state_spec(&mut self, given: &abi::StateSpec) -> BuildResult<StateSpec> {
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
            (abi::StateSpec::PER_SEQUENCE, _) => Ok(StateSpec::PerSequence { name, shape: sizes }),
            (abi::StateSpec::PER_TOKEN, &[heads, head_dim]) => {
                let window = usize::try_from(given.window).ok().filter(|window| *window > 0);
                Ok(StateSpec::PerToken { name, dtype: None, heads, head_dim, window })
            }
            (abi::StateSpec::PER_TOKEN, _) => self.refuse(&format!(
                "declares the state `{name}` per token with other dimensions than [heads, elements of a head]"
            )),
            (other, _) => self.refuse(&format!("declares the state `{name}` of kind {other}")),
        }
    }
}

/// The descriptor of read-only memory.
pub(crate) fn read_only(data: *const u8, byte_len: usize, kind: u32, shape: &[u64]) -> Tensor {
    Tensor::dense(data.cast_mut().cast(), byte_len, kind, shape, Tensor::READ_ONLY)
}

/// The number of a GGML type in the ABI.
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
                Ok(())
            }
            other => at.refuse(&format!("requests a count, but the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn real(context: *mut c_void, option: Text, value: *mut f64) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| match at.option(option, "number")? {
            OptionValue::Real(real) => {
                value.write(f64::from(real));
                Ok(())
            }
            other => at.refuse(&format!("requests a number, but the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn name(context: *mut c_void, option: Text, value: *mut Text) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| match at.option(option, "name")? {
            OptionValue::Name(name) => {
                value.write(Text::new(name));
                Ok(())
            }
            other => at.refuse(&format!("requests a name, but the option is {other:?}")),
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
                    Ok(())
                }
                None => at.refuse(&format!(
                    "requests the size `{symbol}`, which is not a dim of its roles or is not bound by a tensor yet"
                )),
            }
        })
    }
}

unsafe extern "C" fn has(context: *mut c_void, role: Text, which: u32) -> i32 {
    let mut found = 0;
    let asked = |at: &mut InstanceBuild<'_>| {
        let (role, which) = (at.role(role)?, at.which(which)?);
        found = i32::from(at.parts.has(&role, which));
        Ok(())
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
                    "requests the stored bytes of the bias of `{role}`; only its values are available"
                ));
            }
            let shape = at.shape(&role);
            let weight = at.parts.weight(&role)?;
            let count = weight.shape().count;
            let (first, last) = (weight.matrix(0), weight.matrix(count.saturating_sub(1)));
            let (Ok(first), Ok(last)) = (first, last) else {
                return at.refuse(&format!("requests `{role}`, which is empty"));
            };
            let bytes = first.len() * count;
            // Experts that a file stores separately are not contiguous.
            if first.as_ptr().wrapping_add(bytes - last.len()) != last.as_ptr() {
                return at.refuse(&format!(
                    "requests the bytes of `{role}`, whose matrices are not contiguous in the file"
                ));
            }
            tensor.write(read_only(first.as_ptr(), bytes, dtype_of(weight.block()), &shape));
            at.kept.weights.push(weight);
            Ok(())
        })
    }
}

unsafe extern "C" fn values(context: *mut c_void, role: Text, which: u32, tensor: *mut Tensor) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            let (role, which) = (at.role(role)?, at.which(which)?);
            let shape = if which == TensorPart::Main { at.shape(&role) } else { Vec::new() };
            let values = at.parts.values(&role, which)?;
            let flat = [values.len() as u64];
            let shape =
                if shape.iter().product::<u64>() == flat[0] && !shape.is_empty() { &*shape } else { &flat };
            tensor.write(read_only(values.as_ptr().cast(), size_of_val(&*values), dtype::F32, shape));
            at.kept.values.push(values);
            Ok(())
        })
    }
}

unsafe extern "C" fn linear(context: *mut c_void, role: Text, linear: *mut abi::Linear) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |at| {
            let role = at.role(role)?;
            if matches!(at.described.work, FamilyFunctions::Activation(_) | FamilyFunctions::Rope(_)) {
                return at.refuse(&format!("requests the linear `{role}`, which its family cannot use"));
            }
            let made = at.parts.linear(&role)?;
            let (inputs, outputs) = (made.in_features(), made.out_features());
            let number = at.kept.linears.len() as u32;
            linear.write(abi::Linear { number, padding: 0, inputs: inputs as u64, outputs: outputs as u64 });
            at.kept.linears.push(InstanceLinear { linear: made, inputs, outputs });
            Ok(())
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
            at.kept.states.push(InstanceState { id, spec });
            Ok(())
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
                return at.refuse(&format!("requests the slot `{name}` of {width} elements"));
            };
            let declared = at.parts.slots().declare(&name, width);
            let (id, how) = match declared {
                Ok(slot) => slot,
                Err(error) => return Err(at.parts.fault(&error.to_string())),
            };
            writes.write(u32::from(how == SlotUse::Writes));
            number.write(at.kept.slots.len() as u32);
            at.kept.slots.push(InstanceSlot { id, how, width });
            Ok(())
        })
    }
}
