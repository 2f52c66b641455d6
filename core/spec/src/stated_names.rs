//! Which names a spec's text answers to, without reading the rest of it.

/// The names in `general.architecture` that a spec's table `[architecture]` states: `gguf`, or else its `id`. The rest of
/// the text may have any fault. `None` where the table is not written plainly (as `architecture = { .. }`, or with dotted
/// keys); [`ArchSpec::parse`](crate::ArchSpec::parse) then says more.
pub fn stated_names(text: &str) -> Option<Vec<String>> {
    let head = |line: &&str| line.trim_end() == "[architecture]";
    let mut lines = text.lines().skip_while(|line| !head(line));
    let mut table = String::from(lines.next()?);
    for line in lines.take_while(|line| !line.starts_with('[')) {
        table.push('\n');
        table.push_str(line);
    }
    let document = toml_span::parse(&table).ok()?;
    let id = document.pointer("/architecture/id")?.as_str()?;
    match document.pointer("/architecture/gguf") {
        None => Some(vec![id.to_owned()]),
        Some(names) => names.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::stated_names;

    #[test]
    fn the_table_alone_is_read() {
        let names = |text| stated_names(text).map(|names| names.join(" "));
        let id = "schema = 1\n\n[architecture]\nid = \"a\" # b\nhf = [\n  \"B\",\n]\n[truth]\nno toml";
        assert_eq!(names(id).as_deref(), Some("a"));
        assert_eq!(names("[architecture]\nid = 'a'\ngguf = ['b', 'c']\n").as_deref(), Some("b c"));
        assert_eq!(names("architecture = { id = 'a' }"), None);
        assert_eq!(names("[architecture]\nid = 1\n"), None);
        assert_eq!(names("[architecture]\nid = 'a'\ngguf = 'b'\n"), None);
    }
}
