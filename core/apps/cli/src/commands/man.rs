//! `man [COMMAND]`: the manual as a page for man(1).

use crate::arguments;
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use clap_mangen::Man;

/// Write the manual page of menagerie or of a command
///
/// menagerie man > menagerie.1; menagerie man run | man -l -
#[derive(Args)]
pub(crate) struct ManCommand {
    /// The command [default: menagerie as a whole]
    command: Option<String>,
}

impl ManCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut root = arguments::command(&ConfigFile::default())?;
        root.build();
        let wanted = match &self.command {
            None => root,
            Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
                Failure::Usage(format!("there is no command `{name}`"))
                    .with_help("menagerie --help lists them")
            })?,
        };
        // Built commands are named `menagerie run`; a page is `menagerie-run`.
        let title = wanted.get_bin_name().unwrap_or("menagerie").replace(' ', "-");
        let mut page = Vec::new();
        Man::new(wanted.disable_help_subcommand(true)).title(title).render(&mut page)?;
        output::write(&String::from_utf8_lossy(&page))
    }
}
