//! `--lora PATH[=WEIGHT]`.

use crate::arguments::name_or_path::path_and_number;
use menagerie::open::AdapterOption;
use menagerie::spec::AdapterKind;
use std::ffi::OsString;
use std::path::PathBuf;

/// Parses an adapter and its weight. A text with `=` that is the name of an existing file or folder is a path without a
/// weight.
pub(crate) fn lora(typed: OsString) -> Result<AdapterOption, String> {
    let adapter = |path: PathBuf| AdapterOption { kind: AdapterKind::Lora, path, weight: 1.0 };
    let Some((path, weight)) = path_and_number(&typed) else { return Ok(adapter(typed.into())) };
    let value: f32 = weight.parse().map_err(|_| format!("weight `{weight}` is not a number"))?;
    if !value.is_finite() {
        return Err(format!("weight `{weight}` is not finite"));
    }
    Ok(AdapterOption { weight: value, ..adapter(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_follows_the_last_equals_sign() {
        let lora = |text: &str| lora(text.into());
        let found = lora("some/adapter=0.5").unwrap();
        assert_eq!((found.path.to_str().unwrap(), found.weight), ("some/adapter", 0.5));
        assert_eq!(lora("a=b=-2").unwrap().path.to_str().unwrap(), "a=b");
        assert_eq!(lora("adapter").unwrap().weight, 1.0);
        assert!(lora("adapter=much").unwrap_err().contains("`much`"));
        assert!(lora("adapter=inf").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn a_path_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let found = lora(OsString::from_vec(b"caf\xe9=0.5".to_vec())).unwrap();
        assert_eq!((found.path.into_os_string().into_vec(), found.weight), (b"caf\xe9".to_vec(), 0.5));
    }
}
