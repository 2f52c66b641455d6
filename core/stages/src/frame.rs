//! [`Frame`]: a header of 64 bytes and a payload, both little-endian. A payload is what is told and, behind it, rows; between
//! threads the rows are beside it, as they are.
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
//! | 52..56 | bytes of the payload, rows included |
//! | 56..60 | CRC-32C of the header (with 0 here) and, where frames travel, the payload |
//! | 60..64 | bytes of the payload that are rows |

use crate::crc::crc32c;
use crate::transport::Carriage;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;

/// Most bytes of a payload.
pub const MOST_BYTES: usize = 1 << 30;

/// Version of the protocol.
pub(crate) const VERSION: u16 = 3;

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
    /// Asks for what was given back, where nothing comes: of no number itself, it says that of the next frame.
    Ask,
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
        Self::Done,
        Self::Hook,
        Self::Gather,
        Self::Gathered,
        Self::States,
        Self::Ask,
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

/// What a frame carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// What is told.
    pub told: Vec<u8>,
    /// Rows, one after the other.
    pub rows: Vec<f32>,
}

impl From<Vec<u8>> for Content {
    fn from(told: Vec<u8>) -> Self {
        Self { told, rows: Vec::new() }
    }
}

/// A frame as it is carried.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The header's bytes.
    pub head: [u8; HEADER_BYTES],
    /// The payload.
    pub payload: Vec<u8>,
    /// Its rows, in memory that both ends share; none where frames travel.
    pub rows: Vec<f32>,
}

impl Frame {
    /// A frame with its checksum.
    ///
    /// # Errors
    /// A payload of more than [`MOST_BYTES`].
    pub fn new(header: &Header, content: Content, carriage: Carriage) -> Result<Self, String> {
        let Content { told: mut payload, mut rows } = content;
        let of_rows = rows.len() * size_of::<f32>();
        let bytes = payload.len() + of_rows;
        if bytes > MOST_BYTES {
            return Err(format!(
                "a frame of {bytes} bytes, and {MOST_BYTES} are the most: take smaller steps (--chunk)"
            ));
        }
        if carriage == Carriage::Travels {
            append(&rows, &mut payload);
            rows = Vec::new();
        }
        let mut frame = Self { head: head_of(header, [bytes, of_rows]), payload, rows };
        let sum = frame.sum(carriage);
        frame.head[56..60].copy_from_slice(&sum.to_le_bytes());
        Ok(frame)
    }

    /// What its checksum must be.
    fn sum(&self, carriage: Carriage) -> u32 {
        let mut plain = self.head;
        plain[56..60].fill(0);
        match carriage {
            Carriage::InMemory => crc32c(&[&plain]),
            Carriage::Travels => crc32c(&[&plain, &self.payload]),
        }
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

    /// The header, once lengths and checksum are right.
    ///
    /// # Errors
    /// What is wrong with the frame.
    pub fn header(&self, carriage: Carriage) -> Result<Header, String> {
        let head = &self.head;
        let (announced, of_rows) = (Self::announced(head)?, field(head, 60) as usize);
        let beside = self.rows.len() * size_of::<f32>();
        let there = self.payload.len() + beside;
        if announced != there {
            return Err(format!("a frame announces {announced} bytes and has {there}"));
        }
        let (sum, stated) = (self.sum(carriage), field(head, 56));
        if sum != stated {
            return Err(format!("checksum {sum:08x}, and the frame says {stated:08x}"));
        }
        let fits = match carriage {
            Carriage::InMemory => of_rows == beside,
            Carriage::Travels => {
                beside == 0 && of_rows <= announced && of_rows.is_multiple_of(size_of::<f32>())
            }
        };
        if !fits {
            return Err(format!("a frame of {there} bytes announces {of_rows} bytes of rows"));
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

    /// The header and what the frame carries, once lengths and checksum are right.
    ///
    /// # Errors
    /// What is wrong with the frame.
    pub fn open(self, carriage: Carriage) -> Result<(Header, Content), String> {
        let header = self.header(carriage)?;
        let of_rows = field(&self.head, 60) as usize;
        let Self { payload: mut told, mut rows, .. } = self;
        if carriage == Carriage::Travels {
            let (values, _) = told[told.len() - of_rows..].as_chunks::<4>();
            rows = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            told.truncate(told.len() - of_rows);
        }
        Ok((header, Content { told, rows }))
    }
}

/// Values as bytes behind others.
fn append(values: &[f32], bytes: &mut Vec<u8>) {
    let from = bytes.len();
    bytes.resize(from + size_of_val(values), 0);
    let (places, _) = bytes[from..].as_chunks_mut::<4>();
    places.iter_mut().zip(values).for_each(|(place, value)| *place = value.to_le_bytes());
}

/// The bytes of a header without its checksum; `bytes` of the payload, and of its rows.
fn head_of(header: &Header, [bytes, of_rows]: [usize; 2]) -> [u8; HEADER_BYTES] {
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
        (52, bytes as u32),
        (60, of_rows as u32),
    ] {
        put(at, &field.to_le_bytes());
    }
    head
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

    fn content() -> Content {
        Content { told: (0..40).collect(), rows: vec![0.5, -1.0, f32::MIN_POSITIVE] }
    }

    fn frame(carriage: Carriage) -> (Header, Frame) {
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
        (header, Frame::new(&header, content(), carriage).unwrap())
    }

    #[test]
    fn a_frame_comes_back_as_it_was() {
        for carriage in [Carriage::InMemory, Carriage::Travels] {
            let (header, frame) = frame(carriage);
            assert_eq!(frame.open(carriage).unwrap(), (header, content()));
            for kind in FrameKind::ALL {
                let bare = Frame::new(&Header::of(kind), Content::default(), carriage).unwrap();
                assert_eq!(bare.header(carriage).unwrap().kind, kind);
            }
        }
    }

    #[test]
    fn rows_are_moved_in_memory() {
        let content = content();
        let address = content.rows.as_ptr();
        let frame = Frame::new(&Header::of(FrameKind::Step), content, Carriage::InMemory).unwrap();
        assert_eq!(frame.open(Carriage::InMemory).unwrap().1.rows.as_ptr(), address);
    }

    #[test]
    fn every_bit_is_checked() {
        for carriage in [Carriage::InMemory, Carriage::Travels] {
            let (_, frame) = frame(carriage);
            // In memory nothing changes what is not the header.
            let checked = if carriage == Carriage::Travels { frame.payload.len() } else { 0 };
            for at in 0..HEADER_BYTES + checked {
                for bit in 0..8 {
                    let mut broken = frame.clone();
                    match at.checked_sub(HEADER_BYTES) {
                        None => broken.head[at] ^= 1 << bit,
                        Some(at) => broken.payload[at] ^= 1 << bit,
                    }
                    assert!(broken.header(carriage).is_err(), "{carriage:?}, byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_frame_that_is_cut_or_longer_is_refused() {
        for carriage in [Carriage::InMemory, Carriage::Travels] {
            let (_, frame) = frame(carriage);
            let more = Frame { rows: vec![0.0; 4], ..frame.clone() };
            let less = Frame { payload: frame.payload[1..].to_vec(), ..frame.clone() };
            let other = Frame {
                payload: frame.payload[4..].to_vec(),
                rows: vec![0.0; frame.rows.len() + 1],
                ..frame
            };
            for broken in [more, less, other] {
                assert!(broken.open(carriage).is_err(), "{carriage:?}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_its_length_is_believed() {
        let mut head = frame(Carriage::Travels).1.head;
        head[52..56].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Frame::announced(&head).unwrap_err().contains("1073741824 are the most"));
        head[4] = 9;
        assert!(Frame::announced(&head).unwrap_err().contains("protocol 9"));
        assert!(Frame::announced(&[b'x'; HEADER_BYTES]).unwrap_err().contains("does not begin like a frame"));
    }
}
