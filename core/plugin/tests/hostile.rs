//! Descriptors that are no arrays: a call with any of them is refused with a text, and nothing outside the arrays is touched.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_plugin::abi::{self, ABI_MAJOR, Header, Status, Tensor, Text, device, dtype};
use menagerie_plugin::testing::{self, RandomNumbers, take_errors};
use menagerie_plugin::{Build, Call, Component, FeedForward, Raw, Result, Slot, State};
use std::ffi::c_void;

const WIDTH: usize = 3;
const ROWS: usize = 5;
/// Around every array.
const EDGE: usize = 64;
const UNTOUCHED: f32 = -12345.0;

/// Reads and writes everything that a call has.
struct Everything {
    state: State,
    slots: [Slot; 2],
}

impl Component for Everything {
    const NAME: &'static str = "everything";
    const DOC: &'static str = "Reads and writes all of a call.";
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let state = build.state("s", &[2, WIDTH])?;
        Ok(Self { state, slots: [build.slot("written", WIDTH)?, build.slot("read", WIDTH)?] })
    }
}

impl FeedForward for Everything {
    fn forward(&self, call: Call, raw: Raw) -> Result<()> {
        let Call { x, mut output, sequences, mut states, mut slots, token_ids, host, .. } = call;
        for slot in &self.slots {
            match slot {
                Slot::Writes(slot) => slots.write(slot)?.copy_from(x)?,
                Slot::Reads(slot) => output.copy_from(slots.read(slot)?)?,
            }
        }
        let ids: u32 = token_ids.map_or(0, |ids| ids.iter().sum());
        for (index, sequence) in sequences.iter().enumerate() {
            let positions: u32 = sequence.positions().iter().sum();
            for (row, state) in
                sequence.rows().zip(states.get_mut(index, &self.state)?.chunks_exact_mut(WIDTH))
            {
                let all = raw.stream.row(row).iter().zip(raw.block.row(row)).zip(x.row(row));
                for ((state, y), ((stream, block), x)) in state.iter_mut().zip(output.row_mut(row)).zip(all) {
                    *state += x;
                    *y += stream + block + (positions + ids) as f32;
                }
            }
        }
        let parts = (output.tiles(&sequences, 1)?, states.chunks(&self.state, 2)?);
        host.parallel_over(parts, |_, (mut tile, state)| {
            for row in 0..tile.rows() {
                tile.row_mut(row).iter_mut().zip(state.iter()).for_each(|(y, state)| *y += state);
            }
        })
    }
}

/// Numbers with something around them that nobody may touch.
struct Guarded(Vec<f32>);

impl Guarded {
    fn new(len: usize) -> Self {
        let mut all = vec![UNTOUCHED; len + 2 * EDGE];
        all[EDGE..EDGE + len].fill(1.0);
        Self(all)
    }

    fn tensor(&mut self, shape: &[usize], flags: u64) -> Tensor {
        let len: usize = shape.iter().product();
        let mut tensor = Tensor {
            data: self.0[EDGE..].as_mut_ptr().cast(),
            byte_len: (len * 4) as u64,
            dtype: dtype::F32,
            device_type: device::CPU,
            device_id: 0,
            ndim: shape.len() as u32,
            shape: [0; 6],
            strides: [0; 6],
            flags,
        };
        let mut stride = 1;
        for (at, size) in shape.iter().enumerate().rev() {
            (tensor.shape[at], tensor.strides[at]) = (*size as i64, stride as i64);
            stride *= size;
        }
        tensor
    }

    fn is_whole(&self) -> bool {
        let edges = self.0[..EDGE].iter().chain(&self.0[self.0.len() - EDGE..]);
        edges.into_iter().all(|x| x.to_bits() == UNTOUCHED.to_bits())
    }
}

/// What a call leads to, before it is spoilt.
struct Parts {
    header: Header,
    inputs: Vec<Tensor>,
    output: Vec<Tensor>,
    sequences: Vec<abi::Sequence>,
    states: Vec<Tensor>,
    slots: Vec<Tensor>,
    counts: [usize; 6],
}

unsafe extern "C" fn no_linear(_: *mut c_void, _: u32, _: *const Tensor, _: *const Tensor) -> Status {
    abi::ERROR
}

unsafe extern "C" fn one_by_one(
    _: *mut c_void,
    n: u64,
    body: unsafe extern "C" fn(*mut c_void, u64),
    argument: *mut c_void,
) -> Status {
    // Some that there are not, too.
    // SAFETY: the body is there for the call.
    (0..n + 3).for_each(|index| unsafe { body(argument, index) });
    abi::OK
}

unsafe extern "C" fn no_scratch(_: *mut c_void, _: u64, _: u64) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn no_store(_: *mut c_void, _: u32, _: *const Tensor) -> Status {
    abi::ERROR
}

unsafe extern "C" fn not_stored(_: *mut c_void, _: u32, _: u64, _: u64, _: *const Tensor) -> Status {
    abi::ERROR
}

impl Parts {
    fn call(&self, ids: &[u32]) -> abi::Call {
        let [inputs, outputs, sequences, states, slots, nulls] = self.counts;
        let or_null =
            |bit: usize, pointer: *const Tensor| if nulls == bit { std::ptr::null() } else { pointer };
        abi::Call {
            header: self.header,
            inputs: or_null(1, self.inputs.as_ptr()),
            n_inputs: inputs,
            outputs: or_null(2, self.output.as_ptr()),
            n_outputs: outputs,
            sequences: if nulls == 3 { std::ptr::null() } else { self.sequences.as_ptr() },
            n_sequences: sequences,
            states: or_null(4, self.states.as_ptr()),
            n_states: states,
            slots: or_null(5, self.slots.as_ptr()),
            n_slots: slots,
            token_ids: ids.as_ptr(),
            threads: 0,
            context: std::ptr::null_mut(),
            linear: no_linear,
            parallel_for: one_by_one,
            scratch: no_scratch,
            store: no_store,
            stored: not_stored,
        }
    }

    /// Changes something of it into what no honest host gives, or into what is fine. No descriptor tells of more memory than
    /// there is: that nobody can see.
    fn spoil(&mut self, numbers: &mut RandomNumbers) {
        let which = numbers.below(9);
        let lists = [&mut self.inputs, &mut self.output, &mut self.states, &mut self.slots];
        match which {
            0..=5 => {
                let list = lists.into_iter().nth(numbers.below(4) as usize).unwrap();
                let index = numbers.below(list.len() as u64) as usize;
                spoil_tensor(&mut list[index], numbers);
            }
            6 => {
                let sequence = &mut self.sequences[numbers.below(2) as usize];
                match numbers.below(4) {
                    0 => sequence.first_row = odd(numbers) as u64,
                    1 => sequence.rows = odd(numbers) as u64,
                    2 => sequence.positions = std::ptr::null(),
                    _ => sequence.axes = 0,
                }
            }
            7 => {
                let index = numbers.below(5) as usize;
                self.counts[index] = numbers.below(self.counts[index] as u64) as usize;
            }
            _ => match numbers.below(3) {
                0 => self.header.struct_size = numbers.below(152) as u32,
                1 => self.header.abi_major = numbers.below(4) as u16,
                _ => self.counts[5] = 1 + numbers.below(5) as usize,
            },
        }
    }
}

/// Numbers at which arithmetic goes wrong, and small ones.
fn odd(numbers: &mut RandomNumbers) -> i64 {
    let all = [0, 1, 2, 3, 5, -1, -3, i64::MIN, i64::MAX, i64::MAX / 2, 1 << 32, 1 << 62];
    all[numbers.below(all.len() as u64) as usize]
}

fn spoil_tensor(tensor: &mut Tensor, numbers: &mut RandomNumbers) {
    let at = numbers.below(6) as usize;
    match numbers.below(9) {
        0 => tensor.dtype = numbers.below(0x120) as u32,
        1 => tensor.device_type = numbers.below(3) as u32,
        2 => tensor.ndim = odd(numbers) as u32,
        3 => tensor.shape[at % 2] = odd(numbers),
        4 => tensor.strides[at % 2] = odd(numbers),
        5 => tensor.byte_len = numbers.below(tensor.byte_len.max(1)),
        6 => tensor.data = std::ptr::null_mut(),
        7 => {
            // Never to the next number: there the array would tell of more memory than there is.
            let back = tensor.data as usize % 4;
            tensor.data =
                tensor.data.wrapping_byte_sub(back).wrapping_byte_add(1 + numbers.below(3) as usize);
        }
        _ => tensor.flags ^= Tensor::READ_ONLY,
    }
}

/// Numbers are handed out in order.
unsafe extern "C" fn declare(context: *mut c_void, _: *const abi::StateSpec, number: *mut u32) -> Status {
    // SAFETY: the build's context is a number.
    unsafe {
        *number = *context.cast::<u32>();
        *context.cast::<u32>() += 1;
    }
    abi::OK
}

unsafe extern "C" fn slot(_: *mut c_void, name: Text, _: u64, writes: *mut u32, number: *mut u32) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        let written = name.as_str() == Some("written");
        (*writes, *number) = (u32::from(written), u32::from(!written));
    }
    abi::OK
}

/// An instance, made by hand: the host for tests cannot be told to lie.
fn instance(component: &abi::Component) -> *mut c_void {
    unsafe extern "C" fn no_count(_: *mut c_void, _: Text, _: *mut u64) -> Status {
        abi::ERROR
    }
    unsafe extern "C" fn no_real(_: *mut c_void, _: Text, _: *mut f64) -> Status {
        abi::ERROR
    }
    unsafe extern "C" fn no_name(_: *mut c_void, _: Text, _: *mut Text) -> Status {
        abi::ERROR
    }
    unsafe extern "C" fn has_not(_: *mut c_void, _: Text, _: u32) -> i32 {
        0
    }
    unsafe extern "C" fn no_tensor(_: *mut c_void, _: Text, _: u32, _: *mut Tensor) -> Status {
        abi::ERROR
    }
    unsafe extern "C" fn no_product(_: *mut c_void, _: Text, _: *mut abi::Linear) -> Status {
        abi::ERROR
    }
    let mut states = 0u32;
    let build = abi::Build {
        header: Header::of::<abi::Build>(),
        layer: 0,
        layers: 1,
        width: WIDTH as u64,
        context: (&raw mut states).cast(),
        count: no_count,
        real: no_real,
        name: no_name,
        size: no_count,
        has: has_not,
        weight: no_tensor,
        values: no_tensor,
        linear: no_product,
        declare_state: declare,
        slot,
        vocabulary: std::ptr::null(),
    };
    let mut made = std::ptr::null_mut();
    // SAFETY: the build is what the ABI says.
    assert_eq!(unsafe { (component.create)(&build, &mut made) }, abi::OK, "{:?}", take_errors());
    made
}

/// One call, spoilt in so many places: its status, and whether everything around the arrays is untouched.
fn call(
    component: &abi::Component,
    made: *mut c_void,
    numbers: &mut RandomNumbers,
    spoilt: usize,
) -> (Status, bool) {
    let mut arrays: Vec<Guarded> = (0..4).map(|_| Guarded::new(ROWS * WIDTH)).collect();
    let mut states: Vec<Guarded> = (0..2).map(|_| Guarded::new(2 * WIDTH)).collect();
    let mut slots: Vec<Guarded> = (0..2).map(|_| Guarded::new(ROWS * WIDTH)).collect();
    let (positions, ids) = ([0u32; ROWS], [1u32; ROWS]);
    let sequence = |first: u64, rows: u64| abi::Sequence {
        first_row: first,
        rows,
        past: 0,
        positions: positions.as_ptr(),
        axes: 1,
        decoding: 0,
        pool: 0,
        number: 0,
    };
    let rows = [ROWS, WIDTH];
    let (output, inputs) = arrays.split_first_mut().unwrap();
    let mut parts = Parts {
        header: Header { struct_size: 152, abi_major: ABI_MAJOR, abi_minor: 0 },
        inputs: inputs.iter_mut().map(|array| array.tensor(&rows, Tensor::READ_ONLY)).collect(),
        output: vec![output.tensor(&rows, 0)],
        sequences: vec![sequence(0, 2), sequence(2, 3)],
        states: states.iter_mut().map(|array| array.tensor(&[2, WIDTH], 0)).collect(),
        slots: vec![slots[0].tensor(&rows, 0), slots[1].tensor(&rows, Tensor::READ_ONLY)],
        counts: [3, 1, 2, 1, 2, 0],
    };
    for _ in 0..spoilt {
        parts.spoil(numbers);
    }
    // SAFETY: no descriptor tells of more memory than there is.
    let status = unsafe { component.forward.unwrap()(made, &parts.call(&ids)) };
    let whole = arrays.iter().chain(&states).chain(&slots).all(Guarded::is_whole);
    (status, whole)
}

#[test]
fn descriptors_that_are_no_arrays_are_refused() {
    let component = testing::feed_forward::<Everything>();
    // Takes the errors of this program.
    let _ = testing::Setup::new(WIDTH).create(&component);
    let made = instance(&component);
    let mut numbers = RandomNumbers::new(7);
    assert_eq!(call(&component, made, &mut numbers, 0), (abi::OK, true), "{:?}", take_errors());
    let rounds = if cfg!(miri) { 300 } else { 15_000 };
    let (mut refused, mut texts) = (0, std::collections::BTreeSet::new());
    for round in 0..rounds {
        let spoilt = 1 + numbers.below(3) as usize;
        let (status, whole) = call(&component, made, &mut numbers, spoilt);
        let text = take_errors();
        assert!(whole, "round {round}: something around an array was changed ({text:?})");
        match status {
            abi::OK => assert_eq!(text, None, "round {round}"),
            abi::ERROR => {
                refused += 1;
                let text = text.unwrap_or_else(|| panic!("round {round}: refused without a text"));
                texts.insert(
                    text.split_inclusive(char::is_alphabetic)
                        .filter(|part| !part.contains(char::is_numeric))
                        .collect::<String>(),
                );
            }
            other => panic!("round {round}: status {other} ({text:?})"),
        }
    }
    assert!(refused > rounds * 8 / 10, "only {refused} of {rounds} were refused");
    assert!(cfg!(miri) || texts.len() > 20, "{texts:#?}");
    // SAFETY: of its `create`, and not used any more; null is no instance and no call.
    let status = unsafe {
        (component.destroy)(made);
        (component.destroy)(std::ptr::null_mut());
        component.forward.unwrap()(std::ptr::null_mut(), std::ptr::null())
    };
    assert_eq!(status, abi::ERROR);
    assert_eq!(take_errors().unwrap(), "the host passed no instance");
}
