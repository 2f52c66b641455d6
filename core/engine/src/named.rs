//! [`NamedEntry`]: a sampler or a hook of an environment with its options, as written on the command line.

use menagerie_entries::{Entries, Entry, nearest, nearest_clause};

/// The entry that a text names: `author/name:component` or `author/name:component=key=value,key=value`.
pub(crate) struct NamedEntry<'k, K> {
    /// The entry with this name.
    pub(crate) kind: &'k K,
    /// Names and values of its options, in order.
    pub(crate) options: Vec<(String, String)>,
}

impl<'k, K: Entry> NamedEntry<'k, K> {
    /// Finds the entry that a text names.
    ///
    /// # Errors
    /// No entry has this name, or an option is not `key=value`; as a sentence.
    pub(crate) fn parse(text: &str, entries: &'k Entries) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some(kind) = entries.get::<K>(name) else {
            let known: Vec<&str> = entries.all::<K>().iter().map(Entry::name).collect();
            return Err(unknown(K::FAMILY, name, &known));
        };
        let items: Vec<&str> = rest.into_iter().flat_map(|rest| rest.split(',')).collect();
        Ok(Self { kind, options: option_pairs(&items, &format!("{name}="))? })
    }
}

/// Parses options, each `key=value`; empty items are ignored. `before` is the text in front of them, for messages.
///
/// # Errors
/// An item is not `key=value`.
pub fn option_pairs(items: &[&str], before: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |item: &&str| match item.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("`{item}`: expected key=value, as in {before}key=value")),
    };
    items.iter().filter(|item| !item.is_empty()).map(pair).collect()
}

/// The message about a name that no entry has, with the nearest known name.
fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let Some((plugin, _)) = name.split_once(':') else {
        // Perhaps only the plugin's name is missing.
        let own = |full: &&str| full.rsplit_once(':').is_some_and(|(_, own)| nearest(name, [own]).is_some());
        let meant = known.iter().copied().find(own).or_else(|| nearest(name, known.iter().copied()));
        let meant = nearest_clause(meant);
        return format!("`{name}` is not a {what}; expected a name like author/name:{what}{meant}");
    };
    if known.is_empty() {
        return format!("there is no {what} `{name}`: load the plugin `{plugin}` with --plugin-dir DIR");
    }
    let meant = nearest_clause(nearest(name, known.iter().copied()));
    format!("there is no {what} `{name}`{meant}; there are: {}", known.join(", "))
}

/// Checks that every option is in a list; the error has the nearest name.
///
/// # Errors
/// The first unknown option.
pub fn check_options(options: &[(String, String)], known: &[&str]) -> Result<(), String> {
    let Some((name, _)) = options.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let meant = nearest_clause(nearest(name, known.iter().copied()));
    let known =
        if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    Err(format!("there is no option `{name}`{meant}; {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        let known = ["acme/watch:norms", "acme/watch:means"];
        let told = |name: &str| unknown("hook", name, &known);
        assert!(told("acme/watch:nomrs").contains("; the nearest is `acme/watch:norms`; there are: acme/"));
        assert!(
            told("norm")
                .ends_with("expected a name like author/name:hook; the nearest is `acme/watch:norms`"),
            "{}",
            told("norm")
        );
        assert!(told("xyz").ends_with("expected a name like author/name:hook"));
        assert!(
            unknown("hook", "acme/other:x", &[]).contains("the plugin `acme/other` with --plugin-dir DIR")
        );
        let options =
            |name: &str| check_options(&[(name.to_owned(), String::new())], &["most", "layers", "phase"]);
        assert_eq!(options("most"), Ok(()));
        let told = options("layer").unwrap_err();
        assert_eq!(told, "there is no option `layer`; the nearest is `layers`; it has most, layers, phase");
    }
}
