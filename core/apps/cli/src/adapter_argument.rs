//! `--lora PATH[=WEIGHT]`.

use menagerie::pipeline::GivenAdapter;
use menagerie::spec::AdapterKind;
use std::path::{Path, PathBuf};

/// An adapter and its weight; a path that has `=` in its name is one where there is such a file or folder.
pub(crate) fn lora(text: &str) -> Result<GivenAdapter, String> {
    let whole = || GivenAdapter { kind: AdapterKind::Lora, path: PathBuf::from(text), weight: 1.0 };
    let Some((path, weight)) = text.rsplit_once('=').filter(|_| !Path::new(text).exists()) else {
        return Ok(whole());
    };
    let value: f32 = weight.parse().map_err(|_| format!("weight `{weight}` is not a number"))?;
    if !value.is_finite() {
        return Err(format!("weight `{weight}` is not finite"));
    }
    Ok(GivenAdapter { path: PathBuf::from(path), weight: value, ..whole() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_follows_the_last_equals_sign() {
        let found = lora("some/adapter=0.5").unwrap();
        assert_eq!((found.path.to_str().unwrap(), found.weight), ("some/adapter", 0.5));
        assert_eq!(lora("a=b=-2").unwrap().path.to_str().unwrap(), "a=b");
        assert_eq!(lora("adapter").unwrap().weight, 1.0);
        assert!(lora("adapter=much").unwrap_err().contains("`much`"));
        assert!(lora("adapter=inf").is_err());
    }
}
