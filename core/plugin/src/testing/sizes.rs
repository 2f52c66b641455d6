//! Dims of roles: symbols and what they are.

use std::collections::BTreeMap;

/// What symbols are, those of options and those that tensors bind.
#[derive(Clone, Debug, Default)]
pub(super) struct DimSizes {
    known: BTreeMap<String, u64>,
}

/// Elements of a symbol that nothing says.
const FREE: u64 = 16;

impl DimSizes {
    pub(super) fn set(&mut self, symbol: &str, size: u64) {
        self.known.insert(symbol.to_owned(), size);
    }

    pub(super) fn get(&self, symbol: &str) -> Option<u64> {
        self.known.get(symbol).copied()
    }

    /// Elements of a dim: sums of products, `/n` at a product's end; symbols that are not known are bound.
    pub(super) fn dim(&mut self, text: &str) -> Result<u64, String> {
        let wrong = || {
            format!("dim {text:?}: expected a sum of products of symbols and numbers that does not overflow")
        };
        let mut sum = 0u64;
        for product in text.split('+') {
            let (factors, divisor) = product.split_once('/').unwrap_or((product, "1"));
            let divisor =
                divisor.trim().parse::<u64>().ok().filter(|divisor| *divisor > 0).ok_or_else(wrong)?;
            let mut elements = 1u64;
            for factor in factors.split('*').map(str::trim) {
                elements = elements.checked_mul(self.factor(factor).ok_or_else(wrong)?).ok_or_else(wrong)?;
            }
            sum = sum.checked_add(elements / divisor).ok_or_else(wrong)?;
        }
        Ok(sum)
    }

    fn factor(&mut self, factor: &str) -> Option<u64> {
        if factor.bytes().all(|byte| byte.is_ascii_digit()) {
            return factor.parse().ok();
        }
        let symbol = factor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        symbol.then(|| *self.known.entry(factor.to_owned()).or_insert(FREE))
    }
}
