//! Layouts of the values of rows with which kernels need fewer shuffles.

use crate::blocks::SUPER;

/// An order of the values of a panel of 256: the order in which the blocks of some formats store them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationLayout {
    /// The 32s in the order 0 2 | 1 3 | 4 6 | 5 7: the order of the nibbles of Q4_K.
    Paired,
    /// The halves of each four 32s separated: the order of the nibbles of four blocks of Q4_0.
    Halved,
    /// The first of every eight, then the second of every eight, and so on: the order in which the entries of codebooks
    /// are looked up.
    EveryEighth,
    /// The same of every four.
    EveryFourth,
    /// The halves of each eight 16s separated: the order of the nibbles of two blocks of NVFP4.
    Sixteens,
    /// Two consecutive 16s, four values of each in turn: the order of the tiles of wide formats.
    PairedSixteens,
    /// Like the previous one for 32s: 0 and 2, 1 and 3, 4 and 6, 5 and 7.
    PairedGroups,
    /// The order of the digits of TQ1_0: five times those of 52 bytes, padded with zeros to 64.
    Digits,
}

/// Stands for four zeros.
const ZEROS: u8 = u8::MAX;

impl ActivationLayout {
    /// How many there are.
    pub(super) const COUNT: usize = 8;

    /// The values of a panel, padding included.
    pub(crate) fn panel(self) -> usize {
        match self {
            ActivationLayout::EveryEighth
            | ActivationLayout::EveryFourth
            | ActivationLayout::PairedSixteens
            | ActivationLayout::PairedGroups => SUPER,
            _ => 4 * self.sources().len(),
        }
    }

    /// Which four values of the panel are at each place; empty for layouts that `arrange` makes with a function of
    /// their own.
    fn sources(self) -> &'static [u8] {
        match self {
            ActivationLayout::Paired => &const { paired() },
            ActivationLayout::Halved => &const { apart(4, 8) },
            ActivationLayout::EveryEighth
            | ActivationLayout::EveryFourth
            | ActivationLayout::PairedSixteens
            | ActivationLayout::PairedGroups => &[],
            ActivationLayout::Sixteens => &const { apart(2, 4) },
            ActivationLayout::Digits => &const { digits() },
        }
    }

    /// Arranges whole panels.
    pub(super) fn arrange(self, values: &[u8], to: &mut [u8]) {
        match self {
            ActivationLayout::EveryEighth => return every::<8>(values, to),
            ActivationLayout::EveryFourth => return every::<4>(values, to),
            ActivationLayout::PairedSixteens => return take_turns::<4>(values, to),
            ActivationLayout::PairedGroups => return take_turns::<8>(values, to),
            _ => {}
        }
        for (from, to) in values.chunks_exact(SUPER).zip(to.chunks_exact_mut(self.panel())) {
            for (&source, to) in self.sources().iter().zip(to.as_chunks_mut::<4>().0) {
                *to = from.as_chunks::<4>().0.get(usize::from(source)).copied().unwrap_or_default();
            }
        }
    }
}

/// Rearranges whole panels: the first of every `N`, then the second of every `N`, and so on.
fn every<const N: usize>(values: &[u8], to: &mut [u8]) {
    for (from, to) in values.as_chunks::<SUPER>().0.iter().zip(to.as_chunks_mut::<SUPER>().0) {
        for (n, to) in to.chunks_exact_mut(SUPER / N).enumerate() {
            for (from, to) in from.as_chunks::<N>().0.iter().zip(to) {
                *to = from[n];
            }
        }
    }
}

const fn paired() -> [u8; SUPER / 4] {
    let (order, mut sources) = ([0, 2, 1, 3, 4, 6, 5, 7], [0; SUPER / 4]);
    let mut i = 0;
    while i < sources.len() {
        sources[i] = order[i / 8] * 8 + (i % 8) as u8;
        i += 1;
    }
    sources
}

/// Separates the parts of `unit` fours of each eight groups (four of `Halved`); a group has `group` fours.
const fn apart(unit: usize, group: usize) -> [u8; SUPER / 4] {
    let together = if unit == 4 { 4 } else { 8 };
    let (span, mut sources) = (together * group, [0; SUPER / 4]);
    let mut i = 0;
    while i < sources.len() {
        let (part, within) = (i % span / (together * unit), i % (together * unit));
        sources[i] = (i / span * span + within / unit * group + part * unit + within % unit) as u8;
        i += 1;
    }
    sources
}

/// Rearranges whole panels: the fours of two groups of so many in turn; between two groups of eight lies another.
fn take_turns<const GROUP: usize>(values: &[u8], to: &mut [u8]) {
    let (apart, values, to) =
        (if GROUP == 4 { 4 } else { 16 }, values.as_chunks::<4>().0, to.as_chunks_mut::<4>().0);
    for (from, to) in values.chunks_exact(2 * apart).zip(to.chunks_exact_mut(2 * apart)) {
        let (first, second) = from.split_at(apart);
        let groups = first.as_chunks::<GROUP>().0.iter().zip(second.as_chunks::<GROUP>().0);
        for ((first, second), to) in groups.zip(to.chunks_exact_mut(2 * GROUP)) {
            for ((a, b), to) in first.iter().zip(second).zip(to.as_chunks_mut::<2>().0) {
                *to = [*a, *b];
            }
        }
    }
}

const fn digits() -> [u8; 80] {
    let mut sources = [ZEROS; 80];
    let mut n = 0;
    while n < 5 {
        let mut i = 0;
        while i < 8 {
            sources[16 * n + i] = (8 * n + i) as u8;
            i += 1;
        }
        while i < 12 {
            sources[16 * n + i] = (40 + 4 * n + i - 8) as u8;
            i += 1;
        }
        if n < 4 {
            sources[16 * n + 12] = (60 + n) as u8;
        }
        n += 1;
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fours of two groups of so many in turn; between two groups of eight lies another.
    fn in_turn(group: usize) -> Vec<u8> {
        let (apart, mut sources) = (if group == 4 { 4 } else { 16 }, vec![0; SUPER / 4]);
        let mut i = 0;
        while i < sources.len() {
            let (span, within) = (i / (2 * apart) * (2 * apart), i % (2 * apart));
            let (pair, at) = (within / (2 * group), within % (2 * group));
            sources[i] = (span + pair * group + at % 2 * apart + at / 2) as u8;
            i += 1;
        }
        sources
    }

    #[test]
    fn orders_have_every_value_once() {
        let values: Vec<u8> = (0..=255).collect();
        let all = [
            ActivationLayout::Paired,
            ActivationLayout::Halved,
            ActivationLayout::EveryEighth,
            ActivationLayout::EveryFourth,
            ActivationLayout::Sixteens,
            ActivationLayout::PairedSixteens,
            ActivationLayout::PairedGroups,
            ActivationLayout::Digits,
        ];
        assert_eq!(all.len(), ActivationLayout::COUNT);
        for order in all {
            let mut to = vec![0; order.panel()];
            order.arrange(&values, &mut to);
            let mut seen: Vec<u8> = to.iter().copied().filter(|&v| v != 0).collect();
            seen.sort_unstable();
            assert_eq!(seen, values[1..], "{order:?}");
            let wanted = match order {
                ActivationLayout::EveryEighth | ActivationLayout::EveryFourth => continue,
                ActivationLayout::PairedSixteens => in_turn(4),
                ActivationLayout::PairedGroups => in_turn(8),
                _ => order.sources().iter().map(|&from| if from == ZEROS { 0 } else { from }).collect(),
            };
            let fours: Vec<u8> = to.chunks(4).map(|four| four[0] / 4).collect();
            assert_eq!(fours, wanted, "{order:?}");
        }
        let first = |order: ActivationLayout, at: usize| {
            let mut to = vec![0; order.panel()];
            order.arrange(&values, &mut to);
            to[at]
        };
        assert_eq!([4, 8, 32].map(|at| first(ActivationLayout::PairedSixteens, at)), [16, 4, 32]);
        assert_eq!([4, 8, 64, 128].map(|at| first(ActivationLayout::PairedGroups, at)), [64, 4, 32, 128]);
        assert_eq!([first(ActivationLayout::Paired, 32), first(ActivationLayout::Paired, 64)], [64, 32]);
        assert_eq!(
            [
                first(ActivationLayout::Halved, 16),
                first(ActivationLayout::Halved, 64),
                first(ActivationLayout::Halved, 128)
            ],
            [32, 16, 128]
        );
        assert_eq!(
            [first(ActivationLayout::EveryEighth, 1), first(ActivationLayout::EveryEighth, 32)],
            [8, 1]
        );
        assert_eq!(
            [first(ActivationLayout::EveryFourth, 1), first(ActivationLayout::EveryFourth, 64)],
            [4, 1]
        );
        assert_eq!(
            [
                first(ActivationLayout::Sixteens, 8),
                first(ActivationLayout::Sixteens, 64),
                first(ActivationLayout::Sixteens, 128)
            ],
            [16, 8, 128]
        );
        assert_eq!(
            [
                first(ActivationLayout::Digits, 64),
                first(ActivationLayout::Digits, 32),
                first(ActivationLayout::Digits, 48)
            ],
            [32, 160, 240]
        );
    }
}
