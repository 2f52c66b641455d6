//! What no layer hook may do, done where a test asks for it.

use crate::rogue::Manner;
use menagerie_plugin::abi::{self, HookCall, Status};
use menagerie_plugin::{Build, Component, Error, LayerCall, LayerReplacer, Result, RowsMut, options};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

options! {
    /// Options of `misbehaving-hook`.
    pub(crate) struct MisbehavingHookOptions {
        /// What it does.
        how: Manner = Required,
    }
}

/// A hook that leaves rows as they are, or misbehaves.
pub(crate) struct MisbehavingHook {
    how: Manner,
    calls: AtomicU32,
}

impl Component for MisbehavingHook {
    const NAME: &'static str = "misbehaving-hook";
    const DOC: &'static str = "Rows as they are, or nonsense.";
    type Options = MisbehavingHookOptions;

    fn create(options: MisbehavingHookOptions, build: &mut Build) -> Result<Self> {
        match options.how {
            Manner::PanicInCreate => panic!("create panics"),
            Manner::AskForState => drop(build.state("mine", &[3])?),
            _ => {}
        }
        Ok(Self { how: options.how, calls: AtomicU32::new(0) })
    }
}

impl LayerReplacer for MisbehavingHook {
    fn replace(&self, call: LayerCall, mut output: RowsMut) -> Result<()> {
        let last = call.x.rows() - 1;
        if self.how != Manner::WriteNothing {
            output.copy_from(call.x)?;
        }
        match self.how {
            Manner::Panic => panic!("layer {} is not to its taste", call.layer),
            Manner::PanicTwice => std::panic::panic_any(crate::rogue::Bomb),
            Manner::Fail => return Err(Error::new("it is not a good day")),
            Manner::NanFirst => output.row_mut(0)[1] = f32::NAN,
            Manner::NanLast => output.row_mut(last)[2] = f32::INFINITY,
            Manner::Remember => {
                let calls = self.calls.fetch_add(1, Ordering::Relaxed);
                output.row_mut(0).iter_mut().for_each(|y| *y += calls as f32);
            }
            _ => {}
        }
        Ok(())
    }
}

/// An observer that writes into the rows that it is shown.
pub(crate) unsafe extern "C" fn scribble(_instance: *mut c_void, call: *const HookCall) -> Status {
    // SAFETY: the ABI: call and rows are there; that they are read only is what this breaks.
    unsafe {
        let x = &*(*(*call).call).inputs;
        x.data.cast::<f32>().write(7.0);
    }
    abi::OK
}
