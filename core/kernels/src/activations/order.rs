//! Orders of the values of a single row that spare the one-row kernels shuffles.

use crate::blocks::SUPER;

/// An order of the values of a panel of 256: as the blocks of some formats have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The 32s in the order 0 2 | 1 3 | 4 6 | 5 7: as the nibbles of Q4_K lie.
    Paired,
    /// The halves of each four 32s apart: as the nibbles of four blocks of Q4_0 lie.
    Halved,
    /// The first eight of every 32, then the second eight, and so on: as the entries of code books are looked up.
    Quartered,
    /// The halves of each eight 16s apart: as the nibbles of two blocks of NVFP4 lie.
    Sixteens,
    /// As the digits of TQ1_0 lie: five times those of 52 bytes, filled up with zeros to 64.
    Digits,
}

/// Stands for four zeros.
const ZEROS: u8 = u8::MAX;

impl Order {
    /// How many there are.
    pub(super) const COUNT: usize = 5;

    /// The values of a panel, those filled up included.
    pub(crate) fn panel(self) -> usize {
        4 * self.sources().len()
    }

    /// Which four values of the panel stand at each place.
    fn sources(self) -> &'static [u8] {
        match self {
            Order::Paired => &const { paired() },
            Order::Halved => &const { apart(4, 8) },
            Order::Quartered => &const { apart(2, 8) },
            Order::Sixteens => &const { apart(2, 4) },
            Order::Digits => &const { digits() },
        }
    }

    /// Arranges whole panels.
    pub(super) fn arrange(self, values: &[u8], to: &mut [u8]) {
        for (from, to) in values.chunks_exact(SUPER).zip(to.chunks_exact_mut(self.panel())) {
            for (&source, to) in self.sources().iter().zip(to.as_chunks_mut::<4>().0) {
                *to = from.as_chunks::<4>().0.get(usize::from(source)).copied().unwrap_or_default();
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

    #[test]
    fn orders_have_every_value_once() {
        let values: Vec<u8> = (0..=255).collect();
        let all = [Order::Paired, Order::Halved, Order::Quartered, Order::Sixteens, Order::Digits];
        assert_eq!(all.len(), Order::COUNT);
        for order in all {
            let mut to = vec![0; order.panel()];
            order.arrange(&values, &mut to);
            let mut seen: Vec<u8> = to.iter().copied().filter(|&v| v != 0).collect();
            seen.sort_unstable();
            assert_eq!(seen, values[1..], "{order:?}");
        }
        let first = |order: Order, at: usize| {
            let mut to = vec![0; order.panel()];
            order.arrange(&values, &mut to);
            to[at]
        };
        assert_eq!([first(Order::Paired, 32), first(Order::Paired, 64)], [64, 32]);
        assert_eq!(
            [first(Order::Halved, 16), first(Order::Halved, 64), first(Order::Halved, 128)],
            [32, 16, 128]
        );
        assert_eq!([first(Order::Quartered, 8), first(Order::Quartered, 64)], [32, 8]);
        assert_eq!(
            [first(Order::Sixteens, 8), first(Order::Sixteens, 64), first(Order::Sixteens, 128)],
            [16, 8, 128]
        );
        assert_eq!(
            [first(Order::Digits, 64), first(Order::Digits, 32), first(Order::Digits, 48)],
            [32, 160, 240]
        );
    }
}
