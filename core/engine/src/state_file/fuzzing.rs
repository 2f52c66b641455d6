//! State files from bytes alone, for fuzz targets: container, header and sections, without a model.

use super::container::{ContainerReader, ContainerWriter, Fault};
use super::{Header, checked_header, length};

/// Most tokens of a state that is read: the context of the model that a fuzz target pretends to have.
const CONTEXT: usize = 64;

/// Reads a state file up to the point where rows would go into a model's cache.
///
/// # Errors
/// What is wrong with the file.
#[doc(hidden)]
pub fn read_state(bytes: &[u8]) -> Result<(), String> {
    let text = |fault: Fault| fault.to_string();
    let (mut reader, header) = ContainerReader::new(bytes, bytes.len() as u64).map_err(text)?;
    let Header { identity, held, .. } = checked_header(&header)?;
    drop(identity.differences(&identity));
    if held.tokens > CONTEXT {
        return Err(format!("{} tokens; {CONTEXT} are the most", held.tokens));
    }
    if let Some(fault) = held.fault(&sample_header()?.held) {
        return Err(fault);
    }
    for section in held.sections() {
        let bytes = length(&section, held.tokens).map_err(text)?;
        reader.begin(section.name(), bytes).map_err(text)?;
        let mut content = vec![0; usize::try_from(bytes).map_err(|error| error.to_string())?];
        reader.bytes(&mut content).map_err(text)?;
        reader.check(section.name()).map_err(text)?;
    }
    reader.end().map_err(text)
}

/// The same bytes with the right magic, version, length of the header and checksums, so that changed bytes reach the
/// code behind them. `None` if they are shorter than a container.
#[doc(hidden)]
pub fn sealed_state(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.get(12..)?.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?.min(rest.len());
    let (header, mut rest) = rest.split_at(length);
    rest = rest.get(32..)?;
    let mut writer = ContainerWriter::new(Vec::new(), header).ok()?;
    while let Some((length, content)) = rest.split_first_chunk::<8>() {
        let announced = u64::from_le_bytes(*length);
        let there = usize::try_from(announced).map_or(content.len(), |length| length.min(content.len()));
        writer.begin(announced).ok()?;
        writer.bytes(&content[..there]).ok()?;
        writer.seal().ok()?;
        rest = content.get(there + 32..).unwrap_or_default();
    }
    Some(writer.into_inner())
}

/// A valid state file of a small model: an attention cache, a window, a recurrent state with a snapshot.
///
/// # Errors
/// It cannot be written.
#[doc(hidden)]
pub fn sample_state() -> Result<Vec<u8>, String> {
    let header = sample_header()?;
    let text = |error: std::io::Error| error.to_string();
    let bytes = serde_json::to_vec(&header).map_err(|error| error.to_string())?;
    let mut writer = ContainerWriter::new(Vec::new(), &bytes).map_err(text)?;
    for (number, section) in header.held.sections().iter().enumerate() {
        let bytes = section.bytes(header.held.tokens).ok_or("a section without a length")?;
        writer.begin(bytes).map_err(text)?;
        writer.bytes(&vec![number as u8; bytes as usize]).map_err(text)?;
        writer.seal().map_err(text)?;
    }
    Ok(writer.into_inner())
}

/// The header of [`sample_state`], read from the JSON that such a file has.
fn sample_header() -> Result<Header, String> {
    checked_header(include_bytes!("sample.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_read_and_sealing_keeps_it() {
        let sample = sample_state().unwrap();
        read_state(&sample).unwrap();
        assert_eq!(sealed_state(&sample).unwrap(), sample);
        let held = sample_header().unwrap().held;
        assert!(held.sections().len() > 4 && held.tokens <= CONTEXT);
    }
}
