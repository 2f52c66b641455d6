//! The query of a request.

use axum::http::Uri;

/// The value of a name in the query, without percent signs and plus signs. The first one counts.
pub(crate) fn query_value(uri: &Uri, name: &str) -> Option<String> {
    query_pairs(uri).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The names and values of the query, in its order.
pub(crate) fn query_pairs(uri: &Uri) -> impl Iterator<Item = (String, String)> {
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value)))
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, others @ ..] = rest {
        rest = others;
        let code = others.get(..2).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(match (first, code) {
            (b'%', Some(code)) => {
                rest = &others[2..];
                code
            }
            (b'+', _) => b' ',
            (byte, _) => *byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let uri: Uri = "/props?a=1&model=a%3Ab+c%&x".parse().unwrap();
        assert_eq!(query_value(&uri, "model").as_deref(), Some("a:b c%"));
        assert_eq!(query_value(&uri, "x").as_deref(), Some(""));
        assert_eq!(query_value(&uri, "y"), None);
        assert_eq!(decoded("%+1%C3%A9"), "% 1é");
    }
}
