//! [`NodeEndpoint`]: the address of a node and what is spoken there.

use crate::error::ClusterError;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// What is spoken on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkProtocol {
    /// TCP, for one machine or a trusted network.
    Tcp,
    /// TLS 1.3, with certificates on both sides.
    Tls,
}

impl LinkProtocol {
    /// The name in endpoints of zenoh.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

/// The address of a node and what is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeEndpoint {
    pub(crate) protocol: LinkProtocol,
    host: String,
    port: u16,
}

impl NodeEndpoint {
    /// Reads `HOST:PORT`, `tcp/HOST:PORT` or `tls/HOST:PORT`; the first form has the given protocol.
    ///
    /// # Errors
    /// Any other text. Options of zenoh behind the address are refused, because they could turn protection off.
    pub(crate) fn parse(text: &str, protocol: LinkProtocol) -> Result<Self, ClusterError> {
        let wrong = || {
            ClusterError::Options(format!(
                "{text:?} is not an address: expected HOST:PORT, tcp/HOST:PORT or tls/HOST:PORT, e.g. 10.0.0.1:7447 or \
                 [::1]:7447"
            ))
        };
        let (protocol, address) = match text.split_once('/') {
            None => (protocol, text),
            Some(("tcp", address)) => (LinkProtocol::Tcp, address),
            Some(("tls", address)) => (LinkProtocol::Tls, address),
            Some(_) => return Err(wrong()),
        };
        if let Ok(address) = address.parse::<SocketAddr>() {
            return Ok(Self { protocol, host: address.ip().to_string(), port: address.port() });
        }
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        crate::certificates::check_host(host).map_err(|_| wrong())?;
        Ok(Self { protocol, host: host.to_owned(), port })
    }

    /// Whether only this machine reaches it.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => {
                address.to_ipv4_mapped().map_or(address.is_loopback(), |inner| inner.is_loopback())
            }
            Ok(IpAddr::V4(address)) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for NodeEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, host, port } = self;
        match host.contains(':') {
            true => write!(f, "{}/[{host}]:{port}", protocol.name()),
            false => write!(f, "{}/{host}:{port}", protocol.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let read =
            |text: &str| NodeEndpoint::parse(text, LinkProtocol::Tls).map(|endpoint| endpoint.to_string());
        for (text, expected) in [
            ("10.0.0.1:7447", "tls/10.0.0.1:7447"),
            ("tcp/localhost:0", "tcp/localhost:0"),
            ("[::1]:7447", "tls/[::1]:7447"),
            ("tls/node-1.example:7447", "tls/node-1.example:7447"),
        ] {
            assert_eq!(read(text).unwrap(), expected);
        }
        for text in [
            "",
            ":1",
            "a",
            "a:",
            "a:70000",
            "udp/a:1",
            "tcp/a:1?rel=0",
            "a:1#iface=eth0",
            "tls//a:1",
            "a b:1",
            "a:1\u{1b}",
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains("is not an address") && !said.contains('\u{1b}'), "{said}");
        }
    }

    #[test]
    fn loopback_addresses_stay_on_the_machine() {
        let local = |text: &str| NodeEndpoint::parse(text, LinkProtocol::Tcp).unwrap().is_loopback();
        for text in
            ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1", "LOCALHOST:1"]
        {
            assert!(local(text), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example:1", "[::ffff:10.0.0.1]:1"] {
            assert!(!local(text), "{text}");
        }
    }
}
