//! The kind `none`: no component in this layer.

use crate::kind::{Family, Kind, Options};

crate::options! {
    /// No options.
    pub struct NoOptions {}
}

pub(super) static MIXER: Kind =
    Kind::nothing(Family::Mixer, "none", "No mixer in this layer.", <NoOptions as Options>::TABLE);
pub(super) static FEED_FORWARD: Kind = Kind::nothing(
    Family::FeedForward,
    "none",
    "No feed-forward in this layer.",
    <NoOptions as Options>::TABLE,
);
