//! A relay before upstreams and clients that are played; the tests themselves stand beside what they test.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use crate::base::clock;
use crate::base::seal::Ring;
use crate::call::{
    Asker, Client, Endpoint, Fault, Handshake, Heard, Hearing, Items, OutCall, OutService, Principal, Push,
    Question, Reply, Session, SessionKey, UpstreamId, Upstreams, ask,
};
use crate::config::environment::Environment;
use crate::config::{Format, parse};
use crate::jsonrpc::Message;
use crate::mcp::capabilities::{ClientCapabilities, ServerCapabilities};
use crate::mcp::questions::QuestionKind;
use crate::mcp::revision::Revision;
use crate::relay::catalog::refresh::Catalog;
use crate::relay::catalog::snapshot::Snapshot;
use crate::relay::pair::Pair;
use crate::relay::route::Relay;

pub const ALPHA: UpstreamId = UpstreamId(0);
pub const BETA: UpstreamId = UpstreamId(1);

/// What a secret of the configuration looks like; one with an escape in JSON.
pub const SECRET: &str = r#"tok-"4711"-SECRET"#;

/// Upstreams that are there and know nothing of each session.
struct Stage;

impl Upstreams for Stage {
    fn connect(&self, _: UpstreamId) -> BoxFuture<'static, Result<Arc<Handshake>, Fault>> {
        std::future::ready(Err(Fault::Internal)).boxed()
    }

    fn announces(&self, _: UpstreamId) -> bool {
        true
    }

    fn set_log_level(&self, _: &Arc<Session>) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn roots_changed(&self, _: &Arc<Session>) {}

    fn is_bound(&self, upstream: UpstreamId, _: &Session) -> bool {
        upstream != BETA
    }

    fn release(&self, _: &Arc<Session>) {}
}

/// A relay between `alpha` and `beta`, each with its namespace, whose calls `out` answers.
pub fn relay_to(out: OutService) -> Arc<Relay> {
    let headers = serde_json::json!({"X-Api-Key": SECRET});
    let file = serde_json::json!({"mcpServers": {
        "alpha": {"url": "http://127.0.0.1:1/", "headers": headers},
        "beta": {"url": "http://127.0.0.1:2/"},
    }});
    let config = parse(&file.to_string(), Format::Json, "test.json", &Environment::default()).unwrap();
    let (config, upstreams): (_, Arc<dyn Upstreams>) = (Arc::new(config), Arc::new(Stage));
    assert_eq!(config.upstreams.len(), 2, "{:?}", config.failed);
    let catalog = Catalog::new(config.clone(), upstreams.clone(), out.clone());
    Relay::new(config, catalog, out, upstreams, Arc::new(Ring::random()))
}

/// A relay that nobody calls.
pub fn relay() -> Arc<Relay> {
    relay_to(BoxCloneSyncService::new(service_fn(|_: OutCall| std::future::ready(Err(Fault::Internal)))))
}

/// A relay whose upstreams answer each call with `items`, once.
pub fn relay_with(items: Items) -> Arc<Relay> {
    let items = Arc::new(Mutex::new(Some(items)));
    relay_to(BoxCloneSyncService::new(service_fn(move |_: OutCall| {
        let items = items.lock().unwrap().take().unwrap_or_else(|| Box::pin(stream::empty()));
        std::future::ready(Ok(Reply::Items(items)))
    })))
}

/// Lets the relay know what an upstream declared.
pub fn declare(relay: &Relay, upstream: UpstreamId, capabilities: ServerCapabilities) {
    let handshake = Handshake {
        revision: Revision::LATEST,
        capabilities,
        server_info: Bytes::from_static(b"{}"),
        instructions: None,
    };
    let snapshot = Snapshot {
        handshake: Arc::new(handshake),
        items: Default::default(),
        read_at: clock::now(),
        stale: false,
    };
    relay.catalog.members()[upstream.index()].update(|state| state.snapshot = Some(Arc::new(snapshot)));
}

/// A client that keeps what it is sent.
#[derive(Default)]
pub struct Ear(Mutex<Vec<Push>>);

impl Client for Ear {
    fn push(&self, push: Push) {
        self.0.lock().unwrap().push(push);
    }
}

impl Ear {
    /// The notices so far, which are forgotten.
    pub fn notices(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        let texts = all.into_iter().map(|push| match push {
            Push::Notice(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        });
        texts.collect()
    }

    /// The questions so far, which are forgotten.
    pub fn questions(&self) -> Vec<Question> {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        let questions = all.into_iter().map(|push| match push {
            Push::Ask(question) => question,
            other => panic!("{other:?}"),
        });
        questions.collect()
    }
}

/// A session that can be asked for everything its revision has.
pub fn session_at(n: u8, endpoint: Endpoint, revision: Revision) -> (Arc<Session>, Arc<Ear>) {
    let ear = Arc::new(Ear::default());
    let who = Arc::new(Principal::anonymous());
    let mut session = Session::new(SessionKey([n; 16]), revision, who, endpoint);
    session.capabilities = ClientCapabilities::ALL.within(revision);
    session.client = ear.clone();
    (Arc::new(session), ear)
}

/// A session of the newest revision on the merged endpoint.
pub fn session(n: u8) -> (Arc<Session>, Arc<Ear>) {
    session_at(n, Endpoint::Merged, Revision::LATEST)
}

/// The two of them.
pub fn pair<'a>(relay: &'a Relay, session: &'a Arc<Session>, upstream: UpstreamId) -> Pair<'a> {
    Pair { relay, session, upstream }
}

/// A question of an upstream, and where its answer is heard.
pub fn question(upstream: UpstreamId, kind: QuestionKind, params: &str) -> (Question, Hearing) {
    let (asker, hearing): (Asker, Hearing) = ask();
    (Question { upstream, kind, params: Bytes::copy_from_slice(params.as_bytes()), asker }, hearing)
}

/// What an upstream has heard by now.
pub fn heard(hearing: &mut Hearing) -> Option<String> {
    match hearing.next().now_or_never().flatten()? {
        Heard::Answer(message) => Some(String::from_utf8(message.text().to_vec()).unwrap()),
        Heard::Progress(_) => panic!("progress"),
    }
}

/// A message from its text.
pub fn message(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// A notification from its parts.
pub fn notification(method: &str, params: &str) -> Message {
    message(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

/// Texts of notices.
pub fn texts(notices: impl IntoIterator<Item = Bytes>) -> Vec<String> {
    notices.into_iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
}

/// The value at a path of a JSON text.
pub fn at(text: &str, path: &str) -> serde_json::Value {
    let value: serde_json::Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    value.pointer(path).cloned().unwrap_or_default()
}
