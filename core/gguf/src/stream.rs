//! Writes tensor data one tensor after the other, for files larger than memory.

use std::io::{self, Write};

use crate::error::{GgufError, GgufErrorKind, quoted};
use menagerie_files::AtomicFile;

/// A declared tensor: its name and the number of bytes that must follow.
#[derive(Debug, Clone)]
pub(crate) struct StreamTensor {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Accepts the data of the declared tensors in order, each exactly as long as declared, and pads between them.
#[derive(Debug)]
#[must_use = "a stream that is not finished leaves no file"]
pub struct TensorStream<W> {
    sink: W,
    plan: std::vec::IntoIter<StreamTensor>,
    alignment: u64,
    broken: bool,
}

fn failed(kind: GgufErrorKind) -> GgufError {
    GgufError::new("GGUF writer", kind)
}

impl<W: Write> TensorStream<W> {
    /// Writes the header, which ends where tensor data begins.
    pub(crate) fn begin(
        mut sink: W,
        header: &[u8],
        plan: Vec<StreamTensor>,
        alignment: u64,
    ) -> Result<Self, GgufError> {
        sink.write_all(header).map_err(|source| failed(GgufErrorKind::io("write the header", source)))?;
        Ok(Self { sink, plan: plan.into_iter(), alignment, broken: false })
    }

    /// The name and size in bytes of the next tensor.
    fn next_tensor(&self) -> Option<(&str, u64)> {
        self.plan.as_slice().first().map(|next| (next.name.as_str(), next.bytes))
    }

    /// Writes the data of the next tensor, which must be `name`.
    ///
    /// # Errors
    /// Another tensor is next, the data has another length, or the sink fails.
    pub fn tensor(&mut self, name: &str, data: &[u8]) -> Result<(), GgufError> {
        self.tensor_with(name, |out| out.write_all(data))
    }

    /// Writes the data of the next tensor, which must be `name`, chunk by chunk.
    ///
    /// # Errors
    /// The errors of [`Self::tensor`].
    pub fn tensor_chunks<B: AsRef<[u8]>>(
        &mut self,
        name: &str,
        chunks: impl IntoIterator<Item = B>,
    ) -> Result<(), GgufError> {
        self.tensor_with(name, |out| chunks.into_iter().try_for_each(|chunk| out.write_all(chunk.as_ref())))
    }

    /// Lets `fill` write the data of the next tensor, which must be `name`.
    ///
    /// # Errors
    /// The errors of [`Self::tensor`].
    pub fn tensor_with(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), GgufError> {
        self.check_whole()?;
        let expected = self
            .next_tensor()
            .map_or("all are written".into(), |(next, _)| format!("the next is {}", quoted(next.as_bytes())));
        let Some(planned) = self.plan.as_slice().first().filter(|next| next.name == name).cloned() else {
            let name = quoted(name.as_bytes());
            return Err(failed(GgufErrorKind::write(format!(
                "tensor {name} is not the next one: {expected}"
            ))));
        };
        // Until all of it is written: the remains of a failed write cannot be removed.
        self.broken = true;
        let mut exact = Exact { sink: &mut self.sink, left: planned.bytes };
        let filled = fill(&mut exact);
        let left = exact.left;
        let name = quoted(name.as_bytes());
        match filled {
            Err(source) if source.get_ref().is_some_and(|inner| inner.is::<TooMuch>()) => {
                let problem = format!("tensor {name} was given more than its {} bytes", planned.bytes);
                return Err(failed(GgufErrorKind::write(problem)));
            }
            Err(source) => return Err(failed(GgufErrorKind::io("write tensor data", source))),
            Ok(()) => {}
        }
        if left > 0 {
            let given = planned.bytes - left;
            let problem = format!("tensor {name} was given {given} of its {} bytes", planned.bytes);
            return Err(failed(GgufErrorKind::write(problem)));
        }
        self.plan.next();
        let padding = planned.bytes.next_multiple_of(self.alignment) - planned.bytes;
        io::copy(&mut io::Read::take(io::repeat(0), padding), &mut self.sink)
            .map_err(|source| failed(GgufErrorKind::io("write tensor data", source)))?;
        self.broken = false;
        Ok(())
    }

    fn check_whole(&self) -> Result<(), GgufError> {
        if self.broken {
            let problem = "the data of an earlier tensor was not written whole; begin the file again";
            return Err(failed(GgufErrorKind::write(problem)));
        }
        Ok(())
    }

    /// Flushes and returns the sink.
    ///
    /// # Errors
    /// Tensors are missing, or the sink fails.
    pub fn finish(mut self) -> Result<W, GgufError> {
        self.check_whole()?;
        if let Some((name, _)) = self.next_tensor() {
            let (name, left) = (quoted(name.as_bytes()), self.plan.len());
            return Err(failed(GgufErrorKind::write(format!(
                "{left} tensors have no data yet, the first is {name}"
            ))));
        }
        self.sink.flush().map_err(|source| failed(GgufErrorKind::io("write tensor data", source)))?;
        Ok(self.sink)
    }
}

impl TensorStream<AtomicFile> {
    /// Finishes the file and renames it to its path.
    ///
    /// # Errors
    /// Tensors are missing, or the system reports an error.
    pub fn commit(self) -> Result<(), GgufError> {
        Ok(self.finish()?.commit()?)
    }
}

/// Refuses more bytes than were declared.
struct Exact<'a, W> {
    sink: &'a mut W,
    left: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("more data than declared")]
struct TooMuch;

impl<W: Write> Write for Exact<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::other(TooMuch));
        }
        let written = self.sink.write(bytes)?;
        self.left = self.left.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
