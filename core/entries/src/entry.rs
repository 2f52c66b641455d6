//! [`Entry`]: something that is registered under a name.

/// Something that is registered under a name, in a family of its own.
pub trait Entry: Clone + Send + Sync + 'static {
    /// The family in listings and errors: `sampler`, `device`.
    const FAMILY: &'static str;

    /// Its name, which no other entry of the family and the scope may have.
    fn name(&self) -> &str;

    /// The crate or the plugin that registers it.
    fn registered_by(&self) -> &str;

    /// The part of the family in which its name is unique; empty in families that have no parts. The kinds of a spec
    /// have one: a norm and a mixer may share a name.
    fn scope(&self) -> &str {
        ""
    }
}
