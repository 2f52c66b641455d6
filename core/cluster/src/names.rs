//! Names of clusters, models and replicas: they are parts of keys.

use crate::error::ClusterError;

/// Most characters of a name.
const MOST: usize = 128;

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._-@".contains(character)
}

/// Checks a name that a user gave; `what` says what it names.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), ClusterError> {
    if !name.is_empty() && name.len() <= MOST && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(ClusterError::Options(format!(
        "the name of a {what} has 1 to {MOST} letters, digits and characters of `._-`, found {name:?}"
    )))
}

/// The name of a model in keys, from the name of its file and from text that identifies its weights.
pub fn model_name(file: &str, weights: &str) -> String {
    let name: String =
        file.chars().map(|one| if is_allowed(one) && one != '@' { one } else { '_' }).collect();
    format!("{}@{:08x}", &name[..name.len().min(MOST - 9)], hash(weights))
}

/// The part of a model's name that comes from its file.
pub(crate) fn file_part(model: &str) -> &str {
    model.rsplit_once('@').map_or(model, |(file, _)| file)
}

/// FNV-1a: it only keeps names apart; the weights themselves are compared by their whole identity.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_keys() {
        assert_eq!(model_name("a b/*.gguf", ""), "a_b__.gguf@811c9dc5");
        assert_ne!(model_name("a", "one"), model_name("a", "two"));
        assert!(model_name(&"x".repeat(500), "").len() <= MOST);
        assert_eq!(file_part(&model_name("a.gguf", "w")), "a.gguf");
        check_name("cluster", "prod-1.a_b").unwrap();
        for wrong in ["", "a/b", "*", "a b", "$x", "é", &"x".repeat(129)] {
            let said = check_name("cluster", wrong).unwrap_err().to_string();
            assert!(said.contains("name of a cluster"), "{said}");
        }
    }
}
