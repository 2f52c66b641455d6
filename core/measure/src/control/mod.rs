//! Control vectors: directions that are added to the stream after some layers.

mod directions;
mod error;
mod making;
mod steering;
mod vector;

pub use directions::DirectionMethod;
pub use error::ControlVectorError;
pub use making::{PromptPair, make_control_vector};
pub use steering::{ControlVectorOption, SteeringOptions, steering};
pub use vector::ControlVector;
