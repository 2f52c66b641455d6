//! [`StateFile`]: the state of a session, saved in a file.
//!
//! The file has the tokens, the cached keys and values in their type, recurrent states with their snapshots, and
//! optionally a conversation. A run that resumes it computes only what follows the prefix that its prompt shares with
//! those tokens, and generates the text that it would generate without the file: [`StateIdentity`] lists what must be
//! the same.

mod container;
mod error;
#[doc(hidden)]
pub mod fuzzing;

pub use error::StateFileError;

use crate::engine::Engine;
use crate::error::GenerateError;
use crate::identity::{Cacheable, StateIdentity};
use crate::message::ChatMessage;
use crate::scheduler::{StateRead, StateWrite};
use crate::sequence::{StateSection, StoredSequence};
use crate::session::Session;
use container::{ContainerFault, ContainerReader, ContainerWriter};
use menagerie_files::{AtomicFile, FileLock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file for the state of a session. While it is open, no other process can open it.
pub struct StateFile {
    path: PathBuf,
    identity: StateIdentity,
    /// The engine that computes the state.
    engine: Arc<Engine>,
    _lock: FileLock,
}

/// A conversation in a state file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedConversation {
    /// All messages.
    pub messages: Vec<ChatMessage>,
    /// The number of messages after the system messages that are dropped from the prompt.
    pub dropped: usize,
}

/// The content that was restored from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumedState {
    /// Tokens whose state was restored.
    pub tokens: usize,
    /// The conversation, if the file has one.
    pub conversation: Option<SavedConversation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateHeader {
    identity: StateIdentity,
    held: StoredSequence,
    conversation: Option<SavedConversation>,
}

/// An error of the transfer between a file and a pool.
enum TransferError {
    State(GenerateError),
    System(io::Error),
    ContainerFault(ContainerFault),
}

impl From<GenerateError> for TransferError {
    fn from(error: GenerateError) -> Self {
        Self::State(error)
    }
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<ContainerFault> for TransferError {
    fn from(fault: ContainerFault) -> Self {
        Self::ContainerFault(fault)
    }
}

impl TransferError {
    fn of(self, path: &Path, action: &'static str) -> StateFileError {
        match self {
            Self::State(error) => StateFileError::state(path, error),
            Self::System(error) => StateFileError::system(path, action, error),
            Self::ContainerFault(fault) => StateFileError::fault(path, fault),
        }
    }
}

type Reader = ContainerReader<BufReader<File>>;

impl StateFile {
    /// Opens the file at `path`, which need not exist yet, for sessions of `pipeline`. `plugins` names the loaded
    /// plugins, so that the file is not resumed with other code.
    ///
    /// # Errors
    /// The path is not a file, its folder is not writable, or another process has the file; the model, or something
    /// that changes it, cannot be recognized later.
    pub fn open(
        path: impl AsRef<Path>,
        pipeline: &impl Cacheable,
        plugins: Vec<String>,
    ) -> Result<Self, StateFileError> {
        let path = path.as_ref();
        if path.file_name().is_none() || path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(StateFileError::NoFile(path.display().to_string()));
        }
        let lock = FileLock::beside(path).map_err(|source| StateFileError::system(path, "lock", source))?;
        let lock = lock.ok_or_else(|| StateFileError::InUse(path.display().to_string()))?;
        pipeline.engine().check_readable().map_err(|error| StateFileError::state(path, error))?;
        let identity = pipeline.state_identity()?.with_plugins(plugins);
        Ok(Self { path: path.to_owned(), identity, engine: Arc::clone(pipeline.engine()), _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Restores the content of the file into the session; `None` if there is no file yet.
    ///
    /// # Errors
    /// The file is truncated, damaged or of another version; its state was computed differently or does not fit into
    /// the context. The session is then empty.
    pub fn load(&self, session: &mut Session) -> Result<Option<ResumedState>, StateFileError> {
        self.check(session)?;
        let loaded = self.read(session);
        if loaded.is_err() {
            let (scheduler, sequence) = session.parts_mut();
            scheduler.reset(sequence).map_err(|error| StateFileError::state(&self.path, error))?;
        }
        loaded
    }

    fn read(&self, session: &mut Session) -> Result<Option<ResumedState>, StateFileError> {
        let path = &*self.path;
        let Some((mut reader, StateHeader { identity, held, conversation })) = self.opened()? else {
            return Ok(None);
        };
        let differences = identity.differences(&self.identity);
        if !differences.is_empty() {
            return Err(StateFileError::Differs { file: path.display().to_string(), differences });
        }
        let context = session.engine().context;
        if held.tokens > context {
            let file = path.display().to_string();
            return Err(StateFileError::TooLong { file, tokens: held.tokens, context });
        }
        let (scheduler, sequence) = session.parts_mut();
        let now = scheduler.stored_sequence(sequence).map_err(|error| StateFileError::state(path, error))?;
        if let Some(fault) = held.fault(&now) {
            return Err(StateFileError::unreadable(path, fault));
        }
        let tokens = held.tokens;
        let mut give = |part: StateWrite| -> Result<(), TransferError> {
            match part {
                StateWrite::Begin(section) => reader.begin(section.name(), length(section, tokens)?)?,
                StateWrite::Bytes(bytes) => reader.bytes(bytes)?,
                StateWrite::End(section) => reader.check(section.name())?,
            }
            Ok(())
        };
        scheduler.write_state(sequence, &held, &mut give).map_err(|error| error.of(path, "read"))?;
        reader.end().map_err(|fault| StateFileError::fault(path, fault))?;
        Ok(Some(ResumedState { tokens, conversation }))
    }

    /// Saves the session in place of the old content, which stays complete until the new one is. Returns the bytes
    /// written.
    ///
    /// # Errors
    /// The file cannot be written; the old content is then unchanged.
    pub fn save(
        &self,
        session: &mut Session,
        conversation: Option<SavedConversation>,
    ) -> Result<u64, StateFileError> {
        let path = &*self.path;
        self.check(session)?;
        let (scheduler, sequence) = session.parts_mut();
        let held = scheduler.stored_sequence(sequence).map_err(|error| StateFileError::state(path, error))?;
        let header = StateHeader { identity: self.identity.clone(), held, conversation };
        let write = |source| StateFileError::system(path, "write", source);
        let bytes = serde_json::to_vec(&header)
            .map_err(|error| write(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let mut writer = ContainerWriter::new(AtomicFile::create(path)?, &bytes).map_err(write)?;
        let (held, mut written) = (header.held, bytes.len() as u64);
        let mut take = |part: StateRead| -> Result<(), TransferError> {
            match part {
                StateRead::Begin(section) => {
                    let length = length(section, held.tokens)?;
                    written = written.saturating_add(length);
                    writer.begin(length)?;
                }
                StateRead::Bytes(bytes) => writer.bytes(bytes)?,
                StateRead::End => writer.seal()?,
            }
            Ok(())
        };
        scheduler.read_state(sequence, &held, &mut take).map_err(|error| error.of(path, "write"))?;
        writer.into_inner().commit()?;
        Ok(written)
    }

    /// Opens the file and checks its header.
    fn opened(&self) -> Result<Option<(Reader, StateHeader)>, StateFileError> {
        let path = &*self.path;
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| StateFileError::system(path, "open", source))?,
        };
        let size = file.metadata().map_err(|source| StateFileError::system(path, "read", source))?.len();
        let input = BufReader::with_capacity(1 << 20, file);
        let (reader, header) =
            ContainerReader::new(input, size).map_err(|fault| StateFileError::fault(path, fault))?;
        let header = checked_header(&header).map_err(|reason| StateFileError::unreadable(path, reason))?;
        Ok(Some((reader, header)))
    }

    /// Checks that a session is of the pipeline, and has the adapters, that the file was opened for.
    fn check(&self, session: &Session) -> Result<(), StateFileError> {
        let engine = session.engine();
        let adapters = match (session.sequence().adapters(), &self.engine.adapters) {
            (None, None) => true,
            (Some(own), Some(known)) => own.is_same(known),
            _ => false,
        };
        if adapters && Arc::ptr_eq(&engine.model, &self.engine.model) && engine.kv_type == self.engine.kv_type
        {
            return Ok(());
        }
        Err(StateFileError::OtherSession(self.path.display().to_string()))
    }
}

/// The header from its bytes of JSON.
///
/// # Errors
/// Why it is invalid.
fn checked_header(json: &[u8]) -> Result<StateHeader, String> {
    let header: StateHeader = serde_json::from_slice(json).map_err(|error| format!("its header: {error}"))?;
    match &header.conversation {
        Some(one) if one.dropped > one.messages.len() => {
            Err("its conversation drops more messages than it has".to_owned())
        }
        _ => Ok(header),
    }
}

fn length(section: &StateSection, tokens: usize) -> Result<u64, ContainerFault> {
    let (what, expected) = (section.name(), "fewer".to_owned());
    section.bytes(tokens).ok_or(ContainerFault::Length { what, found: u64::MAX, expected })
}
