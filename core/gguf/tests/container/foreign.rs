//! Files that are something else are named, and paths that are no files.

use std::fs;
use std::path::Path;

use gguf_file::{GgufFile, OpenOptions};
use menagerie_random::SplitMix64;

use crate::raw::{Raw, says};

fn content(bytes: &[u8]) -> String {
    let from_memory = Raw(bytes.to_vec()).error();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, bytes).unwrap();
    for mmap in [true, false] {
        let error = GgufFile::open(&path, &OpenOptions::default().with_mmap(mmap)).unwrap_err().to_string();
        assert_eq!(error.replace(&path.display().to_string(), "m.gguf"), from_memory);
    }
    from_memory
}

#[test]
fn contents() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4692669952\n";
    for (bytes, words) in [
        (&b""[..], ["empty (0 bytes)", "download the file again"]),
        (b"GGU", ["ends after 3 bytes", "download the file again"]),
        (pointer, ["git-lfs pointer (the real file has 4692669952 bytes)", "git lfs pull"]),
        (b"\n <!DOCTYPE HTML><html>", ["a web page (HTML)", "'/resolve/'"]),
        (b"<html lang=en>", ["a web page (HTML)", "log in"]),
        (b"<?xml version=\"1.0\"?><Error>", ["an XML document", "download again"]),
        (b"{\"architectures\": [", ["a JSON text", ".gguf file"]),
        (b"lmgg\x01\0\0\0", ["a GGML file (magic 'ggml'", "replaced by GGUF"]),
        (b"fmgg\x01\0\0\0", ["a GGMF file", "convert the original model"]),
        (b"tjgg\x03\0\0\0", ["a GGJT file (magic 'ggjt'", "replaced by GGUF"]),
        (b"algg\x01\0\0\0", ["a GGLA file (magic 'ggla'", "LoRA"]),
        (b"ggjt\0\0\0\x03", ["a GGJT file", "big-endian machine"]),
        (b"FUGG\0\0\0\x03", ["bytes swapped", "convert"]),
        (b"PK\x03\x04\x14\0", ["a zip archive", "unpack"]),
        (b"\x1f\x8b\x08\0", ["a gzip file", "gunzip"]),
        (b"\x80\x02}q\0X", ["a Python pickle", "convert"]),
        (b"\x04\0\0\0\0\0\0\0{}  ", ["a safetensors file", "give the folder it is in"]),
        (b"Not found", ["a text file that begins with 'Not found'", ".gguf file"]),
        (&[0; 4096], ["begins with zeros", "download the file again"]),
        (b"\xde\xad\xbe\xef\x01\x02\x03\x04\x05", ["it begins with de ad be ef 01 02 03 04", "47 47 55 46"]),
    ] {
        let text = content(bytes);
        says(&text, &["m.gguf: not a GGUF file: "]);
        says(&text, &words);
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = SplitMix64::new(1);
    for length in 1..300 {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        says(&Raw(bytes).error(), &["not a GGUF file"]);
    }
}

fn refused(path: &Path) -> String {
    let mapped = GgufFile::open(path, &OpenOptions::default().with_mmap(true)).unwrap_err().to_string();
    assert_eq!(
        mapped,
        GgufFile::open(path, &OpenOptions::default().with_mmap(false)).unwrap_err().to_string()
    );
    mapped
}

#[test]
fn paths() {
    let folder = tempfile::tempdir().unwrap();
    says(&refused(folder.path()), &["is a directory, not a regular file", "there is none in this folder"]);
    says(&refused(&folder.path().join("no.gguf")), &["no.gguf: cannot open the file"]);
    for number in 0..7 {
        fs::write(folder.path().join(format!("m{number}.gguf")), b"").unwrap();
    }
    says(
        &refused(folder.path()),
        &["this folder has m0.gguf, m1.gguf, m2.gguf, m3.gguf, m4.gguf, and 2 more"],
    );
    says(&refused(&folder.path().join("no.gguf")), &["cannot open the file", "; this folder has m0.gguf"]);
    says(&refused(&folder.path().join("m0.gguf/inside")), &["cannot open the file"]);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_do_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.gguf");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    says(&refused(&pipe), &["is a pipe, not a regular file", "save its content to a file"]);
    says(&refused(Path::new("/dev/zero")), &["is a device, not a regular file"]);
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    says(&refused(&folder.path().join("socket")), &["is a socket"]);
}
