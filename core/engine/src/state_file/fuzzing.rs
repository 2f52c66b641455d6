//! State files as bytes, for fuzz targets: container, header and sections, without a model.

use super::container::{ContainerFault, ContainerReader, ContainerWriter};
use super::{StateHeader, checked_header, length};

/// The most tokens of a state: the context of the model that the fuzz target simulates.
const CONTEXT: usize = 64;

/// Reads a state file up to the point where rows would be written to a model's cache.
///
/// # Errors
/// The file is invalid.
#[doc(hidden)]
pub fn read_state(bytes: &[u8]) -> Result<(), String> {
    let text = |fault: ContainerFault| fault.to_string();
    let (mut reader, header) = ContainerReader::new(bytes, bytes.len() as u64).map_err(text)?;
    let StateHeader { identity, held, .. } = checked_header(&header)?;
    drop(identity.differences(&identity));
    if held.tokens > CONTEXT {
        return Err(format!("{} tokens; the most is {CONTEXT}", held.tokens));
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

/// Corrects magic, version, length of the header and checksums, so that changed bytes reach the code behind them.
/// `None` if there are fewer bytes than a container has.
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

/// A valid state file of a small model with an attention cache, a window, and a recurrent state with a snapshot.
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

/// The header of [`sample_state`], from its JSON.
fn sample_header() -> Result<StateHeader, String> {
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
