//! Orders of the values of rows that spare kernels shuffles.

use crate::blocks::SUPER;

/// An order of the values of a panel of 256: as the blocks of some formats have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The 32s in the order 0 2 | 1 3 | 4 6 | 5 7: as the nibbles of Q4_K lie.
    Paired,
    /// The halves of each four 32s apart: as the nibbles of four blocks of Q4_0 lie.
    Halved,
    /// The first of every eight, then the second of every eight, and so on: as the entries of code books are looked up.
    EveryEighth,
    /// The same of every four.
    EveryFourth,
    /// The halves of each eight 16s apart: as the nibbles of two blocks of NVFP4 lie.
    Sixteens,
    /// Each two 16s that follow one another, four values of each in turn: as the tiles of wide formats are multiplied.
    PairedSixteens,
    /// The same of 32s, 0 and 2, 1 and 3, 4 and 6, 5 and 7.
    PairedGroups,
    /// As the digits of TQ1_0 lie: five times those of 52 bytes, filled up with zeros to 64.
    Digits,
}

/// Stands for four zeros.
const ZEROS: u8 = u8::MAX;

impl Layout {
    /// How many there are.
    pub(super) const COUNT: usize = 8;

    /// The values of a panel, those filled up included.
    pub(crate) fn panel(self) -> usize {
        match self {
            Layout::EveryEighth | Layout::EveryFourth | Layout::PairedSixteens | Layout::PairedGroups => {
                SUPER
            }
            _ => 4 * self.sources().len(),
        }
    }

    /// Which four values of the panel stand at each place; none of orders that `arrange` makes by a function of their own.
    fn sources(self) -> &'static [u8] {
        match self {
            Layout::Paired => &const { paired() },
            Layout::Halved => &const { apart(4, 8) },
            Layout::EveryEighth | Layout::EveryFourth | Layout::PairedSixteens | Layout::PairedGroups => &[],
            Layout::Sixteens => &const { apart(2, 4) },
            Layout::Digits => &const { digits() },
        }
    }

    /// Arranges whole panels.
    pub(super) fn arrange(self, values: &[u8], to: &mut [u8]) {
        match self {
            Layout::EveryEighth => return every::<8>(values, to),
            Layout::EveryFourth => return every::<4>(values, to),
            Layout::PairedSixteens => return take_turns::<4>(values, to),
            Layout::PairedGroups => return take_turns::<8>(values, to),
            _ => {}
        }
        for (from, to) in values.chunks_exact(SUPER).zip(to.chunks_exact_mut(self.panel())) {
            for (&source, to) in self.sources().iter().zip(to.as_chunks_mut::<4>().0) {
                *to = from.as_chunks::<4>().0.get(usize::from(source)).copied().unwrap_or_default();
            }
        }
    }
}

/// Arranges whole panels: the first of every `N`, then the second of every `N`, and so on.
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

/// Of each eight groups (four of `Halved`), the parts of `unit` fours apart; a group has `group` fours.
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

/// Arranges whole panels: the fours of two groups of so many in turn; between two groups of eight lies another.
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
            Layout::Paired,
            Layout::Halved,
            Layout::EveryEighth,
            Layout::EveryFourth,
            Layout::Sixteens,
            Layout::PairedSixteens,
            Layout::PairedGroups,
            Layout::Digits,
        ];
        assert_eq!(all.len(), Layout::COUNT);
        for order in all {
            let mut to = vec![0; order.panel()];
            order.arrange(&values, &mut to);
            let mut seen: Vec<u8> = to.iter().copied().filter(|&v| v != 0).collect();
            seen.sort_unstable();
            assert_eq!(seen, values[1..], "{order:?}");
            let wanted = match order {
                Layout::EveryEighth | Layout::EveryFourth => continue,
                Layout::PairedSixteens => in_turn(4),
                Layout::PairedGroups => in_turn(8),
                _ => order.sources().iter().map(|&from| if from == ZEROS { 0 } else { from }).collect(),
            };
            let fours: Vec<u8> = to.chunks(4).map(|four| four[0] / 4).collect();
            assert_eq!(fours, wanted, "{order:?}");
        }
        let first = |order: Layout, at: usize| {
            let mut to = vec![0; order.panel()];
            order.arrange(&values, &mut to);
            to[at]
        };
        assert_eq!([4, 8, 32].map(|at| first(Layout::PairedSixteens, at)), [16, 4, 32]);
        assert_eq!([4, 8, 64, 128].map(|at| first(Layout::PairedGroups, at)), [64, 4, 32, 128]);
        assert_eq!([first(Layout::Paired, 32), first(Layout::Paired, 64)], [64, 32]);
        assert_eq!(
            [first(Layout::Halved, 16), first(Layout::Halved, 64), first(Layout::Halved, 128)],
            [32, 16, 128]
        );
        assert_eq!([first(Layout::EveryEighth, 1), first(Layout::EveryEighth, 32)], [8, 1]);
        assert_eq!([first(Layout::EveryFourth, 1), first(Layout::EveryFourth, 64)], [4, 1]);
        assert_eq!(
            [first(Layout::Sixteens, 8), first(Layout::Sixteens, 64), first(Layout::Sixteens, 128)],
            [16, 8, 128]
        );
        assert_eq!(
            [first(Layout::Digits, 64), first(Layout::Digits, 32), first(Layout::Digits, 48)],
            [32, 160, 240]
        );
    }
}
