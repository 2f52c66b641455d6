//! [`PayloadWriter`] and [`PayloadReader`]: little-endian fields of payloads. Every length is checked before it is used.

/// Appends fields.
#[derive(Default)]
pub(crate) struct PayloadWriter(pub(crate) Vec<u8>);

impl PayloadWriter {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A count, as u64.
    pub(crate) fn count(&mut self, value: usize) {
        self.u64(value as u64);
    }

    pub(crate) fn u32s(&mut self, values: &[u32]) {
        self.count(values.len());
        self.0.reserve(values.len() * 4);
        values.iter().for_each(|value| self.u32(*value));
    }

    pub(crate) fn f32s(&mut self, values: &[f32]) {
        self.count(values.len());
        self.0.reserve(values.len() * 4);
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// Reads fields in order. An error describes the field that is cut or impossible.
pub(crate) struct PayloadReader<'a> {
    rest: &'a [u8],
}

impl<'a> PayloadReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| format!("the payload ends {} bytes too early", count - self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| "a field is cut off".to_owned())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn number(&mut self) -> Result<usize, String> {
        let value = self.u64()?;
        usize::try_from(value).map_err(|_| format!("the number {value} is too large for this machine"))
    }

    /// The number of elements that follow, of at least `bytes` bytes each.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<usize, String> {
        let count = self.number()?;
        if count > self.rest.len() / bytes.max(1) {
            return Err(format!("{count} elements are announced, but only {} bytes follow", self.rest.len()));
        }
        Ok(count)
    }

    pub(crate) fn u32s(&mut self) -> Result<Vec<u32>, String> {
        let count = self.count(4)?;
        let (values, _) = self.take(count * 4)?.as_chunks::<4>();
        Ok(values.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    pub(crate) fn f32s(&mut self) -> Result<Vec<f32>, String> {
        let count = self.count(4)?;
        let (values, _) = self.take(count * 4)?.as_chunks::<4>();
        Ok(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let count = self.count(1)?;
        Ok(self.take(count)?.to_vec())
    }

    pub(crate) fn text(&mut self) -> Result<String, String> {
        String::from_utf8(self.bytes()?).map_err(|_| "a text is not UTF-8".to_owned())
    }

    /// Checks that nothing follows.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(format!("the payload has {more} unexpected bytes at its end")),
        }
    }
}
