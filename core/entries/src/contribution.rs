//! [`Contribution`]: what one crate registers, collected at link time.

use crate::entries::{DuplicateName, Entries};

/// An entry that a linked crate registers, whatever its family; [`register!`](crate::register) makes one.
#[doc(hidden)]
pub struct Contribution(fn(&mut Entries) -> Result<(), DuplicateName>);

impl Contribution {
    /// The contribution of this function.
    #[doc(hidden)]
    pub const fn new(add: fn(&mut Entries) -> Result<(), DuplicateName>) -> Self {
        Self(add)
    }
}

inventory::collect!(Contribution);

impl Entries {
    /// The entries that the crates of this program register with [`register!`](crate::register), each family by name.
    ///
    /// # Errors
    /// A name that two crates register in one family.
    pub fn linked() -> Result<Self, DuplicateName> {
        let mut entries = Self::default();
        inventory::iter::<Contribution>.into_iter().try_for_each(|one| (one.0)(&mut entries))?;
        entries.sort();
        Ok(entries)
    }
}

/// Registers an [`Entry`](crate::Entry) of this crate in every program that links the crate: `register!(Architecture { .. })`.
#[macro_export]
macro_rules! register {
    ($entry:expr) => {
        $crate::inventory::submit! { $crate::Contribution::new(|entries| entries.add($entry)) }
    };
}
