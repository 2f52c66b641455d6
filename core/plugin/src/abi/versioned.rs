//! [`Versioned`]: structs that later versions add fields to, and how one of any version is read.

use super::{
    ABI_MAJOR, Build, Call, Component, DecodeCall, EncodeCall, FrequencyCall, Header, HookCall, HostApi,
    Registrar, SampleCall, Vocabulary,
};
use std::fmt;
use std::mem::offset_of;

/// A struct that begins with a [`Header`] and has fields added at its end by later minor versions.
///
/// # Safety
/// It is `repr(C)`, begins with a [`Header`], and fields behind the first `FIRST_SIZE` bytes may be all zeros.
pub unsafe trait Versioned: Copy {
    /// Its name, for errors.
    const NAME: &'static str;
    /// Bytes of it in version 1.0.
    const FIRST_SIZE: usize;
}

/// Why a struct of the other side cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// There is none.
    Null {
        /// What was to be read.
        name: &'static str,
    },
    /// It is of another major version.
    Major {
        /// What was to be read.
        name: &'static str,
        /// Its version.
        major: u16,
    },
    /// It has fewer bytes than any version has.
    Short {
        /// What was to be read.
        name: &'static str,
        /// Bytes it has.
        size: u32,
        /// Bytes it must have.
        least: usize,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Null { name } => {
                write!(f, "the other side of the plugin ABI passed a null pointer for {name}")
            }
            Self::Major { name, major } => {
                write!(f, "expected a struct {name} of plugin ABI {ABI_MAJOR}, found ABI {major}")
            }
            Self::Short { name, size, least } => {
                write!(f, "expected a struct {name} of at least {least} bytes, found {size}")
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// A struct of this version, borrowed.
///
/// # Errors
/// [`Unreadable`]; among others of a struct that an older minor version has written and this one has added fields to:
/// [`copied`] reads these.
///
/// # Safety
/// Null, or a struct that lives for `'a` and whose header is correct.
pub unsafe fn checked<'a, T: Versioned>(pointer: *const T) -> Result<&'a T, Unreadable> {
    // SAFETY: the caller's promise.
    unsafe { header(pointer, size_of::<T>())? };
    // SAFETY: it has all bytes of the type, whose fields are valid, says its header.
    Ok(unsafe { &*pointer })
}

/// A struct of any minor version: what its writer did not know is zero, what this version does not know is left out.
///
/// # Errors
/// [`Unreadable`].
///
/// # Safety
/// Null, or a struct whose header is correct.
pub unsafe fn copied<T: Versioned>(pointer: *const T) -> Result<T, Unreadable> {
    // SAFETY: the caller's promise.
    let size = unsafe { header(pointer, T::FIRST_SIZE)? } as usize;
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: so many bytes are there on both sides; the rest may be zero, says `Versioned`.
    unsafe {
        let bytes = size.min(size_of::<T>());
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), bytes);
        Ok(value.assume_init())
    }
}

/// The size that a struct's header tells.
///
/// # Safety
/// Null, or a header.
unsafe fn header<T: Versioned>(pointer: *const T, least: usize) -> Result<u32, Unreadable> {
    let name = T::NAME;
    if pointer.is_null() {
        return Err(Unreadable::Null { name });
    }
    // SAFETY: the caller's promise; every such struct begins with a header.
    let Header { struct_size, abi_major, .. } = unsafe { *pointer.cast::<Header>() };
    if abi_major != ABI_MAJOR {
        return Err(Unreadable::Major { name, major: abi_major });
    }
    if (struct_size as usize) < least {
        return Err(Unreadable::Short { name, size: struct_size, least });
    }
    Ok(struct_size)
}

macro_rules! versioned {
    ($($name:ident),+ $(,)?) => {
        $(
            // SAFETY: `repr(C)` with a header first; this is the first version, so nothing follows its first size.
            unsafe impl Versioned for $name {
                const NAME: &'static str = stringify!($name);
                const FIRST_SIZE: usize = size_of::<$name>();
            }
        )+
    };
}

versioned!(
    Build,
    Call,
    DecodeCall,
    EncodeCall,
    FrequencyCall,
    HookCall,
    HostApi,
    Registrar,
    SampleCall,
    Vocabulary
);

// SAFETY: `repr(C)` with a header first; what was added is a function that may be null.
unsafe impl Versioned for Component {
    const NAME: &'static str = "Component";
    const FIRST_SIZE: usize = offset_of!(Component, hook);
}
