//! Recognizes files that are not GGUF, and says what to do instead.

use crate::error::GgufErrorKind;

/// The first bytes of every GGUF file.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";

const DOWNLOAD: &str = "download the file again";
const CONVERT: &str =
    "convert the original model again with llama.cpp's convert_hf_to_gguf.py, or get its GGUF file";

/// Magics of model files before GGUF, as a word in the file and as a name (llama.cpp before August 2023).
const OLD: [(&[u8; 4], &str); 6] = [
    (b"lmgg", "a GGML file (magic 'ggml', before 2023)"),
    (b"fmgg", "a GGMF file (magic 'ggmf', March 2023)"),
    (b"tjgg", "a GGJT file (magic 'ggjt', 2023)"),
    (b"algg", "a GGLA file (magic 'ggla', a LoRA adapter of 2023)"),
    (b"nsgg", "a GGSN file (magic 'ggsn', a session of llama.cpp)"),
    (b"qsgg", "a GGSQ file (magic 'ggsq', a saved sequence of llama.cpp)"),
];

/// Binary formats by their first bytes: bytes, name, advice.
const BINARY: &[(&[u8], &str, &str)] = &[
    (
        b"PK\x03\x04",
        "a zip archive (a PyTorch checkpoint, perhaps)",
        "unpack it, or get the model's GGUF file",
    ),
    (b"\x1f\x8b", "a gzip file", "unpack it first (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it first (unzstd)"),
    (b"\xfd7zXZ\0", "an xz file", "unpack it first (unxz)"),
    (b"BZh", "a bzip2 file", "unpack it first (bunzip2)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"Rar!", "a rar archive", "unpack it first"),
    (b"\x89HDF", "an HDF5 file (Keras weights, perhaps)", CONVERT),
    (b"\x80\x02", "a Python pickle (a PyTorch checkpoint, perhaps)", CONVERT),
    (b"%PDF", "a PDF document", "give the model's .gguf file"),
    (b"\x7fELF", "a program", "give the model's .gguf file"),
];

/// An error unless `head`, the first bytes of a file of `total` bytes, begins with GGUF's magic.
pub(crate) fn check(head: &[u8], total: u64) -> Result<(), GgufErrorKind> {
    if head.starts_with(&MAGIC) {
        return Ok(());
    }
    let (found, advice) = describe(head, total);
    Err(GgufErrorKind::NotGguf { found, advice })
}

fn describe(head: &[u8], total: u64) -> (String, String) {
    if total == 0 {
        return ("the file is empty (0 bytes)".into(), format!("the download was cut off: {DOWNLOAD}"));
    }
    if MAGIC.starts_with(head) {
        return (
            format!("the file ends after {total} bytes"),
            format!("the download was cut off: {DOWNLOAD}"),
        );
    }
    if head.starts_with(b"version https://git-lfs") {
        return lfs_pointer(head);
    }
    if let Some((_, name)) = OLD.iter().find(|(magic, _)| head.starts_with(&magic[..])) {
        return ((*name).to_string(), format!("this format was replaced by GGUF in 2023: {CONVERT}"));
    }
    if let Some((_, name)) = OLD.iter().find(|(magic, _)| magic.iter().rev().eq(head.iter().take(4))) {
        return (format!("{name}, written on a big-endian machine"), CONVERT.to_string());
    }
    if head.starts_with(b"FUGG") {
        return ("GGUF's magic with its bytes swapped ('FUGG')".into(), CONVERT.to_string());
    }
    if let Some((_, name, advice)) = BINARY.iter().find(|(magic, _, _)| head.starts_with(magic)) {
        return ((*name).to_string(), (*advice).to_string());
    }
    if is_safetensors(head, total) {
        let advice = "give the folder it is in, with its config.json, under a name that ends in .safetensors";
        return ("a safetensors file".into(), advice.into());
    }
    text(head).unwrap_or_else(|| binary(head))
}

fn lfs_pointer(head: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(head);
    let size =
        text.lines().find_map(|line| line.strip_prefix("size ")).and_then(|size| size.parse::<u64>().ok());
    let of = size.map(|size| format!(" (the real file has {size} bytes)")).unwrap_or_default();
    (
        format!("a git-lfs pointer{of}"),
        "run 'git lfs pull' in that repository, or download the file itself".into(),
    )
}

/// A length (u64) that fits the file, then a JSON object (safetensors' README, "Format").
fn is_safetensors(head: &[u8], total: u64) -> bool {
    let Some(length) = head.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else { return false };
    head.get(8) == Some(&b'{') && length >= 2 && length <= total.saturating_sub(8)
}

fn text(head: &[u8]) -> Option<(String, String)> {
    let body = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let start: Vec<u8> = body.iter().take(64).map(u8::to_ascii_lowercase).collect();
    if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") || start.starts_with(b"<head") {
        let advice = "the link led to a page, not to the file (on a model hub, use '/resolve/' where the link has '/blob/'; log in if asked)";
        return Some(("a web page (HTML)".into(), advice.into()));
    }
    if start.starts_with(b"<?xml") || start.starts_with(b"<error") {
        let advice = "the server's answer was saved in place of the file: look at it, then download again";
        return Some(("an XML document (an error message, perhaps)".into(), advice.into()));
    }
    if body.starts_with(b"{") || body.starts_with(b"[") {
        return Some((
            "a JSON text".into(),
            "give the model's .gguf file, or the folder this file is in".into(),
        ));
    }
    let shown = &head[..head.len().min(32)];
    let printable = shown.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let text = String::from_utf8_lossy(shown).escape_debug().to_string();
    (printable && !shown.is_empty())
        .then(|| (format!("a text file that begins with '{text}'"), "give the model's .gguf file".into()))
}

fn binary(head: &[u8]) -> (String, String) {
    let shown = &head[..head.len().min(8)];
    if shown.iter().all(|byte| *byte == 0) {
        return ("it begins with zeros (space was reserved but the data never came)".into(), DOWNLOAD.into());
    }
    let hex: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("it begins with {} where 'GGUF' (47 47 55 46) should be", hex.join(" ")), DOWNLOAD.into())
}
