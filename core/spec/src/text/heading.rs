//! [`Heading`]: names and summary from a spec's text, without reading the rest of it.

/// The contents of `[architecture]` and `[provenance]` of a text, for listings; the rest of the text may have faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Heading {
    /// Id of the spec.
    pub id: String,
    /// Names in `general.architecture`.
    pub gguf: Vec<String>,
    /// Classes of config.json, if they are a plain list or absent.
    pub hf: Option<Vec<String>>,
    /// One line for listings; may be empty.
    pub summary: String,
    /// Its base.
    pub extends: Option<String>,
    /// The kind of reference, and its version and class or file.
    pub provenance: Option<(String, String)>,
}

impl Heading {
    /// Reads the two tables. `None` if one is not written as a plain table (for example as `architecture = { .. }`,
    /// or with dotted keys); [`ArchSpec::parse`](crate::ArchSpec::parse) then reads it.
    pub fn of(text: &str) -> Option<Self> {
        let top: Vec<&str> = text.lines().take_while(|line| !line.starts_with('[')).collect();
        let wanted = [table(text, "[architecture]")?, table(text, "[provenance]").unwrap_or_default()];
        let joined = [top.join("\n"), wanted.join("\n")].join("\n");
        let document = toml_span::parse(&joined).ok()?;
        let said = |path: &str| document.pointer(path).and_then(|value| value.as_str()).map(str::to_owned);
        let id = said("/architecture/id")?;
        let gguf = match document.pointer("/architecture/gguf") {
            None => vec![id.clone()],
            Some(names) => names
                .as_array()?
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        };
        let hf = match document.pointer("/architecture/hf") {
            None if text.contains("[architecture.hf") => None,
            None => Some(Vec::new()),
            Some(names) => names
                .as_array()
                .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect()),
        };
        let provenance = said("/provenance/reference").zip(said("/provenance/source"));
        let summary = said("/architecture/summary").unwrap_or_default();
        Some(Self { id, gguf, hf, summary, extends: said("/extends"), provenance })
    }
}

/// A table's header and the lines below it, without nested tables.
fn table(text: &str, header: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != header);
    let mut table = String::from(lines.next()?);
    for line in lines.take_while(|line| !line.starts_with('[')) {
        table.push('\n');
        table.push_str(line);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::Heading;

    #[test]
    fn the_two_tables_alone_are_read() {
        let text = "schema = 1\nextends = \"c\"\n\n[architecture]\nid = \"a\" # b\nsummary = 'x'\nhf = [\n  \"B\",\n]\n\
                    [provenance]\nreference = \"hf\"\nsource = \"s\"\n[mixer]\nno toml";
        let heading = Heading::of(text).unwrap();
        assert_eq!((&*heading.id, &*heading.summary), ("a", "x"));
        assert_eq!(heading.gguf, ["a"]);
        assert_eq!(heading.extends.as_deref(), Some("c"));
        assert_eq!(heading.provenance, Some(("hf".to_owned(), "s".to_owned())));
        let names = |text| Heading::of(text).map(|heading| heading.gguf.join(" "));
        assert_eq!(names("[architecture]\nid = 'a'\ngguf = ['b', 'c']\n").as_deref(), Some("b c"));
        assert_eq!(names("architecture = { id = 'a' }"), None);
        assert_eq!(names("[architecture]\nid = 1\n"), None);
        assert_eq!(names("[architecture]\nid = 'a'\ngguf = 'b'\n"), None);
    }
}
