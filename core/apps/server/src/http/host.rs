//! Names of the server in requests, against pages whose name was rebound to this machine (DNS rebinding).
//!
//! The page of a foreign server can give its own name the address of this machine. The browser then takes both for one
//! origin, and only the name in the header `Host` tells them apart.

use crate::fault::ApiFault;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// Refuses requests for a name that is not one of this machine: other names than `localhost` and addresses have to be
/// allowed (`--allow-host`). Requests without a name do not come from a browser.
pub(super) fn check(headers: &HeaderMap, allowed: &[String]) -> Result<(), ApiFault> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let shown = String::from_utf8_lossy(host.as_bytes()).into_owned();
    let name = name_of(&shown);
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    // A browser never asks another machine for the address of `localhost` and names below it (RFC 6761).
    let is_local = name == "localhost" || name.ends_with(".localhost");
    if is_address || is_local || allowed.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
        return Ok(());
    }
    let reason = format!(
        "this server is not known as {name}; use its address, or start it with --allow-host {name} to allow the name"
    );
    Err(ApiFault::new(403, reason).with_code("host_not_allowed"))
}

/// The name in `NAME:PORT` or `[ADDRESS]:PORT`, in small letters.
fn name_of(host: &str) -> String {
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    host[..end].trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_own_names_are_answered() {
        let check = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            super::check(&headers, &["Server.example".to_owned()]).is_ok()
        };
        for good in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:8080",
            "a.localhost",
            "10.0.0.1:8080",
        ] {
            assert!(check(good), "{good}");
        }
        assert!(check("server.example:8080") && check("server.example."));
        for bad in
            ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "x", "", "[evil]:80"]
        {
            assert!(!check(bad), "{bad}");
        }
        assert!(super::check(&HeaderMap::new(), &[]).is_ok());
    }
}
