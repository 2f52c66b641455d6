//! [`StateFile`]: a sequence's state that outlasts the process.
//!
//! The file holds the tokens, the rows of keys and values in the type they are kept in, recurrent states with the points
//! that a sequence can go back to, and perhaps a conversation. A run that takes it up computes only what comes after the
//! prefix its prompt has in common with those tokens, and gives the text that it would give without: see
//! [`StateIdentity`] for what must be the same.

mod container;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod identity;

pub use error::StateFileError;
pub use identity::{AdapterIdentity, ModelFingerprint, StateIdentity};

use crate::engine::Engine;
use crate::error::GenerateError;
use crate::message::ChatMessage;
use crate::scheduler::{StateRead, StateWrite};
use crate::sequence::{Section, StoredSequence};
use crate::session::Session;
use container::{ContainerReader, ContainerWriter, Fault};
use menagerie_files::{AtomicFile, FileLock};
use menagerie_model::{PoolOptions, StateId, StateSpec};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pipeline whose sequences keep state from step to step, so that it can outlast them: [`StateFile::open`] asks for one.
/// Encoders keep none.
pub trait Cacheable {
    /// What computes the state.
    fn engine(&self) -> &Arc<Engine>;

    /// What the state depends on beside its tokens.
    ///
    /// # Errors
    /// A file that cannot be read; a model or an adapter that was made in code, which nothing tells from others.
    fn state_identity(&self) -> Result<StateIdentity, StateFileError>;
}

/// A file that a session's state is kept in. While it is open no other process opens it for itself.
pub struct StateFile {
    path: PathBuf,
    identity: StateIdentity,
    /// What computes the state.
    engine: Arc<Engine>,
    _lock: FileLock,
}

/// A conversation as it is kept beside a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedConversation {
    /// Every message.
    pub messages: Vec<ChatMessage>,
    /// Messages after the system messages that no longer fit and are left out of the prompt.
    pub dropped: usize,
}

/// What was taken up from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumed {
    /// Tokens whose state is held now.
    pub tokens: usize,
    /// The conversation, if one was kept.
    pub conversation: Option<SavedConversation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    identity: StateIdentity,
    held: StoredSequence,
    conversation: Option<SavedConversation>,
}

/// What can go wrong between a file and a pool.
enum Trouble {
    State(GenerateError),
    System(io::Error),
    Fault(Fault),
}

impl From<GenerateError> for Trouble {
    fn from(error: GenerateError) -> Self {
        Self::State(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Trouble {
    fn of(self, path: &Path, action: &'static str) -> StateFileError {
        match self {
            Self::State(error) => StateFileError::state(path, error),
            Self::System(error) => StateFileError::system(path, action, error),
            Self::Fault(fault) => StateFileError::fault(path, fault),
        }
    }
}

type Reader = ContainerReader<BufReader<File>>;

impl StateFile {
    /// The file at `path`, which need not be there yet, for sessions that `pipeline` begins. `plugins` names those that are
    /// loaded, so that no other code can have computed the state.
    ///
    /// # Errors
    /// Something that is no file, a folder that cannot be written, a file that another process has; a model, or what acts on
    /// it, that cannot be told from others.
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
        check_readable(pipeline.engine()).map_err(|error| StateFileError::state(path, error))?;
        let identity = pipeline.state_identity()?.with_plugins(plugins);
        Ok(Self { path: path.to_owned(), identity, engine: Arc::clone(pipeline.engine()), _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the session hold what the file does; `None` where there is no file yet.
    ///
    /// # Errors
    /// A file that is cut, damaged or of another version, a state that was computed otherwise or does not fit into the
    /// context; the session then holds nothing.
    pub fn load(&self, session: &mut Session) -> Result<Option<Resumed>, StateFileError> {
        self.check(session)?;
        let loaded = self.read(session);
        if loaded.is_err() {
            let (scheduler, sequence) = session.parts_mut();
            scheduler.reset(sequence).map_err(|error| StateFileError::state(&self.path, error))?;
        }
        loaded
    }

    fn read(&self, session: &mut Session) -> Result<Option<Resumed>, StateFileError> {
        let path = &*self.path;
        let Some((mut reader, Header { identity, held, conversation })) = self.opened()? else {
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
        let mut give = |part: StateWrite| -> Result<(), Trouble> {
            match part {
                StateWrite::Begin(section) => reader.begin(section.name(), length(section, tokens)?)?,
                StateWrite::Bytes(bytes) => reader.bytes(bytes)?,
                StateWrite::End(section) => reader.check(section.name())?,
            }
            Ok(())
        };
        scheduler.put_back(sequence, &held, &mut give).map_err(|trouble| trouble.of(path, "read"))?;
        reader.end().map_err(|fault| StateFileError::fault(path, fault))?;
        Ok(Some(Resumed { tokens, conversation }))
    }

    /// Keeps what the session holds, in place of what the file held; the old file stays whole until the new one is. Gives the
    /// bytes that were written.
    ///
    /// # Errors
    /// The disk is full or the folder gone; the old file is then as it was.
    pub fn save(
        &self,
        session: &mut Session,
        conversation: Option<SavedConversation>,
    ) -> Result<u64, StateFileError> {
        let path = &*self.path;
        self.check(session)?;
        let (scheduler, sequence) = session.parts_mut();
        let held = scheduler.stored_sequence(sequence).map_err(|error| StateFileError::state(path, error))?;
        let header = Header { identity: self.identity.clone(), held, conversation };
        let write = |source| StateFileError::system(path, "write", source);
        let bytes = serde_json::to_vec(&header)
            .map_err(|error| write(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let mut writer = ContainerWriter::new(AtomicFile::create(path)?, &bytes).map_err(write)?;
        let (held, mut written) = (header.held, bytes.len() as u64);
        let mut take = |part: StateRead| -> Result<(), Trouble> {
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
        scheduler.read_out(sequence, &held, &mut take).map_err(|trouble| trouble.of(path, "write"))?;
        writer.into_inner().commit()?;
        Ok(written)
    }

    /// The file with its header, which is whole and in order.
    fn opened(&self) -> Result<Option<(Reader, Header)>, StateFileError> {
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

    /// Refuses a session of another pipeline, or with other adapters than that one had when the file was opened.
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

/// The header in these bytes of JSON.
///
/// # Errors
/// Why it is not valid.
fn checked_header(json: &[u8]) -> Result<Header, String> {
    let header: Header = serde_json::from_slice(json).map_err(|error| format!("its header: {error}"))?;
    match &header.conversation {
        Some(one) if one.dropped > one.messages.len() => {
            Err("its conversation leaves out more messages than it has".to_owned())
        }
        _ => Ok(header),
    }
}

/// Finds out before anything is computed whether what computes lets go of its states: where they lie elsewhere it does not.
fn check_readable(engine: &Engine) -> Result<(), GenerateError> {
    let mut pool = engine.pool(PoolOptions::one_sequence(engine.kv_type, 1))?;
    let sequence = pool.create()?;
    let states = pool.specs().len();
    pool.refill(sequence, 1, &vec![0; states])?;
    for state in (0..states).map(StateId) {
        match pool.specs()[state.0] {
            StateSpec::PerToken { .. } => drop(pool.read_rows(state, sequence, 0..1)?),
            StateSpec::PerSequence { .. } => drop(pool.read_block(state, sequence)?),
        }
    }
    Ok(())
}

fn length(section: &Section, tokens: usize) -> Result<u64, Fault> {
    let (what, expected) = (section.name(), "fewer".to_owned());
    section.bytes(tokens).ok_or(Fault::Length { what, found: u64::MAX, expected })
}
