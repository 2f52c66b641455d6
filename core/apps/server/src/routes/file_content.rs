//! [`FileContent`]: a file as the body of an answer.

use axum::body::Bytes;
use futures_core::Stream;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// The most bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A file that is sent part by part.
pub(super) struct FileContent(File);

impl FileContent {
    pub(super) async fn open(path: &Path) -> io::Result<Self> {
        File::open(path).await.map(Self)
    }
}

impl Stream for FileContent {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        let mut bytes = vec![0; CHUNK];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer));
        let count = buffer.filled().len();
        bytes.truncate(count);
        Poll::Ready(match read {
            Err(error) => Some(Err(error)),
            Ok(()) if count == 0 => None,
            Ok(()) => Some(Ok(Bytes::from(bytes))),
        })
    }
}
