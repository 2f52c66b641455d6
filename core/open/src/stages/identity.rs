//! [`identity`]: what the stages of a model must have in common.

use crate::error::LoadError;
use crate::fingerprint;
use crate::mixture_option::{ExpertOption, GateOption, MixtureOption};
use crate::options::{AdapterOption, LoadOptions, LoadQuantization};
use crate::resolved::ResolvedFile;
use menagerie_adapters::XLora;
use menagerie_model::Compute;
use menagerie_spec::AdapterKind;
use menagerie_stages::Identity;
use std::path::PathBuf;

/// What the stages of a model must have in common.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn identity(
    resolved: &ResolvedFile,
    options: &LoadOptions,
    compute: &Compute,
) -> Result<Identity, LoadError> {
    let spec = fingerprint::of_model(resolved).map_err(|error| LoadError::Stages {
        file: resolved.file_name(),
        reason: format!("its config cannot be told from others: {error}"),
    })?;
    let mut weights = format!("{} bytes, {}", resolved.file.bytes(), files(resolved.file.paths())?);
    if let Some(quantization) = &options.weights.quantization {
        weights += &quantized(quantization)?;
    }
    if let Some(mixture) = &options.composition.mixture {
        weights += &mixed(mixture)?;
    }
    let adapters: Result<Vec<String>, LoadError> = options.composition.adapters.iter().map(adapter).collect();
    Ok(Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        spec: format!("{} {spec}", resolved.config().architecture),
        weights,
        arithmetic: fingerprint::arithmetic_name(compute),
        adapters: adapters?.join(", "),
    })
}

fn files<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<String, LoadError> {
    fingerprint::of_files(paths).map_err(|(path, error)| LoadError::Stages {
        file: path.display().to_string(),
        reason: error.to_string(),
    })
}

/// The quantization of the weights while loading, and its importance matrix.
fn quantized(quantization: &LoadQuantization) -> Result<String, LoadError> {
    let LoadQuantization { policy, importance, .. } = quantization;
    let importance = importance.as_ref().map(|(file, _)| files([&PathBuf::from(file)])).transpose()?;
    let importance = importance.map(|hash| format!(" by importance {hash}")).unwrap_or_default();
    Ok(format!(", quantized to {}{importance}", policy.file_type()))
}

/// The parts of a mixture, and its gate.
fn mixed(mixture: &MixtureOption) -> Result<String, LoadError> {
    let MixtureOption { layers, experts, gate, choose } = mixture;
    let mut text = format!(", mixture in layers {layers:?} by {choose:?} of");
    for expert in experts {
        text += &match expert {
            ExpertOption::Model(path) => format!(" {}", files([path])?),
            ExpertOption::Adapter { path, modules } => format!(" adapter {} {modules:?}", files([path])?),
        };
    }
    Ok(match gate {
        GateOption::File(path) => format!("{text} gate {}", files([path])?),
        GateOption::Always(expert) => format!("{text} always {expert}"),
    })
}

fn adapter(option: &AdapterOption) -> Result<String, LoadError> {
    let AdapterOption { kind, path, weight } = option;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut all = vec![path.clone()];
    if *kind == AdapterKind::XLora {
        // The adapters that it mixes can be in other folders.
        all.extend(XLora::member_folders(path)?);
    }
    Ok(format!("{} {name} x {weight}: {}", kind.name(), files(&all)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_quantize::Policy;
    use menagerie_spec::MixtureChoice;
    use std::sync::Arc;

    #[test]
    fn every_file_of_a_mixture_counts_and_who_chooses() {
        let folder = tempfile::tempdir().unwrap();
        let paths =
            ["expert.gguf", "adapter.safetensors", "gate.safetensors"].map(|name| folder.path().join(name));
        paths.iter().for_each(|path| std::fs::write(path, "as it was").unwrap());
        let [expert, adapter, gate] = paths.clone();
        let mixture = MixtureOption {
            layers: None,
            experts: vec![
                ExpertOption::Model(expert),
                ExpertOption::Adapter { path: adapter, modules: Some(vec!["up_proj".to_owned()]) },
            ],
            gate: GateOption::File(gate),
            choose: MixtureChoice::Token,
        };
        let first = mixed(&mixture).unwrap();
        assert_eq!(mixed(&mixture).unwrap(), first);
        let others = [
            MixtureOption { layers: Some(vec![1]), ..mixture.clone() },
            MixtureOption { choose: MixtureChoice::Prompt, ..mixture.clone() },
            MixtureOption { gate: GateOption::Always(1), ..mixture.clone() },
            MixtureOption { experts: mixture.experts[..1].to_vec(), ..mixture.clone() },
        ];
        assert!(others.iter().all(|other| mixed(other).unwrap() != first));
        for path in &paths {
            std::fs::write(path, "another").unwrap();
            assert_ne!(mixed(&mixture).unwrap(), first, "{}", path.display());
            std::fs::write(path, "as it was").unwrap();
        }
        std::fs::remove_file(&paths[2]).unwrap();
        assert!(mixed(&mixture).unwrap_err().to_string().contains("gate.safetensors"));
    }

    #[test]
    fn importance_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("i.gguf");
        let identity = |bytes: &str| {
            std::fs::write(&file, bytes).unwrap();
            let importance = Some((file.display().to_string(), Arc::default()));
            let policy = Policy::named("q4_k_m").unwrap();
            quantized(&LoadQuantization { policy, importance, requantize: false }).unwrap()
        };
        assert!(identity("one") == identity("one") && identity("one") != identity("other"));
    }
}
