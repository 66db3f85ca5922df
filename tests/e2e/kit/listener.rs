//! A client's GET stream, read in the background.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use serde_json::Value;
use tokio::task::AbortHandle;

use super::deadline::{Bell, SOON};
use super::letter::Answer;
use super::text;

/// A GET stream that is read in the background.
///
/// *On drop.* The stream closes.
pub struct Listener {
    pub headers: HeaderMap,
    heard: Arc<Mutex<Heard>>,
    bell: Bell,
    reading: AbortHandle,
}

#[derive(Default)]
struct Heard {
    messages: Vec<Value>,
    comments: usize,
    ended: bool,
}

impl Listener {
    pub fn start(mut answer: Answer) -> Self {
        assert_eq!(answer.status, 200, "a GET stream");
        assert!(answer.is_stream(), "a GET stream is {:?}", answer.headers);
        let (heard, bell) = (Arc::new(Mutex::new(Heard::default())), Bell::new());
        let (sink, ring, headers) = (Arc::clone(&heard), bell.clone(), answer.headers.clone());
        let reading = tokio::spawn(async move {
            while let Some(event) = answer.event().await {
                let mut heard = sink.lock().unwrap();
                match event.message() {
                    Some(message) => heard.messages.push(text::tree(message)),
                    None => heard.comments += 1,
                }
                ring.ring();
            }
            sink.lock().unwrap().ended = true;
            ring.ring();
        });
        Listener { headers, heard, bell, reading: reading.abort_handle() }
    }

    /// The messages so far.
    pub fn messages(&self) -> Vec<Value> {
        self.heard.lock().unwrap().messages.clone()
    }

    /// The messages of one method.
    pub fn heard(&self, method: &str) -> Vec<Value> {
        self.messages().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Comments and events without data.
    pub fn comments(&self) -> usize {
        self.heard.lock().unwrap().comments
    }

    pub fn ended(&self) -> bool {
        self.heard.lock().unwrap().ended
    }

    /// Waits until `count` messages of a method came.
    pub async fn wait_for(&self, method: &str, count: usize) -> Vec<Value> {
        let what = format!("{count} × {method} on a GET stream");
        self.bell.until(SOON, what, || Some(self.heard(method)).filter(|heard| heard.len() >= count)).await
    }

    /// Waits for the answer to the request of this id.
    pub async fn wait_for_answer(&self, id: &Value) -> Value {
        let is_it = |message: &Value| message["id"] == *id && message.get("method").is_none();
        let look = || self.messages().into_iter().find(is_it);
        self.bell.until(SOON, format!("the answer to {id} on a GET stream"), look).await
    }

    /// Waits for the first bytes.
    pub async fn wait_for_bytes(&self) {
        let some = || (self.comments() + self.messages().len() > 0).then_some(());
        self.bell.until(SOON, "bytes on a GET stream", some).await;
    }

    /// Waits until the other side ends the stream in order.
    pub async fn wait_for_end(&self) {
        self.bell.until(SOON, "the end of a GET stream", || self.ended().then_some(())).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
