//! [`ListPage`]: a part of a list, as a client asks for it.

use crate::fault::ApiFault;
use crate::http::query_pairs;
use axum::http::Uri;
use menagerie_openai::LineFault;
use serde_json::{Value, json};

/// Which part of a list a client wants.
pub(super) struct ListPage {
    limit: usize,
    after: Option<String>,
    /// Whether the oldest comes first.
    is_ascending: bool,
    purpose: Option<String>,
}

impl ListPage {
    /// Reads the query of a request. `most` are returned without `limit`, and at most.
    pub(super) fn read(uri: &Uri, most: usize, usual: usize) -> Result<Self, ApiFault> {
        let mut page = Self { limit: usual, after: None, is_ascending: false, purpose: None };
        for (name, value) in query_pairs(uri) {
            let wrong = |reason: &str| ApiFault::from(LineFault::of(&name, reason));
            match name.as_str() {
                "limit" => match value.parse() {
                    Ok(limit) if (1..=most).contains(&limit) => page.limit = limit,
                    _ => return Err(wrong(&format!("expected a whole number from 1 to {most}"))),
                },
                "after" => page.after = Some(value),
                "purpose" => page.purpose = Some(value),
                "order" => {
                    page.is_ascending = match value.as_str() {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(wrong("expected asc or desc")),
                    }
                }
                _ => return Err(wrong("this parameter is not supported; leave it out")),
            }
        }
        Ok(page)
    }

    /// The part of a list, which has the newest first.
    pub(super) fn of(&self, mut all: Vec<Value>) -> Result<Value, ApiFault> {
        if let Some(purpose) = &self.purpose {
            all.retain(|one| one["purpose"] == purpose.as_str());
        }
        if self.is_ascending {
            all.reverse();
        }
        let mut first = 0;
        if let Some(after) = &self.after {
            let place = all.iter().position(|one| one["id"] == after.as_str());
            let place =
                place.ok_or_else(|| LineFault::of("after", format!("there is no {after:?} in the list")))?;
            first = place + 1;
        }
        let has_more = all.len() > first + self.limit;
        let data: Vec<Value> = all.into_iter().skip(first).take(self.limit).collect();
        let id = |one: Option<&Value>| one.map_or(Value::Null, |one| one["id"].clone());
        let (first, last) = (id(data.first()), id(data.last()));
        Ok(
            json!({ "object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_part_of_the_list() {
        let all = || ["c", "b", "a"].map(|id| json!({ "id": id, "purpose": "batch" })).to_vec();
        let page = |query: &str| {
            let uri: Uri = format!("/files?{query}").parse().unwrap();
            let page = ListPage::read(&uri, 100, 20)?.of(all())?;
            let ids = page["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap());
            Ok::<_, ApiFault>((ids.collect::<String>(), page["has_more"] == true))
        };
        assert_eq!(page("").unwrap(), ("cba".to_owned(), false));
        assert_eq!(page("limit=1&after=c").unwrap(), ("b".to_owned(), true));
        assert_eq!(page("order=asc&limit=2").unwrap(), ("ab".to_owned(), true));
        assert_eq!(page("purpose=vision").unwrap(), (String::new(), false));
        for wrong in ["limit=0", "limit=101", "order=up", "after=x", "color=1"] {
            assert_eq!(page(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }
}
