//! Tokenizers of plugins as codecs.

use crate::component::{ComponentDescription, Decode, Encode};
use crate::detached::{self, DetachedContext, DetachedInstance};
use crate::sampler::reason;
use crate::texts::{self, MOST_FILE};
use menagerie_loaders::{CodecKind, CodecVocabulary, TextCodec};
use menagerie_plugin::abi::{DecodeCall, ERROR, EncodeCall, Header, OK, Status, Text};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A tokenizer, which tables can name.
pub(crate) struct PluginTokenizer {
    pub(crate) described: &'static ComponentDescription,
    pub(crate) encode: Encode,
    pub(crate) decode: Decode,
}

/// An instance over a vocabulary.
struct PluginCodec {
    detached: DetachedInstance,
    encode: Encode,
    decode: Decode,
}

impl CodecKind for PluginTokenizer {
    fn name(&self) -> &str {
        self.described.name
    }

    fn registered_by(&self) -> &str {
        self.described.record.shown
    }

    fn build(
        &self,
        vocabulary: Arc<CodecVocabulary>,
        options: &[(String, String)],
    ) -> Result<Box<dyn TextCodec>, String> {
        let values = detached::values(self.described, options)?;
        let beside = DetachedContext { vocabulary: Some(vocabulary), ..DetachedContext::default() };
        let detached = DetachedInstance::new(self.described, &values, beside)?;
        Ok(Box::new(PluginCodec { detached, encode: self.encode, decode: self.decode }))
    }
}

impl TextCodec for PluginCodec {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), String> {
        let call = EncodeCall {
            header: Header::of::<EncodeCall>(),
            text: Text::new(text),
            context: std::ptr::from_mut(out).cast(),
            push: push_id,
        };
        // SAFETY: the plugin's function of this instance; text and list outlive the call.
        let called = self.detached.instance.call("encode", |handle| unsafe { (self.encode)(handle, &call) });
        called.map_err(reason)
    }

    fn decode(&self, id: u32, out: &mut Vec<u8>) -> Result<(), String> {
        let call = DecodeCall {
            header: Header::of::<DecodeCall>(),
            id,
            padding: 0,
            context: std::ptr::from_mut(out).cast(),
            push: push_bytes,
        };
        // SAFETY: as in `encode`.
        let called = self.detached.instance.call("decode", |handle| unsafe { (self.decode)(handle, &call) });
        called.map_err(reason)
    }
}

unsafe extern "C" fn push_id(context: *mut c_void, id: u32) -> Status {
    // SAFETY: the ABI: `context` is that of a call under way on this thread.
    let ids = unsafe { &mut *context.cast::<Vec<u32>>() };
    pushed(|| ids.push(id))
}

unsafe extern "C" fn push_bytes(context: *mut c_void, bytes: Text) -> Status {
    if bytes.len == 0 {
        return OK;
    }
    if bytes.data.is_null() || bytes.len > MOST_FILE {
        let why = format!("a piece of {} bytes at {:?} is not valid", bytes.len, bytes.data);
        // SAFETY: a text of the host's.
        unsafe { texts::say(Text::new(&why)) };
        return ERROR;
    }
    // SAFETY: the ABI: the bytes are there; `context` is that of a call under way on this thread.
    let (bytes, out) =
        unsafe { (std::slice::from_raw_parts(bytes.data, bytes.len), &mut *context.cast::<Vec<u8>>()) };
    pushed(|| out.extend_from_slice(bytes))
}

/// Panics of the host do not unwind into the plugin.
fn pushed(push: impl FnOnce()) -> Status {
    if catch_unwind(AssertUnwindSafe(push)).is_ok() { OK } else { ERROR }
}
