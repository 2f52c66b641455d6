//! [`Temperature`]: queries that grow with the position.

/// `q *= 1 + scale * ln(1 + floor((pos + offset) / length))`, after rope (Llama 4; `llama_4_scaling_beta` of Ministral
/// 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Growth.
    pub scale: f32,
    /// Tokens per step.
    pub length: f32,
    /// Added to the position.
    pub offset: f32,
}

impl Temperature {
    /// Factor of every row, or `None` where all are 1.
    pub fn factors(&self, positions: &[u32]) -> Option<Vec<f32>> {
        let factor = |position: &u32| {
            let steps = ((*position as f32 + self.offset) / self.length).floor();
            1.0 + self.scale * libm::logf(1.0 + steps)
        };
        let factors: Vec<f32> = positions.iter().map(factor).collect();
        factors.iter().any(|factor| *factor != 1.0).then_some(factors)
    }
}
