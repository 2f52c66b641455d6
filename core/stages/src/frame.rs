//! [`Frame`]: a header of 64 bytes and a payload, both little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `MNGF` |
//! | 4..6 | version of the protocol |
//! | 6 | kind |
//! | 7 | type of the rows: 1 = f32 |
//! | 8..10 | flags: 1 = last chunk of a prompt, 2 = logits are wanted |
//! | 10..12 | stage of the sender |
//! | 12..16 | epoch of the request |
//! | 16..24 | request |
//! | 24..32 | number of the frame on its link |
//! | 32..36 | step |
//! | 36..40 | position of the step's first row; the number of an adapter or a hook |
//! | 40..44 | rows |
//! | 44..48 | elements of a row |
//! | 48..52 | milliseconds that are left |
//! | 52..56 | bytes of the payload |
//! | 56..60 | CRC-32C of the header (with 0 here) and the payload |
//! | 60..64 | 0 |

use crate::crc::crc32c;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;

/// Most bytes of a payload.
pub const MOST_BYTES: usize = 1 << 30;

/// Version of the protocol.
pub(crate) const VERSION: u16 = 2;

const MAGIC: [u8; 4] = *b"MNGF";

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// What stages must agree on; comes round when all do.
    Hello,
    /// A request begins: room for its states.
    Open,
    /// An adapter that sets will name by number.
    Adapter,
    /// A step of some sequences.
    Step,
    /// What the last stage gives for a step.
    Logits,
    /// A request ends.
    Close,
    /// Something went wrong.
    Fault,
    /// Upstream: a stage has dealt with a frame, which is a credit for the next.
    Done,
    /// A hook that steps will name by number.
    Hook,
    /// What stages kept is asked for; comes round behind all of it.
    Gather,
    /// A piece of what a stage kept.
    Gathered,
    /// What a state of a request holds is read or written.
    States,
}

impl FrameKind {
    const ALL: [Self; 12] = [
        Self::Hello,
        Self::Open,
        Self::Adapter,
        Self::Step,
        Self::Logits,
        Self::Close,
        Self::Fault,
        Self::Done,
        Self::Hook,
        Self::Gather,
        Self::Gathered,
        Self::States,
    ];
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: FrameKind,
    /// Whether a prompt ends with this step.
    pub last_chunk: bool,
    /// Whether a row wants logits.
    pub wants_logits: bool,
    /// Who sent it.
    pub stage: u16,
    /// Which time the request's states were made.
    pub epoch: u32,
    /// The request.
    pub request: u64,
    /// Number of the frame on its link, from 0.
    pub number: u64,
    /// The step, counted by the chain.
    pub step: u32,
    /// Position of the step's first row; the number of an adapter or a hook, in a frame of one.
    pub position: u32,
    /// T: rows of the step.
    pub rows: u32,
    /// D: elements of a row.
    pub cols: u32,
    /// Milliseconds that are left for the step.
    pub deadline: u32,
}

impl Header {
    /// A header with nothing but its kind.
    pub fn of(kind: FrameKind) -> Self {
        Self {
            kind,
            last_chunk: false,
            wants_logits: false,
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

/// A frame as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The header's bytes.
    pub head: [u8; HEADER_BYTES],
    /// The payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// A frame with its checksum.
    ///
    /// # Errors
    /// A payload of more than [`MOST_BYTES`].
    pub fn new(header: &Header, payload: Vec<u8>) -> Result<Self, String> {
        if payload.len() > MOST_BYTES {
            return Err(format!(
                "a frame of {} bytes, and {MOST_BYTES} are the most: take smaller steps (--chunk)",
                payload.len()
            ));
        }
        let kind = FrameKind::ALL.iter().position(|kind| *kind == header.kind).unwrap_or(0);
        let mut head = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(4, &VERSION.to_le_bytes());
        put(6, &[kind as u8, 1]);
        let flags = u16::from(header.last_chunk) | u16::from(header.wants_logits) << 1;
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
        ] {
            put(at, &field.to_le_bytes());
        }
        put(52, &(payload.len() as u32).to_le_bytes());
        let sum = crc32c(&[&head, &payload]);
        head[56..60].copy_from_slice(&sum.to_le_bytes());
        Ok(Self { head, payload })
    }

    /// Bytes of the payload that a header announces, for whoever reads a stream.
    ///
    /// # Errors
    /// What begins otherwise than a frame of this version, or announces more than [`MOST_BYTES`].
    pub fn announced(head: &[u8; HEADER_BYTES]) -> Result<usize, String> {
        if head[..4] != MAGIC {
            return Err("what arrived does not begin like a frame".to_owned());
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != VERSION {
            return Err(format!(
                "a frame of protocol {version}, and this is {VERSION}: use the same menagerie for all stages"
            ));
        }
        let bytes = field(head, 52) as usize;
        if bytes > MOST_BYTES {
            return Err(format!("a frame announces {bytes} bytes, and {MOST_BYTES} are the most"));
        }
        Ok(bytes)
    }

    /// The header, once length and checksum are right.
    ///
    /// # Errors
    /// What is wrong with the frame.
    pub fn header(&self) -> Result<Header, String> {
        let head = &self.head;
        let announced = Self::announced(head)?;
        if announced != self.payload.len() {
            return Err(format!("a frame announces {announced} bytes and has {}", self.payload.len()));
        }
        let mut plain = *head;
        plain[56..60].fill(0);
        let (sum, stated) = (crc32c(&[&plain, &self.payload]), field(head, 56));
        if sum != stated {
            return Err(format!("checksum {sum:08x}, and the frame says {stated:08x}"));
        }
        let kind = FrameKind::ALL.get(usize::from(head[6])).copied();
        let kind = kind.ok_or_else(|| format!("frames of kind {} are not known", head[6]))?;
        if head[7] != 1 {
            return Err(format!("rows of type {} are not known", head[7]));
        }
        let flags = u16::from_le_bytes([head[8], head[9]]);
        Ok(Header {
            kind,
            last_chunk: flags & 1 != 0,
            wants_logits: flags & 2 != 0,
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
}

fn field(head: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn long(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(field(head, at)) | u64::from(field(head, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> (Header, Frame) {
        let header = Header {
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
            ..Header::of(FrameKind::Step)
        };
        (header, Frame::new(&header, (0..40).collect()).unwrap())
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        let (header, frame) = frame();
        assert_eq!(frame.header().unwrap(), header);
        for kind in FrameKind::ALL {
            assert_eq!(Frame::new(&Header::of(kind), Vec::new()).unwrap().header().unwrap().kind, kind);
        }
    }

    #[test]
    fn every_bit_is_checked() {
        let (_, frame) = frame();
        for at in 0..HEADER_BYTES + frame.payload.len() {
            for bit in 0..8 {
                let mut broken = frame.clone();
                match at.checked_sub(HEADER_BYTES) {
                    None => broken.head[at] ^= 1 << bit,
                    Some(at) => broken.payload[at] ^= 1 << bit,
                }
                assert!(broken.header().is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_its_length_is_believed() {
        let mut head = frame().1.head;
        head[52..56].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Frame::announced(&head).unwrap_err().contains("1073741824 are the most"));
        head[4] = 9;
        assert!(Frame::announced(&head).unwrap_err().contains("protocol 9"));
        assert!(Frame::announced(&[b'x'; HEADER_BYTES]).unwrap_err().contains("does not begin like a frame"));
    }
}
