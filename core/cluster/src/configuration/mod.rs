//! [`configuration`]: the configuration of zenoh for a node, which determines who may reach it.
//!
//! | links | allowed |
//! |---|---|
//! | on the loopback address | without certificates |
//! | to other machines | with certificates of one authority on both sides, or if the user says that they may be insecure |
//!
//! With certificates every message is denied that the role of its sender does not allow (`access.rs`).

mod access;
mod endpoint;
mod identity;

#[cfg(test)]
mod tests;

use endpoint::{LinkProtocol, NodeEndpoint};

use crate::error::ClusterError;
use crate::options::ClusterOptions;
use access::access_control;
use identity::NodeIdentity;
use serde_json::{Value, json};

/// Microseconds that a message waits for room before zenoh closes the link. Credits keep links below it.
const WAIT_BEFORE_CLOSE: u64 = 60_000_000;

/// Most bytes of a message.
const MOST_BYTES: usize = 256 << 20;

/// Signs of life within a lease.
const KEEP_ALIVE: u64 = 4;

/// The configuration of zenoh for a node that listens at these endpoints.
///
/// # Errors
/// Options that contradict each other, an address without protection that other machines can reach, or certificates that
/// cannot be used.
pub(crate) fn configuration(
    options: &ClusterOptions,
    listen: &[String],
) -> Result<zenoh::Config, ClusterError> {
    let protocol = protocol(options);
    let listen = endpoints(options, listen, "listen at")?;
    let connect = endpoints(options, &options.connect, "connect to")?;
    if options.lan && protocol == LinkProtocol::Tcp && !options.insecure {
        return Err(ClusterError::Options(format!("--lan finds nodes on other machines: {ADVICE}")));
    }
    let mut link = json!({
        // A peer may name addresses of other nodes: none of them is connected to without protection.
        "protocols": [protocol.name()],
        "tx": {
            "lease": options.lease.as_millis() as u64,
            "keep_alive": KEEP_ALIVE,
            "queue": {
                "size": { "real_time": 2, "interactive_high": 16, "data": 16 },
                "congestion_control": { "block": { "wait_before_close": WAIT_BEFORE_CLOSE } },
            },
        },
        "rx": { "buffer_size": 4 << 20, "max_message_size": MOST_BYTES },
    });
    let mut access = Value::Null;
    if let Some(folder) = &options.tls_dir {
        link["tls"] = NodeIdentity::read(folder)?.settings();
        access = access_control(&options.name);
    }
    let mut whole = json!({
        "mode": "peer",
        "listen": { "endpoints": listen },
        "connect": { "endpoints": connect },
        "scouting": { "multicast": { "enabled": options.lan } },
        "queries_default_timeout": 600_000,
        "adminspace": { "enabled": false },
        "transport": { "link": link },
    });
    if !access.is_null() {
        whole["access_control"] = access;
    }
    zenoh::Config::from_json5(&whole.to_string())
        .map_err(|error| ClusterError::network("cannot make the configuration of the network", error))
}

/// What to do about an address without protection.
const ADVICE: &str = "without certificates everybody who reaches it reads prompts and answers and can take part. Make \
                      certificates with `menagerie cluster keys DIR --name NODE` and give --tls-dir DIR/NODE, or add \
                      --insecure in a network in which you trust everybody";

/// What the links of a node speak.
fn protocol(options: &ClusterOptions) -> LinkProtocol {
    if options.tls_dir.is_some() { LinkProtocol::Tls } else { LinkProtocol::Tcp }
}

/// Where a node listens, as endpoints of zenoh. If the user names no address: at a free port, for this machine if all that is
/// known of the cluster is on it, and for all machines otherwise.
///
/// # Errors
/// An address that is none.
pub(crate) fn listen_endpoints(options: &ClusterOptions) -> Result<Vec<String>, ClusterError> {
    let protocol = protocol(options);
    let parse = |address: &String| NodeEndpoint::parse(address, protocol);
    if !options.listen.is_empty() {
        let listen = options.listen.iter().map(|address| parse(address).map(|endpoint| endpoint.to_string()));
        return listen.collect();
    }
    let mut local = !options.lan;
    for address in &options.connect {
        local &= parse(address)?.is_loopback();
    }
    Ok(vec![format!("{}/{}:0", protocol.name(), if local { "127.0.0.1" } else { "0.0.0.0" })])
}

/// The endpoints of these addresses, if they are as protected as they have to be.
fn endpoints(
    options: &ClusterOptions,
    addresses: &[String],
    action: &str,
) -> Result<Vec<String>, ClusterError> {
    let expected = protocol(options);
    let mut endpoints = Vec::with_capacity(addresses.len());
    for address in addresses {
        let endpoint = NodeEndpoint::parse(address, expected)?;
        if endpoint.protocol != expected {
            let reason = match expected {
                LinkProtocol::Tls => "with --tls-dir all addresses are encrypted; write it without `tcp/`",
                LinkProtocol::Tcp => "encrypted addresses need the certificate of this node; give --tls-dir",
            };
            return Err(ClusterError::Options(format!("cannot {action} {address}: {reason}")));
        }
        if expected == LinkProtocol::Tcp && !options.insecure && !endpoint.is_loopback() {
            return Err(ClusterError::Options(format!("cannot {action} {address}: {ADVICE}")));
        }
        endpoints.push(endpoint.to_string());
    }
    Ok(endpoints)
}
