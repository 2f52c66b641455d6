//! [`PageFile`]: a file of the page, embedded in the program.

use crate::fault::ApiFault;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use sha2::{Digest, Sha256};

/// What the page may do: only what this server sends, no script and no style inside of a document, and no frame of others
/// around it. So text that a model wrote runs nothing and loads nothing.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file with its path.
struct PageFile {
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($path:literal => $file:literal,)*) => {
        [$(PageFile { path: $path, bytes: include_bytes!(concat!("../page/", $file)) },)*]
    };
}

static FILES: [PageFile; 22] = files! {
    "/" => "index.html",
    "/page/page.css" => "page.css",
    "/page/page.js" => "page.js",
    "/page/element.js" => "element.js",
    "/page/server.js" => "server.js",
    "/page/markdown.js" => "markdown.js",
    "/page/conversation.js" => "conversation.js",
    "/page/conversation_store.js" => "conversation_store.js",
    "/page/chat_view.js" => "chat_view.js",
    "/page/answer.js" => "answer.js",
    "/page/message_view.js" => "message_view.js",
    "/page/token_view.js" => "token_view.js",
    "/page/settings_view.js" => "settings_view.js",
    "/page/zoo_view.js" => "zoo_view.js",
    "/page/lens_view.js" => "lens_view.js",
    "/page/lens_grid.js" => "lens_grid.js",
    "/page/block_drawing.js" => "block_drawing.js",
    "/page/layer_map.js" => "layer_map.js",
    "/page/editor_view.js" => "editor_view.js",
    "/page/status_view.js" => "status_view.js",
    "/page/plot.js" => "plot.js",
    "/page/icon.svg" => "icon.svg",
};

/// Whether a path is that of a file, which needs no key.
pub(crate) fn is_file(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

/// Sends a file, or says that the browser has it.
pub(crate) async fn file(request: Request) -> Result<Response, ApiFault> {
    let path = request.uri().path();
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return Err(ApiFault::new(404, format!("the page has no file {path}")).with_code("unknown_route"));
    };
    Ok(file.response(request.headers()))
}

impl PageFile {
    fn response(&self, asked: &HeaderMap) -> Response {
        let tag = self.tag();
        let is_known =
            asked.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).is_some_and(|tags| {
                tags.split(',')
                    .map(|known| known.trim().trim_start_matches("W/"))
                    .any(|known| known == tag || known == "*")
            });
        let mut response = Response::new(if is_known { Body::empty() } else { Body::from(self.bytes) });
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind()));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        let same = HeaderValue::from_static("same-origin");
        headers.insert(HeaderName::from_static("cross-origin-opener-policy"), same.clone());
        headers.insert(HeaderName::from_static("cross-origin-resource-policy"), same);
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }

    /// Identifies the content: the beginning of its SHA-256.
    fn tag(&self) -> String {
        let hash = Sha256::digest(self.bytes);
        let hex: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hex}\"")
    }

    fn kind(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Each file of the folder is in the table, and nothing in it needs what the policy forbids.
    #[test]
    fn the_table_has_every_file_of_the_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.lines().count() <= 500, "{name} is too long");
            for forbidden in
                [" style=", "<style", " onclick=", "javascript:", "eval(", "http://www.w3.org/1999/xhtml"]
            {
                assert!(!text.contains(forbidden), "{name}: {forbidden}");
            }
            found.insert(if name == "index.html" { "/".to_owned() } else { format!("/page/{name}") });
        }
        let known: BTreeSet<String> = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(known, found);
    }
}
