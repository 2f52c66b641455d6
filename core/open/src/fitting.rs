//! [`fitting()`]: the context that fits into memory.

use crate::error::LoadError;
use crate::memory::MemoryEstimate;
use crate::notice::Notice;
use menagerie_engine::DEFAULT_CONTEXT;

/// Fewest tokens a context is made smaller to where nobody asked for one.
const SMALLEST_CONTEXT: usize = 512;

/// Context of models that do not say what they were trained with.
const UNTRAINED_CONTEXT: usize = 4096;

/// Contexts are made smaller by whole multiples of so many tokens.
const CONTEXT_STEP: usize = 256;

/// Refuses what does not fit into memory.
pub(crate) fn check_fits(file: &str, estimate: MemoryEstimate, fitting: usize) -> Result<(), LoadError> {
    if estimate.fits() {
        return Ok(());
    }
    Err(LoadError::Memory { file: file.to_owned(), estimate: Box::new(estimate), fitting })
}

/// What bounds the context of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextLimits {
    /// Tokens it was trained with, if the file says.
    pub(crate) trained: Option<usize>,
    /// Learned positions, if it has them.
    pub(crate) learned_positions: Option<usize>,
}

/// The estimate for the context asked for, or for the largest usual one that fits; no more than there are learned positions.
pub(crate) fn fitting(
    file: &str,
    ContextLimits { trained, learned_positions }: ContextLimits,
    asked: Option<usize>,
    estimate: &dyn Fn(usize) -> Result<MemoryEstimate, LoadError>,
    notices: &mut Vec<Notice>,
) -> Result<MemoryEstimate, LoadError> {
    let most = learned_positions.unwrap_or(usize::MAX);
    if let (Some(asked), Some(positions)) = (asked, learned_positions)
        && asked > positions
    {
        notices.push(Notice::Note(format!(
            "a context of {asked} tokens was asked for, and is {positions}: the model has learned positions for {positions} tokens"
        )));
    }
    let asked = asked.map(|asked| asked.min(most));
    let usual = trained.unwrap_or(UNTRAINED_CONTEXT).min(most).clamp(1, DEFAULT_CONTEXT);
    let memory = estimate(asked.unwrap_or(usual))?;
    if let (Some(context), Some(trained)) = (asked, trained)
        && context > trained
    {
        notices.push(Notice::PastTrained { context, trained });
    }
    if memory.fits() {
        return Ok(memory);
    }
    let smaller = largest_fitting(memory.context, estimate)?;
    if asked.is_some() || smaller < SMALLEST_CONTEXT {
        return check_fits(file, memory, smaller).map(|()| memory);
    }
    notices.push(Notice::SmallContext { context: smaller, usual });
    estimate(smaller)
}

/// The largest multiple of [`CONTEXT_STEP`] below `context` that fits; 0 if none does. More tokens never need less.
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

    /// 100 bytes per token up to 4096, one per token after that: a window and a little that sees everything.
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
