//! The reader of one child: what it writes goes to its line, and so does the news of its end.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::connection::{LAST_WORDS, Stdin};
use super::pipe::{Frame, Noise};
use crate::base::clock;
use crate::upstream::line::Line;

/// Hands out what a child writes.
pub(super) struct Reader {
    /// Who waits.
    pub line: Arc<Line<Stdin>>,
    /// Counts what is no message.
    pub noise: Arc<Noise>,
}

impl Reader {
    /// Hands out what the child writes until it ends; `exit` says how it ended.
    pub async fn run(self, mut frames: mpsc::Receiver<Frame>, exit: impl Future<Output = String>) {
        tokio::pin!(exit);
        let ended = loop {
            // Both branches are safe to cancel.
            tokio::select! {
                biased;
                frame = frames.recv() => match frame {
                    Some(frame) => self.take(frame),
                    None => break None,
                },
                ended = &mut exit => break Some(ended),
            }
        };
        let why = match ended {
            // Someone else may hold its output open; what it wrote itself is there by now.
            Some(ended) => {
                while let Ok(Some(frame)) = clock::within(LAST_WORDS, frames.recv()).await {
                    self.take(frame);
                }
                format!("its process ended: {ended}")
            }
            None => match clock::within(LAST_WORDS, exit).await {
                Ok(ended) => format!("its process ended: {ended}"),
                Err(clock::Elapsed) => "its process closed its output".to_owned(),
            },
        };
        self.line.end(why);
    }

    fn take(&self, frame: Frame) {
        match frame {
            Frame::Oversized(oversized) => self.line.oversized(&oversized),
            Frame::Message(text) => {
                self.line.report().received(text.len());
                if !self.line.take(&text) {
                    self.noise.skip(&text);
                }
            }
        }
    }
}
