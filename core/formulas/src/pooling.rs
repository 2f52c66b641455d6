//! [`Pooling`] of the rows of a text, and what a classifier makes of the vector.

names! {
    /// How the rows of a text become one vector (`pooling_type` of GGUF).
    #[derive(Eq, Hash)]
    pub enum Pooling {
        /// They do not.
        None = "none",
        /// The mean of all rows.
        Mean = "mean",
        /// The first row.
        Cls = "first",
        /// The last row.
        Last = "last",
    }
}

names! {
    /// The activation of a classifier.
    #[derive(Eq, Hash)]
    pub enum ClassifierActivation {
        /// Hyperbolic tangent (`RobertaClassificationHead`, BERT's pooler).
        Tanh = "tanh",
        /// GELU, erf form (`ModernBertPredictionHead`).
        GeluErf = "gelu-erf",
    }
}

names! {
    /// What is made of the outputs of a classifier.
    #[derive(Eq, Hash)]
    pub enum ClassifierScores {
        /// Nothing.
        AsTheyAre = "as-they-are",
        /// Softmax over them.
        Softmax = "softmax",
    }
}
