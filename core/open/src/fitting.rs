//! [`fitting()`]: the context that fits into memory.

use crate::error::LoadError;
use crate::memory::MemoryEstimate;
use crate::notice::Notice;
use menagerie_engine::DEFAULT_CONTEXT;

/// The smallest context that is chosen when none is requested.
const SMALLEST_CONTEXT: usize = 512;

/// The context of models that do not state their training context.
const UNTRAINED_CONTEXT: usize = 4096;

/// Contexts are reduced to a multiple of this number of tokens.
const CONTEXT_STEP: usize = 256;

/// Refuses what does not fit into memory.
pub(crate) fn check_fits(file: &str, estimate: MemoryEstimate, fitting: usize) -> Result<(), LoadError> {
    if estimate.fits() {
        return Ok(());
    }
    Err(LoadError::Memory { file: file.to_owned(), estimate: Box::new(estimate), fitting })
}

/// The limits of a model's context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextLimits {
    /// Tokens of the training context, if the file states them.
    pub(crate) trained: Option<usize>,
    /// Learned positions, if it has them.
    pub(crate) learned_positions: Option<usize>,
}

/// The estimate for the requested context, or for the largest usual one that fits; at most the number of learned positions.
pub(crate) fn fitting(
    file: &str,
    ContextLimits { trained, learned_positions }: ContextLimits,
    requested: Option<usize>,
    estimate: &dyn Fn(usize) -> Result<MemoryEstimate, LoadError>,
    notices: &mut Vec<Notice>,
) -> Result<MemoryEstimate, LoadError> {
    let most = learned_positions.unwrap_or(usize::MAX);
    if let (Some(requested), Some(positions)) = (requested, learned_positions)
        && requested > positions
    {
        notices.push(Notice::Note(format!(
            "the context is {positions} tokens instead of {requested}: the model has no more learned positions"
        )));
    }
    let requested = requested.map(|tokens| tokens.min(most));
    let usual = trained.unwrap_or(UNTRAINED_CONTEXT).min(most).clamp(1, DEFAULT_CONTEXT);
    let memory = estimate(requested.unwrap_or(usual))?;
    if let (Some(context), Some(trained)) = (requested, trained)
        && context > trained
    {
        notices.push(Notice::PastTrained { context, trained });
    }
    if memory.fits() {
        return Ok(memory);
    }
    let smaller = largest_fitting(memory.context, estimate)?;
    if requested.is_some() || smaller < SMALLEST_CONTEXT {
        return check_fits(file, memory, smaller).map(|()| memory);
    }
    notices.push(Notice::SmallContext { context: smaller, usual });
    estimate(smaller)
}

/// The largest multiple of [`CONTEXT_STEP`] below `context` that fits; 0 if none does. More tokens never need less memory.
fn largest_fitting(
    context: usize,
    estimate: &dyn Fn(usize) -> Result<MemoryEstimate, LoadError>,
) -> Result<usize, LoadError> {
    let (mut fits, mut too_large) = (0, context.div_ceil(CONTEXT_STEP));
    while fits + 1 < too_large {
        let middle = fits.midpoint(too_large);
        if estimate(middle * CONTEXT_STEP)?.fits() {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    Ok(fits * CONTEXT_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes per token up to 4096 and one per token after that, like a model with windows and a few full layers.
    fn windowed(context: usize) -> Result<MemoryEstimate, LoadError> {
        let state = 100 * context.min(4096) + context.saturating_sub(4096);
        Ok(MemoryEstimate {
            state: state as u64,
            context,
            available: Some(420_000),
            ..MemoryEstimate::default()
        })
    }

    #[test]
    fn the_largest_context_that_fits_is_found_where_windows_bend_the_line() {
        assert_eq!(largest_fitting(8192, &windowed).unwrap(), 8192 - 256);
        assert_eq!(largest_fitting(100_000, &windowed).unwrap(), 14_336);
        let tight =
            |context| windowed(context).map(|memory| MemoryEstimate { available: Some(60_000), ..memory });
        assert_eq!(largest_fitting(8192, &tight).unwrap(), 512);
        let nothing =
            |context| windowed(context).map(|memory| MemoryEstimate { available: Some(9), ..memory });
        assert_eq!(largest_fitting(8192, &nothing).unwrap(), 0);
    }
}
