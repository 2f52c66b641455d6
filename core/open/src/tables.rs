//! [`tokenizer_tables`]: the built-in tables of vocabularies and chats, with those of spec folders.

use crate::notice::Notice;
use menagerie_loaders::{CodecEntry, TableError, TableFault, TokenizerTables};
use menagerie_registry::{Environment, FolderKind, TableFile};
use std::sync::Arc;

/// The built-in tables with those of the environment's spec folders, and notices about the folders.
///
/// # Errors
/// An invalid file. A file of a project folder, which is read without being requested, is skipped with a notice.
pub fn tokenizer_tables(
    environment: &Environment,
) -> Result<(Arc<TokenizerTables>, Vec<Notice>), TableError> {
    let built_in = TokenizerTables::built_in()?;
    let codecs = environment.all::<CodecEntry>();
    if environment.tables().is_empty() && codecs.is_empty() {
        return Ok((built_in, Vec::new()));
    }
    let mut tables = TokenizerTables::clone(&built_in);
    codecs.iter().for_each(|codec| tables.register(Arc::clone(&codec.0)));
    let mut notices = Vec::new();
    for file in environment.tables() {
        let name = format!("{} ({})", file.path.display(), file.folder.name());
        match add(&mut tables, file) {
            Ok(()) => {
                notices.push(Notice::Note(format!(
                    "the tables of vocabularies and chats are added to by {name}"
                )));
            }
            Err(error) if file.folder == FolderKind::Project => {
                notices.push(Notice::Note(format!("{name} is left out: {error}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((Arc::new(tables), notices))
}

fn add(tables: &mut TokenizerTables, file: &TableFile) -> Result<(), TableError> {
    let name = file.path.display().to_string();
    match &file.text {
        Ok(text) => tables.add(&name, text, file.may_shadow),
        Err(reason) => Err(TableError {
            file: name,
            line: 1,
            column: 1,
            key: "file".to_owned(),
            fault: TableFault::Unreadable(reason.clone()),
        }),
    }
}
