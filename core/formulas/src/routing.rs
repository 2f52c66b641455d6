//! The formulas of a router: from logits to experts and weights.

names! {
    /// How router logits become scores.
    pub enum RouterScore {
        /// Softmax over all experts.
        Softmax = "softmax",
        /// Sigmoid of each.
        Sigmoid = "sigmoid",
        /// Softmax over the selected ones; the selection is by logits.
        SoftmaxOfSelected = "softmax-of-selected",
        /// `sqrt(softplus(x))`.
        SqrtSoftplus = "sqrt-softplus",
        /// SparseMixer (Liu et al., 2023) at inference: experts are selected one by one, each the best of those left.
        /// Its weight is its share of a softmax over those left whose logit `x` is close to its own, `top`:
        /// `(top - x) / max(|x|, top) <= 2 * jitter`.
        SparseMixer(SparseMixer = SparseMixer { jitter: 0.1 }) = "sparse-mixer",
    }
}

/// Numbers of SparseMixer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseMixer {
    /// Noise that the router was trained with.
    pub jitter: f32,
}

names! {
    /// What experts are selected by.
    #[derive(Eq, Hash)]
    pub enum RouterSelect {
        /// Their scores.
        Scores = "scores",
        /// Their logits.
        Logits = "logits",
    }
}

names! {
    /// What the weights of the selected experts are.
    #[derive(Eq, Hash)]
    pub enum RouterWeights {
        /// Their scores, divided by their sum.
        SumToOne = "sum-to-one",
        /// Their scores.
        AsScored = "as-scored",
    }
}

names! {
    /// What the weight of an expert multiplies.
    #[derive(Eq, Hash)]
    pub enum RouterApply {
        /// Its output.
        ToOutput = "to-output",
        /// Its input.
        ToInput = "to-input",
    }
}

names! {
    /// What the router reads.
    #[derive(Eq, Hash)]
    pub enum RouterInput {
        /// What the experts get.
        Branch = "branch",
        /// The residual stream that the branch reads, before its norm.
        Stream = "stream",
        /// The raw input of the block.
        BlockInput = "block-input",
    }
}

names! {
    /// How a group of experts is scored.
    #[derive(Eq, Hash)]
    pub enum GroupScore {
        /// By its best expert.
        Best = "best",
        /// By the sum of its best two.
        SumOfBestTwo = "sum-of-best-two",
    }
}
