//! From the stages of a chain to its steps.

use super::options::last;
use super::{
    Breakers, ChainStage, Dry, Generator, Infill, InfillVocabulary, LogitsStep, MinP, Penalties,
    SamplingError, SamplingOptions, TemperatureStep, TopK, TopP, Typical, Xtc,
};
use std::sync::Arc;

/// The random stream of XTC, which draws independently of the pick.
const XTC_STREAM: u64 = 1;

/// What some stages know about the vocabulary.
#[derive(Clone, Default)]
pub(crate) struct StageTexts {
    /// The sequences that end a repetition for DRY.
    pub(crate) breakers: Arc<Breakers>,
    /// The texts of tokens; [`ChainStage::Infill`] needs them.
    pub(crate) vocabulary: Option<InfillVocabulary>,
}

/// The steps of these stages that the options enable.
///
/// # Errors
/// A stage needs texts of tokens, and there are none.
pub(super) fn stage_steps(
    stages: &[ChainStage],
    options: &SamplingOptions,
    texts: &StageTexts,
    seed: u64,
) -> Result<Vec<Box<dyn LogitsStep>>, SamplingError> {
    stages.iter().filter_map(|stage| step(*stage, options, texts, seed).transpose()).collect()
}

/// The step of a stage in a chain with these options; `None` if they disable it.
///
/// # Errors
/// It needs texts of tokens, and there are none.
fn step(
    stage: ChainStage,
    options: &SamplingOptions,
    texts: &StageTexts,
    seed: u64,
) -> Result<Option<Box<dyn LogitsStep>>, SamplingError> {
    let min_keep = options.min_keep;
    Ok(match stage {
        ChainStage::Penalties => penalties(options),
        ChainStage::Dry if options.dry_multiplier > 0.0 && options.dry_last_n != 0 => Some(Box::new(Dry {
            multiplier: options.dry_multiplier,
            base: options.dry_base,
            allowed_length: options.dry_allowed_length,
            last: last(options.dry_last_n),
            breakers: Arc::clone(&texts.breakers),
        })),
        ChainStage::TopK if options.top_k > 0 => Some(Box::new(TopK(options.top_k.max(min_keep)))),
        ChainStage::Typical if options.typical_p < 1.0 => {
            Some(Box::new(Typical { p: options.typical_p, min_keep }))
        }
        ChainStage::TopP if options.top_p < 1.0 => Some(Box::new(TopP { p: options.top_p, min_keep })),
        ChainStage::MinP if options.min_p > 0.0 => Some(Box::new(MinP { p: options.min_p, min_keep })),
        ChainStage::Xtc if options.xtc_probability > 0.0 => {
            let (chance, generator) = (options.xtc_probability, Generator::stream(seed, XTC_STREAM));
            Some(Box::new(Xtc::new(chance, options.xtc_threshold, min_keep, generator)))
        }
        ChainStage::Temperature if options.temperature != 1.0 => {
            Some(Box::new(TemperatureStep(options.temperature)))
        }
        ChainStage::Infill => {
            let vocabulary = texts.vocabulary.clone().ok_or_else(|| SamplingError::Sampler {
                name: stage.name().to_owned(),
                message: "it needs the texts of tokens, and the model has no tokenizer".to_owned(),
            })?;
            Some(Box::new(Infill(vocabulary)))
        }
        _ => None,
    })
}

fn penalties(options: &SamplingOptions) -> Option<Box<dyn LogitsStep>> {
    let penalized =
        options.repeat_penalty != 1.0 || options.presence_penalty != 0.0 || options.frequency_penalty != 0.0;
    if !penalized || options.repeat_last_n == 0 {
        return None;
    }
    Some(Box::new(Penalties {
        last: last(options.repeat_last_n),
        repeat: options.repeat_penalty,
        frequency: options.frequency_penalty,
        presence: options.presence_penalty,
    }))
}
