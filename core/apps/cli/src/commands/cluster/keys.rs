//! `cluster keys DIR`: makes and lists the certificates of a cluster.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::cluster::{Issue, KeyFolder, KeyRequest, ListedCertificate, NodeRole};
use menagerie::files::path_text;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Make and list the certificates of a cluster
///
/// DIR gets a certificate authority (ca.crt, and ca.key, which stays here) and a folder for each --name with ca.crt, tls.crt
/// and tls.key. Copy a node's folder to its machine and name it with --tls-dir. What exists is kept: run the command again to
/// add nodes, or without --name to list all certificates.
#[derive(Args)]
pub(crate) struct ClusterKeysCommand {
    /// The folder of the authority
    dir: PathBuf,
    /// Name of a node, e.g. stage-1 (repeatable)
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// What these nodes do: stage, head (run, chat, batch, bench, logits, serve, cluster check) or operator (cluster status,
    /// plan, drain) [default: stage; with --renew as before]
    #[arg(long, value_name = "ROLE", requires = "name")]
    role: Option<NodeRole>,
    /// Addresses and DNS names of these nodes, which others compare with the address that they connect to; give them for all
    /// nodes of a cluster, or for none
    #[arg(long, value_name = "HOST", value_delimiter = ',', requires = "name")]
    hosts: Vec<String>,
    /// Days until the certificates expire
    #[arg(long, value_name = "N", requires = "name", default_value_t = 365)]
    days: u32,
    /// Replace the certificates and keys of these nodes; without --hosts and --role they keep theirs
    #[arg(long, requires = "name")]
    renew: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ClusterKeysCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let folder = KeyFolder::open_or_create(&self.dir)?;
        let mut issues: Vec<(String, Issue)> = Vec::with_capacity(self.name.len());
        for name in &self.name {
            let issue = folder.issue(&self.request(name, &folder)?, self.renew)?;
            issues.push((name.clone(), issue));
        }
        let listed = folder.certificates()?;
        if self.json {
            return output::json(&self.as_json(&folder, &listed, &issues));
        }
        let authority = folder.authority();
        let made = if folder.is_new() { "created" } else { "kept" };
        output::line(&format!(
            "authority {} ({made}, expires {})",
            path_text(&self.dir),
            authority.last_day()
        ))?;
        if listed.is_empty() {
            return output::line("no certificates yet: add them with --name NODE");
        }
        let rows: Vec<Vec<String>> =
            listed.iter().map(|one| row(one, issue_of(&issues, &one.name))).collect();
        output::table(&["node", "role", "hosts", "expires", "state", ""], &rows)
    }

    fn request(&self, name: &str, folder: &KeyFolder) -> Result<KeyRequest, Failure> {
        let (mut hosts, mut role) = (self.hosts.clone(), self.role);
        if self.renew {
            let listed = folder.certificates()?.into_iter().find(|one| one.name == name);
            if let Some(before) = listed.and_then(|one| one.certificate) {
                role = role.or_else(|| before.role());
                hosts = if hosts.is_empty() { before.hosts } else { hosts };
            }
        }
        Ok(KeyRequest {
            name: name.to_owned(),
            role: role.unwrap_or(NodeRole::Stage),
            hosts,
            days: self.days,
        })
    }

    fn as_json(&self, folder: &KeyFolder, listed: &[ListedCertificate], issues: &[(String, Issue)]) -> Value {
        let node = |one: &ListedCertificate| {
            let known = one.certificate.as_ref();
            json!({
                "name": one.name,
                "folder": folder.node_folder(&one.name),
                "role": known.and_then(|known| known.role()).map(NodeRole::name),
                "hosts": known.map(|known| known.hosts.clone()),
                "expires": known.map(|known| known.last_day().to_string()),
                "state": one.state.text(),
                "done": issue_of(issues, &one.name).map(Issue::name),
            })
        };
        json!({
            "folder": self.dir,
            "authority": {
                "created": folder.is_new(),
                "expires": folder.authority().last_day().to_string(),
            },
            "certificates": listed.iter().map(node).collect::<Vec<_>>(),
        })
    }
}

fn issue_of(issues: &[(String, Issue)], name: &str) -> Option<Issue> {
    issues.iter().find(|(one, _)| one == name).map(|(_, issue)| *issue)
}

fn row(one: &ListedCertificate, issue: Option<Issue>) -> Vec<String> {
    let known = one.certificate.as_ref();
    let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let hosts =
        known.map(|known| if known.hosts.is_empty() { "any".to_owned() } else { known.hosts.join(",") });
    vec![
        one.name.clone(),
        text(
            known.map(|known| known.role().map_or(known.common_name.clone(), |role| role.name().to_owned())),
        ),
        text(hosts),
        text(known.map(|known| known.last_day().to_string())),
        one.state.text(),
        issue.map(|issue| issue.name().to_owned()).unwrap_or_default(),
    ]
}
