//! [`BreakerCache`]: DRY's sequence breakers, found once for the same strings.

use crate::capability::Tokenizing;
use crate::sampling::{Breakers, SamplingOptions};
use std::sync::Arc;

/// DRY's sequence breakers of the newest request that used DRY, with their strings.
#[derive(Default)]
pub(crate) struct BreakerCache(Option<(Vec<String>, Arc<Breakers>)>);

impl BreakerCache {
    /// The breakers of a request; none without a tokenizer or with DRY off.
    pub(crate) fn breakers(
        &mut self,
        tokenizer: Option<&dyn Tokenizing>,
        sampling: &SamplingOptions,
    ) -> Arc<Breakers> {
        let strings = &sampling.dry_breakers;
        let Some(tokenizer) = tokenizer.filter(|_| sampling.dry_multiplier > 0.0) else {
            return Arc::default();
        };
        if let Some((_, breakers)) = self.0.as_ref().filter(|(known, _)| known == strings) {
            return Arc::clone(breakers);
        }
        let pieces: Vec<String> = (0..tokenizer.vocabulary() as u32).map(|id| tokenizer.piece(id)).collect();
        let encode = |text: &str| tokenizer.encode(text).unwrap_or_default();
        let breakers = Arc::new(Breakers::find(strings, &pieces, &encode));
        self.0 = Some((strings.clone(), Arc::clone(&breakers)));
        breakers
    }
}
