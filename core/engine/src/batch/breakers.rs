//! [`KnownBreakers`]: DRY's breakers, looked up once for the same strings.

use crate::capability::Tokenizing;
use crate::request::Request;
use crate::sampling::Breakers;
use std::sync::Arc;

/// DRY's breakers, looked up once for the same strings.
#[derive(Default)]
pub(crate) struct KnownBreakers(Option<(Vec<String>, Arc<Breakers>)>);

impl KnownBreakers {
    /// The breakers of a request; none without a tokenizer, or where DRY is off.
    pub(crate) fn of(&mut self, tokenizer: Option<&dyn Tokenizing>, request: &Request) -> Arc<Breakers> {
        let strings = &request.sampling.dry_breakers;
        let Some(tokenizer) = tokenizer.filter(|_| request.sampling.dry_multiplier > 0.0) else {
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
