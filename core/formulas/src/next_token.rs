//! [`HiddenRow`] and [`JoinOrder`]: the rows that a head for further tokens reads.

names! {
    /// Which row of a model, or of a head for further tokens, the next head reads.
    #[derive(Eq, Hash)]
    pub enum HiddenRow {
        /// The row after the final norm.
        Normed = "normed",
        /// The residual stream before the final norm.
        Stream = "stream",
    }
}

names! {
    /// The order in which a head for further tokens joins its two inputs.
    #[derive(Eq, Hash)]
    pub enum JoinOrder {
        /// The embedded token, then the row of the model.
        EmbeddingFirst = "embedding-first",
        /// The row of the model, then the embedded token.
        HiddenFirst = "hidden-first",
    }
}
