//! [`BlockAddress`]: the name of a block, which stands for everything that its content depends on.

use crate::identity::StateIdentity;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The version of the files and of the way they are named.
pub(super) const FORMAT: u32 = 1;

/// Digits of the name of a group.
pub(super) const GROUP_DIGITS: usize = 32;

/// SHA-256 of everything that the state of a block depends on: the root, and all tokens up to the end of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAddress(pub(super) [u8; 32]);

/// What all blocks of a kind of request have in common.
#[derive(Serialize)]
pub(crate) struct AddressRoot<'a> {
    /// Weights, spec, adapters, arithmetic, hooks, plugins, the type of keys and values.
    pub(crate) identity: &'a StateIdentity,
    /// The rope regime of the keys.
    pub(crate) regime: &'a str,
    /// Names, sizes and windows of the states, and tokens of a block.
    pub(crate) layout: &'a str,
    /// Separates users.
    pub(crate) salt: Option<&'a str>,
}

impl AddressRoot<'_> {
    /// The address of the empty sequence.
    ///
    /// # Errors
    /// A number that JSON cannot represent, such as an adapter's weight of infinity.
    pub(crate) fn address(&self) -> Result<BlockAddress, serde_json::Error> {
        let json = serde_json::to_vec(self)?;
        let mut hash = Sha256::new();
        hash.update(format!("menagerie prefix cache {FORMAT}\n"));
        hash.update(json);
        Ok(BlockAddress(hash.finalize().into()))
    }
}

impl BlockAddress {
    /// The address of the block of these tokens after this one.
    pub(crate) fn next(self, tokens: &[u32]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        tokens.iter().for_each(|id| hash.update(id.to_le_bytes()));
        Self(hash.finalize().into())
    }

    /// The name of the folder of all blocks of this root.
    pub(crate) fn group(self) -> String {
        let mut digits = self.hex();
        digits.truncate(GROUP_DIGITS);
        digits
    }

    /// As hexadecimal digits.
    pub(super) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
