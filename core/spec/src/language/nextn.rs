//! `[nextn]`: a head that predicts further tokens, as written.

use crate::kind::{OptionalNorm, Role};
use crate::options;
use menagerie_formulas::{HiddenRow, JoinOrder};

options! {
    /// A head that predicts the token after the next one (multi-token prediction): `x = projection(join(embedding_norm(e),
    /// hidden_norm(h)))`, where `e` is the embedding of a token and `h` the row of the model before that token; then a block, `norm`
    /// and `head`. The block follows those of `[layers] count`, and `[block]`, `[mixer]` and `[feed_forward]` describe it like
    /// theirs. Of several heads, each reads the rows of the head before it, and predicts one token more. Heads only
    /// guess tokens; `--draft heads` loads them.
    pub(crate) struct NextnOptions {
        /// Heads that the file has.
        count: usize = KeyOr("nextn_predict_layers", 0.0),
        /// Norm on the embedded token.
        embedding_norm: OptionalNorm = Required,
        /// Norm on the row of the model.
        hidden_norm: OptionalNorm = Required,
        /// Role of the projection, `[2 * D]` to `[D]`.
        projection: Role = Required,
        /// The order of the two inputs of the projection.
        order: JoinOrder = Required => guarded,
        /// The row of the model that the head reads.
        hidden: HiddenRow = Required => guarded,
        /// The row of the head that takes the place of the model's when the head guesses another token.
        repeats: HiddenRow = Required => guarded,
        /// Role of the head's own token embedding; without the tensor, the model's is used.
        embedding: Option<Role> = Absent,
        /// Norm before the logits; without the tensor, that of `[output]` is used.
        norm: OptionalNorm = Absent,
        /// Role of the head's own matrix for logits; without the tensor, the model's is used.
        head: Option<Role> = Absent,
    }
}
