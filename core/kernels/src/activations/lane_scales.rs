//! Scales and sums of a single row, broadcast to the lanes of vectors for one-row kernels whose lanes hold rows of
//! weights by panels.

use super::Meta;

/// The lanes of a vector.
pub(crate) const LANES: usize = 16;

/// How many of a row's `panels` share a vector: 1, 2, 4 or 8, each in the same number of lanes.
pub(crate) fn panels_together(panels: usize) -> usize {
    panels.next_power_of_two().clamp(1, 8)
}

/// What is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneScales {
    /// The scale of each 32 values.
    Scales,
    /// -128 times the sum of each 32 rounded values.
    Less32,
    /// -128 times the sum of each 16 rounded values.
    Less16,
    /// The sum of each 32 rounded values times their scale.
    Sums,
}

impl LaneScales {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;

    /// All, in order.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const ALL: [LaneScales; LaneScales::COUNT] =
        [LaneScales::Scales, LaneScales::Less32, LaneScales::Less16, LaneScales::Sums];

    /// The number of vectors for some panels.
    pub(crate) fn vectors(self) -> usize {
        if self == LaneScales::Less16 { 16 } else { 8 }
    }

    /// The dwords of a row's panels: `[panels together][vector][lane]`.
    pub(super) fn len(self, panels: usize) -> usize {
        panels.div_ceil(panels_together(panels)) * self.vectors() * LANES
    }

    /// Broadcasts the values of a row's panels; lanes of missing panels are zero.
    pub(super) fn spread(self, meta: &[Meta], to: &mut [u8]) {
        match self {
            LaneScales::Scales => spread(meta, to, |meta| meta.d.map(f32::to_bits)),
            LaneScales::Less32 => spread(meta, to, |meta| meta.neg32.map(i32::cast_unsigned)),
            LaneScales::Less16 => spread(meta, to, |meta| meta.neg16.map(i32::cast_unsigned)),
            LaneScales::Sums => spread(meta, to, |meta| meta.dsum.map(f32::to_bits)),
        }
    }
}

fn spread<const N: usize>(meta: &[Meta], to: &mut [u8], values: impl Fn(&Meta) -> [u32; N]) {
    let together = panels_together(meta.len());
    let width = LANES / together;
    to.fill(0);
    for (meta, to) in meta.chunks(together).zip(to.chunks_exact_mut(N * LANES * 4)) {
        for (panel, meta) in meta.iter().enumerate() {
            let values = values(meta);
            for lane in panel * width..(panel + 1) * width {
                for (value, to) in values.iter().zip(to.as_chunks_mut::<{ LANES * 4 }>().0) {
                    to.as_chunks_mut::<4>().0[lane] = value.to_ne_bytes();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_has_its_lanes() {
        for panels in [1, 2, 3, 4, 5, 8, 9, 22] {
            let mut meta = vec![Meta::default(); panels];
            for (p, meta) in meta.iter_mut().enumerate() {
                meta.d = std::array::from_fn(|g| (p * 8 + g) as f32);
                meta.neg16 = std::array::from_fn(|g| (p * 16 + g) as i32);
            }
            let together = panels_together(panels);
            assert!(together >= panels || together == 8);
            for spread in [LaneScales::Scales, LaneScales::Less16] {
                let mut to = vec![1; spread.len(panels) * 4];
                spread.spread(&meta, &mut to);
                for (i, dword) in to.as_chunks::<4>().0.iter().enumerate() {
                    let (lane, vector) = (i % LANES, i / LANES);
                    let panel = vector / spread.vectors() * together + lane / (LANES / together);
                    let group = vector % spread.vectors();
                    let expected = match (meta.get(panel), spread) {
                        (None, _) => 0,
                        (Some(meta), LaneScales::Scales) => meta.d[group].to_bits(),
                        (Some(meta), _) => meta.neg16[group] as u32,
                    };
                    assert_eq!(u32::from_ne_bytes(*dword), expected, "{panels} panels, dword {i}");
                }
            }
        }
    }
}
