//! [`StageFrame`]: a header of 64 bytes and a payload, both little-endian. A payload is the body of a message, followed by
//! rows. Between threads, the rows are passed beside the payload without a copy.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `MNGF` |
//! | 4..6 | version of the protocol |
//! | 6 | kind |
//! | 7 | type of the rows: 1 = f32 |
//! | 8..10 | flags: 1 = last chunk of a prompt, 2 = a row needs logits |
//! | 10..12 | stage of the sender |
//! | 12..16 | epoch of the request |
//! | 16..24 | request |
//! | 24..32 | sequence number of the frame on its link |
//! | 32..36 | step |
//! | 36..40 | position of the step's first row; or the number of an adapter or a hook |
//! | 40..44 | rows |
//! | 44..48 | elements of a row |
//! | 48..52 | milliseconds until the deadline |
//! | 52..56 | bytes of the payload, rows included |
//! | 56..60 | CRC-32C of the header (with 0 here) and, if the frame leaves the process, of the payload |
//! | 60..64 | bytes of the payload that are rows |

mod crc;
pub(crate) mod payload;

use crc::crc32c;

/// Bytes of a header.
pub const FRAME_HEADER_BYTES: usize = 64;

/// Largest payload, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// Version of the frames.
pub const FRAME_VERSION: u16 = 3;

const MAGIC: [u8; 4] = *b"MNGF";

/// Whether frames leave the process that sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Frames stay in the memory of one process: rows are passed without a copy, and the checksum covers the header.
    InMemory,
    /// Frames leave the process as bytes, and the checksum covers all of them.
    Serialized,
}

/// The purpose of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// What all stages must agree on; it returns to the chain once they do.
    Hello,
    /// A request begins: allocate its states.
    Open,
    /// Assigns a number to an adapter.
    Adapter,
    /// A step of one or several sequences.
    Step,
    /// The result of a step, from the last stage.
    Logits,
    /// A request ends.
    Close,
    /// A stage reports an error.
    Fault,
    /// Sent upstream: a stage has processed a frame, which returns a credit.
    Acknowledgment,
    /// Assigns a number to a hook.
    Hook,
    /// Requests recorded data from all stages; it returns to the chain after all of the data.
    Gather,
    /// A piece of the data that a stage recorded.
    Piece,
    /// Reads or writes the contents of a state.
    States,
    /// Asks for lost acknowledgments. It has no sequence number of its own; it carries that of the next frame.
    Poll,
}

impl FrameKind {
    pub(crate) const ALL: [Self; 13] = [
        Self::Hello,
        Self::Open,
        Self::Adapter,
        Self::Step,
        Self::Logits,
        Self::Close,
        Self::Fault,
        Self::Acknowledgment,
        Self::Hook,
        Self::Gather,
        Self::Piece,
        Self::States,
        Self::Poll,
    ];
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The purpose of the frame.
    pub kind: FrameKind,
    /// Whether a prompt ends with this step.
    pub last_chunk: bool,
    /// Whether a row needs logits.
    pub needs_logits: bool,
    /// The stage that sent it.
    pub stage: u16,
    /// How often the request's states have been allocated.
    pub epoch: u32,
    /// The request.
    pub request: u64,
    /// Sequence number of the frame on its link, from 0.
    pub number: u64,
    /// The number of the step.
    pub step: u32,
    /// Position of the step's first row; in a frame about an adapter or a hook, its number.
    pub position: u32,
    /// T: rows of the step.
    pub rows: u32,
    /// D: elements of a row.
    pub cols: u32,
    /// Milliseconds until the deadline of the step.
    pub deadline: u32,
}

impl FrameHeader {
    /// A header of a kind, with all other fields 0.
    pub fn of(kind: FrameKind) -> Self {
        Self {
            kind,
            last_chunk: false,
            needs_logits: false,
            stage: 0,
            epoch: 0,
            request: 0,
            number: 0,
            step: 0,
            position: 0,
            rows: 0,
            cols: 0,
            deadline: 0,
        }
    }
}

/// The contents of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameContent {
    /// The body of the message.
    pub body: Vec<u8>,
    /// Rows, concatenated.
    pub rows: Vec<f32>,
}

impl From<Vec<u8>> for FrameContent {
    fn from(body: Vec<u8>) -> Self {
        Self { body, rows: Vec::new() }
    }
}

/// A frame as a transport carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFrame {
    /// The header's bytes.
    pub head: [u8; FRAME_HEADER_BYTES],
    /// The payload.
    pub payload: Vec<u8>,
    /// The rows, if both ends share memory; empty for serialized frames.
    pub rows: Vec<f32>,
}

impl StageFrame {
    /// A frame with its checksum.
    ///
    /// # Errors
    /// A payload of more than 1 GiB.
    pub fn new(
        header: &FrameHeader,
        content: FrameContent,
        transport: TransportKind,
    ) -> Result<Self, String> {
        let FrameContent { body: mut payload, mut rows } = content;
        let of_rows = rows.len() * size_of::<f32>();
        let bytes = payload.len() + of_rows;
        if bytes > MOST_BYTES {
            return Err(format!(
                "a frame of {bytes} bytes is too large (at most {MOST_BYTES}): use smaller steps (--chunk)"
            ));
        }
        if transport == TransportKind::Serialized {
            append(&rows, &mut payload);
            rows = Vec::new();
        }
        let mut frame = Self { head: head_of(header, [bytes, of_rows]), payload, rows };
        let sum = frame.sum(transport);
        frame.head[56..60].copy_from_slice(&sum.to_le_bytes());
        Ok(frame)
    }

    /// The correct checksum.
    fn sum(&self, transport: TransportKind) -> u32 {
        let mut plain = self.head;
        plain[56..60].fill(0);
        match transport {
            TransportKind::InMemory => crc32c(&[&plain]),
            TransportKind::Serialized => crc32c(&[&plain, &self.payload]),
        }
    }

    /// The payload size that a header announces, for a reader of a stream.
    ///
    /// # Errors
    /// The bytes are not the header of a frame of this version, or announce more than 1 GiB.
    pub fn announced(head: &[u8; FRAME_HEADER_BYTES]) -> Result<usize, String> {
        if head[..4] != MAGIC {
            return Err("the received bytes are not a frame (wrong magic)".to_owned());
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != FRAME_VERSION {
            return Err(format!(
                "a frame of protocol version {version}, expected {FRAME_VERSION}: run the same version of menagerie for all stages"
            ));
        }
        let bytes = field(head, 52) as usize;
        if bytes > MOST_BYTES {
            return Err(format!("a frame announces {bytes} bytes, at most {MOST_BYTES} are allowed"));
        }
        Ok(bytes)
    }

    /// Checks lengths and checksum, and returns the header.
    ///
    /// # Errors
    /// The frame is damaged, or of an unknown kind.
    pub fn header(&self, transport: TransportKind) -> Result<FrameHeader, String> {
        let head = &self.head;
        let (announced, of_rows) = (Self::announced(head)?, field(head, 60) as usize);
        let beside = self.rows.len() * size_of::<f32>();
        let there = self.payload.len() + beside;
        if announced != there {
            return Err(format!("a frame announces {announced} bytes, found {there}"));
        }
        let (sum, stated) = (self.sum(transport), field(head, 56));
        if sum != stated {
            return Err(format!("the checksum is {sum:08x}, the frame states {stated:08x}"));
        }
        let fits = match transport {
            TransportKind::InMemory => of_rows == beside,
            TransportKind::Serialized => {
                beside == 0 && of_rows <= announced && of_rows.is_multiple_of(size_of::<f32>())
            }
        };
        if !fits {
            return Err(format!("a frame of {there} bytes announces {of_rows} bytes of rows"));
        }
        let kind = FrameKind::ALL.get(usize::from(head[6])).copied();
        let kind = kind.ok_or_else(|| format!("unknown frame kind {}", head[6]))?;
        if head[7] != 1 {
            return Err(format!("unknown row type {}", head[7]));
        }
        let flags = u16::from_le_bytes([head[8], head[9]]);
        Ok(FrameHeader {
            kind,
            last_chunk: flags & 1 != 0,
            needs_logits: flags & 2 != 0,
            stage: u16::from_le_bytes([head[10], head[11]]),
            epoch: field(head, 12),
            request: long(head, 16),
            number: long(head, 24),
            step: field(head, 32),
            position: field(head, 36),
            rows: field(head, 40),
            cols: field(head, 44),
            deadline: field(head, 48),
        })
    }

    /// Checks lengths and checksum, and returns the header and the contents.
    ///
    /// # Errors
    /// As [`Self::header`].
    pub fn open(self, transport: TransportKind) -> Result<(FrameHeader, FrameContent), String> {
        let header = self.header(transport)?;
        let of_rows = field(&self.head, 60) as usize;
        let Self { payload: mut body, mut rows, .. } = self;
        if transport == TransportKind::Serialized {
            let (values, _) = body[body.len() - of_rows..].as_chunks::<4>();
            rows = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            body.truncate(body.len() - of_rows);
        }
        Ok((header, FrameContent { body, rows }))
    }
}

/// Appends values as bytes.
fn append(values: &[f32], bytes: &mut Vec<u8>) {
    let from = bytes.len();
    bytes.resize(from + size_of_val(values), 0);
    let (places, _) = bytes[from..].as_chunks_mut::<4>();
    places.iter_mut().zip(values).for_each(|(place, value)| *place = value.to_le_bytes());
}

/// The bytes of a header without its checksum; `bytes` is the size of the payload, `of_rows` that of its rows.
fn head_of(header: &FrameHeader, [bytes, of_rows]: [usize; 2]) -> [u8; FRAME_HEADER_BYTES] {
    let kind = FrameKind::ALL.iter().position(|kind| *kind == header.kind).unwrap_or(0);
    let mut head = [0; FRAME_HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC);
    put(4, &FRAME_VERSION.to_le_bytes());
    put(6, &[kind as u8, 1]);
    let flags = u16::from(header.last_chunk) | u16::from(header.needs_logits) << 1;
    put(8, &flags.to_le_bytes());
    put(10, &header.stage.to_le_bytes());
    put(12, &header.epoch.to_le_bytes());
    put(16, &header.request.to_le_bytes());
    put(24, &header.number.to_le_bytes());
    for (at, field) in [
        (32, header.step),
        (36, header.position),
        (40, header.rows),
        (44, header.cols),
        (48, header.deadline),
        (52, bytes as u32),
        (60, of_rows as u32),
    ] {
        put(at, &field.to_le_bytes());
    }
    head
}

fn field(head: &[u8; FRAME_HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn long(head: &[u8; FRAME_HEADER_BYTES], at: usize) -> u64 {
    u64::from(field(head, at)) | u64::from(field(head, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> FrameContent {
        FrameContent { body: (0..40).collect(), rows: vec![0.5, -1.0, f32::MIN_POSITIVE] }
    }

    fn frame(transport: TransportKind) -> (FrameHeader, StageFrame) {
        let header = FrameHeader {
            last_chunk: true,
            stage: 3,
            epoch: 7,
            request: u64::MAX - 5,
            number: 1 << 40,
            step: 9,
            position: 4096,
            rows: 2,
            cols: 5,
            deadline: 60_000,
            ..FrameHeader::of(FrameKind::Step)
        };
        (header, StageFrame::new(&header, content(), transport).unwrap())
    }

    #[test]
    fn a_frame_round_trips() {
        for transport in [TransportKind::InMemory, TransportKind::Serialized] {
            let (header, frame) = frame(transport);
            assert_eq!(frame.open(transport).unwrap(), (header, content()));
            for kind in FrameKind::ALL {
                let bare =
                    StageFrame::new(&FrameHeader::of(kind), FrameContent::default(), transport).unwrap();
                assert_eq!(bare.header(transport).unwrap().kind, kind);
            }
        }
    }

    #[test]
    fn rows_are_moved_in_memory() {
        let content = content();
        let address = content.rows.as_ptr();
        let frame =
            StageFrame::new(&FrameHeader::of(FrameKind::Step), content, TransportKind::InMemory).unwrap();
        assert_eq!(frame.open(TransportKind::InMemory).unwrap().1.rows.as_ptr(), address);
    }

    #[test]
    fn every_bit_is_checked() {
        for transport in [TransportKind::InMemory, TransportKind::Serialized] {
            let (_, frame) = frame(transport);
            // In memory, only the header is checked.
            let checked = if transport == TransportKind::Serialized { frame.payload.len() } else { 0 };
            for at in 0..FRAME_HEADER_BYTES + checked {
                for bit in 0..8 {
                    let mut broken = frame.clone();
                    match at.checked_sub(FRAME_HEADER_BYTES) {
                        None => broken.head[at] ^= 1 << bit,
                        Some(at) => broken.payload[at] ^= 1 << bit,
                    }
                    assert!(broken.header(transport).is_err(), "{transport:?}, byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_frame_of_wrong_length_is_refused() {
        for transport in [TransportKind::InMemory, TransportKind::Serialized] {
            let (_, frame) = frame(transport);
            let more = StageFrame { rows: vec![0.0; 4], ..frame.clone() };
            let less = StageFrame { payload: frame.payload[1..].to_vec(), ..frame.clone() };
            let other = StageFrame {
                payload: frame.payload[4..].to_vec(),
                rows: vec![0.0; frame.rows.len() + 1],
                ..frame
            };
            for broken in [more, less, other] {
                assert!(broken.open(transport).is_err(), "{transport:?}");
            }
        }
    }

    #[test]
    fn bytes_that_are_not_a_frame_are_refused_before_their_length_is_used() {
        let mut head = frame(TransportKind::Serialized).1.head;
        head[52..56].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(StageFrame::announced(&head).unwrap_err().contains("at most 1073741824"));
        head[4] = 9;
        assert!(StageFrame::announced(&head).unwrap_err().contains("protocol version 9"));
        assert!(
            StageFrame::announced(&[b'x'; FRAME_HEADER_BYTES])
                .unwrap_err()
                .contains("not a frame (wrong magic)")
        );
    }
}
