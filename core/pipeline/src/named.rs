//! [`Named`]: one of the kinds that were added, and its options, as people write them.

/// What a text names, `author/name:component` or `author/name:component=key=value,key=value`.
pub(crate) struct Named<'k, K> {
    /// The kind of this name.
    pub(crate) kind: &'k K,
    /// Names and values of its options, in order.
    pub(crate) options: Vec<(String, String)>,
}

impl<'k, K> Named<'k, K> {
    /// Finds the kind; `what` is what it is (`sampler`).
    ///
    /// # Errors
    /// A name that no kind has, a pair that is none, in words.
    pub(crate) fn parse(
        what: &str,
        text: &str,
        kinds: &'k [K],
        name_of: impl Fn(&K) -> &'static str,
    ) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some(kind) = kinds.iter().find(|kind| name_of(kind) == name) else {
            let known: Vec<&str> = kinds.iter().map(name_of).collect();
            return Err(match (name.split_once(':'), known.is_empty()) {
                (None, _) => format!("`{name}` is no {what}: a name like author/name:{what} is wanted"),
                (Some((plugin, _)), true) => {
                    format!("there is no {what} `{name}`: load the plugin `{plugin}` with --plugin-dir DIR")
                }
                (Some(_), false) => format!("there is no {what} `{name}`; there are: {}", known.join(", ")),
            });
        };
        let pairs = rest.into_iter().flat_map(|rest| rest.split(',')).filter(|pair| !pair.is_empty());
        let pair = |pair: &str| match pair.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("`{pair}`: key=value is wanted, as in {name}=key=value")),
        };
        Ok(Self { kind, options: pairs.map(pair).collect::<Result<_, _>>()? })
    }
}
