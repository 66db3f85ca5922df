//! Whom an upstream may ask, and what becomes of its questions.

use std::sync::Mutex;

use tokio::sync::mpsc;

use super::*;
use crate::call::{Endpoint, Item, News, Observer, Principal, SessionKey, UpstreamId};
use crate::config::environment::Environment;
use crate::config::{Format, parse};
use crate::telemetry::meters::UpstreamMeter;
use crate::upstream::report::Report;

/// What an upstream was told.
struct Ear(mpsc::UnboundedSender<String>, CancellationToken);

impl Voice for Ear {
    fn say(self: Arc<Self>, text: Bytes) -> BoxFuture<'static, ()> {
        let _ = self.0.send(String::from_utf8_lossy(&text).into_owned());
        Box::pin(std::future::ready(()))
    }

    fn closed(&self) -> &CancellationToken {
        &self.1
    }

    fn revision(&self) -> Revision {
        Revision::V2025_06_18
    }
}

/// What the relay was told.
#[derive(Default)]
struct Relay {
    asked: Mutex<Vec<(SessionKey, Question)>>,
    told: Mutex<Vec<(SessionKey, String)>>,
}

impl Observer for Relay {
    fn list_changed(&self, _: UpstreamId, _: ItemKind, _: News<'_>) {}

    fn connection_lost(&self, _: UpstreamId) {}

    fn reconnected(&self, _: UpstreamId) {}

    fn told(&self, _: UpstreamId, session: &Arc<Session>, notification: Message) {
        self.told.lock().unwrap().push((session.key, notification.method().into_owned()));
    }

    fn asked(&self, session: &Arc<Session>, question: Question) {
        self.asked.lock().unwrap().push((session.key, question));
    }
}

struct Stage {
    relay: Arc<Relay>,
    patron: Arc<Patron>,
    ear: Arc<Ear>,
    heard: mpsc::UnboundedReceiver<String>,
}

fn session(number: u8) -> Arc<Session> {
    let who = Arc::new(Principal::anonymous());
    let mut session = Session::new(SessionKey([number; 16]), Revision::LATEST, who, Endpoint::Merged);
    session.capabilities = ClientCapabilities::ALL;
    Arc::new(session)
}

impl Stage {
    fn new(shown: ClientCapabilities, owner: Option<Arc<Session>>) -> Self {
        let file = r#"{"mcpServers": {"alpha": {"url": "http://127.0.0.1:1/"}}}"#;
        let config = parse(file, Format::Json, "test.json", &Environment::default()).unwrap();
        let upstream = &config.upstreams[0];
        let relay = Arc::new(Relay::default());
        let observers = Arc::new(OnceLock::new());
        let _ = observers.set(Arc::clone(&relay) as Arc<dyn Observer>);
        let unbound = Unbound::new(UpstreamId(0), observers, Report::new(UpstreamMeter::new(&upstream.name)));
        let patience = Duration::from_secs(600);
        let manner = Manner { shown, policy: Policy::of(upstream), patience, subscriptions: Arc::default() };
        let (to, heard) = mpsc::unbounded_channel();
        let ear = Arc::new(Ear(to, CancellationToken::new()));
        Self { relay, patron: Arc::new(Patron::new(manner, unbound, owner)), ear, heard }
    }

    fn take(&self, text: &str, bound: Bound<'_>) {
        let message = Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap();
        self.patron.take(&self.ear, message, bound);
    }

    /// A question of a call; what the call's stream brings.
    fn ask(&self, notices: &Arc<Notices>, text: &str) {
        self.take(text, Bound::Call(notices));
    }

    async fn hears(&mut self) -> String {
        self.heard.recv().await.unwrap()
    }
}

fn call_of(session: &Arc<Session>) -> Arc<Notices> {
    Arc::new(Notices::of(Some(Arc::clone(session))))
}

fn taken(notices: &Notices) -> Question {
    match notices.take() {
        Some(Item::Ask(question)) => question,
        other => panic!("no question: {other:?}"),
    }
}

fn response(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

const ELICIT: &str = r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}"#;
const SAMPLE: &str = r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"_meta":{"progressToken":"p"}}}"#;
const ROOTS: &str = r#"{"jsonrpc":"2.0","id":8,"method":"roots/list"}"#;

/// SAMP-03, RPC-07, RPC-08, LIFE-24: the answer goes back under the upstream's own id, as the client wrote it.
#[tokio::test]
async fn samp_03_the_answer_goes_to_who_asked() {
    let owner = session(1);
    let mut stage = Stage::new(ClientCapabilities::ALL, Some(Arc::clone(&owner)));
    let call = call_of(&owner);
    stage.ask(&call, ELICIT);
    assert_eq!(call.signs.clock(), crate::upstream::signs::Clock::Stands);
    let question = taken(&call);
    assert_eq!(question.kind, QuestionKind::Elicitation);
    assert_eq!(question.params, r#"{"message":"m","requestedSchema":{}}"#);
    question
        .asker
        .answer(response(r#"{"jsonrpc":"2.0","result":{"action":"accept","content":{"n":1.00}},"id":99}"#));
    assert_eq!(
        stage.hears().await,
        r#"{"jsonrpc":"2.0","id":"q1","result":{"action":"accept","content":{"n":1.00}}}"#
    );
    assert!(matches!(call.signs.clock(), crate::upstream::signs::Clock::Runs { .. }));
    // The id is free again.
    stage.ask(&call, ELICIT);
    taken(&call).asker.answer(response(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#));
    assert_eq!(stage.hears().await, r#"{"jsonrpc":"2.0","id":"q1","error":{"code":-1,"message":"no"}}"#);
}

/// STDIO-09, SAMP-10, LIFE-15: without a call it is the owner's client that is asked, and nobody else.
#[tokio::test]
async fn samp_10_without_a_call_the_owner_is_asked_or_nobody() {
    let owner = session(1);
    let mut stage = Stage::new(ClientCapabilities::ALL, Some(Arc::clone(&owner)));
    let other = call_of(&owner);
    stage.take(ROOTS, Bound::Unknown(vec![Arc::clone(&other)]));
    assert_eq!(other.signs.clock(), crate::upstream::signs::Clock::Stands);
    let (asked, question) = stage.relay.asked.lock().unwrap().pop().unwrap();
    assert_eq!((asked, question.kind), (owner.key, QuestionKind::Roots));
    drop(question);
    assert!(stage.hears().await.contains("client_unavailable"));

    let mut nobodys = Stage::new(ClientCapabilities::ALL, None);
    nobodys.take(ROOTS, Bound::Unknown(Vec::new()));
    assert_eq!(nobodys.hears().await, r#"{"jsonrpc":"2.0","id":8,"result":{"roots":[]}}"#);
    nobodys.take(SAMPLE, Bound::Unknown(Vec::new()));
    assert!(nobodys.hears().await.contains("client_unavailable"));
    // A call that is bound to its stream says whose it is, also where several share the connection.
    let call = call_of(&owner);
    nobodys.ask(&call, SAMPLE);
    assert_eq!(taken(&call).kind, QuestionKind::Sampling);
    assert!(nobodys.relay.asked.lock().unwrap().is_empty());
    owner.ended.cancel();
    stage.take(SAMPLE, Bound::Unknown(Vec::new()));
    assert!(stage.hears().await.contains("client_unavailable"));
}

/// LIFE-14, SAMP-06, ROOT-04, ELIC-07, PING-01, RPC-10, RPC-02
#[tokio::test]
async fn life_14_what_was_not_shown_is_refused_at_once() {
    let owner = session(1);
    let shown = ClientCapabilities { form: true, ..ClientCapabilities::default() };
    let mut stage = Stage::new(shown, Some(Arc::clone(&owner)));
    let call = call_of(&owner);
    for text in [SAMPLE, ROOTS, r#"{"jsonrpc":"2.0","id":1,"method":"x/y"}"#] {
        stage.ask(&call, text);
        assert!(stage.hears().await.contains("-32601"));
    }
    stage.ask(&call, r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url"}}"#);
    assert!(stage.hears().await.contains("-32602"));
    stage.ask(&call, r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":[]}"#);
    assert!(stage.hears().await.contains("-32602"));
    stage.ask(&call, r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    assert_eq!(stage.hears().await, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    assert!(call.take().is_none());
    stage.ask(&call, ELICIT);
    stage.ask(&call, ELICIT);
    assert!(stage.hears().await.contains("-32600"), "an id in flight");
    // A client that was shown more than this session's has still only what it has.
    let able = Stage::new(ClientCapabilities::ALL, None);
    let mut plain = Session::new(
        SessionKey([9; 16]),
        Revision::LATEST,
        Arc::new(Principal::anonymous()),
        Endpoint::Merged,
    );
    plain.capabilities = ClientCapabilities { roots: true, ..ClientCapabilities::default() };
    let mut able = able;
    able.ask(&call_of(&Arc::new(plain)), SAMPLE);
    assert!(able.hears().await.contains("-32601"));
}

/// CANC-06, ELIC-20, ELIC-17, SAMP-10
#[tokio::test(start_paused = true)]
async fn elic_20_a_question_ends_one_way_or_another() {
    let owner = session(1);
    let mut stage = Stage::new(ClientCapabilities::ALL, Some(Arc::clone(&owner)));
    let cancelled = r#"{"jsonrpc":"2.0","id":"q1","result":{"action":"cancel"}}"#;

    // The client is gone: that is no yes.
    let call = call_of(&owner);
    stage.ask(&call, ELICIT);
    drop(taken(&call));
    assert_eq!(stage.hears().await, cancelled);

    // The upstream takes it back: the client learns it, and nothing is said.
    stage.ask(&call, ELICIT);
    let question = taken(&call);
    let back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}"#;
    stage.ask(&call, back);
    question.asker.withdrawn().await;

    // The call is over.
    stage.ask(&call, ELICIT);
    let question = taken(&call);
    call.end();
    question.asker.withdrawn().await;
    assert_eq!(stage.hears().await, cancelled);
    // It was over before.
    stage.ask(&call, ELICIT);
    assert_eq!(stage.hears().await, cancelled);

    // Nobody answers in time.
    let call = call_of(&owner);
    stage.ask(&call, ELICIT);
    let question = taken(&call);
    assert_eq!(stage.hears().await, cancelled);
    question.asker.withdrawn().await;

    // The connection is closed.
    stage.ask(&call, ELICIT);
    let question = taken(&call);
    stage.ear.1.cancel();
    question.asker.withdrawn().await;
    assert!(stage.heard.try_recv().is_err());
}

/// ELIC-17
#[tokio::test]
async fn elic_17_questions_of_a_connection_are_bounded() {
    let owner = session(1);
    let mut stage = Stage::new(ClientCapabilities::ALL, Some(Arc::clone(&owner)));
    let call = call_of(&owner);
    for id in 0..=caps::QUESTIONS_PER_CONNECTION {
        stage.ask(&call, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#));
    }
    let refused = stage.hears().await;
    assert!(refused.contains(&format!(r#""id":{},"error""#, caps::QUESTIONS_PER_CONNECTION)), "{refused}");
}

/// PROG-07: the client's progress comes under the upstream's token.
#[tokio::test]
async fn prog_07_progress_on_a_question_goes_back() {
    let owner = session(1);
    let mut stage = Stage::new(ClientCapabilities::ALL, Some(Arc::clone(&owner)));
    let call = call_of(&owner);
    stage.ask(&call, SAMPLE);
    let question = taken(&call);
    question.asker.progress(response(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":0.5}}"#,
    ));
    assert_eq!(
        stage.hears().await,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":0.5}}"#
    );
    // VER-11: the upstream's revision has one block of content.
    question.asker.answer(response(
        r#"{"jsonrpc":"2.0","id":4,"result":{"role":"assistant","model":"m","content":[{"type":"text","text":"a"}]}}"#,
    ));
    assert_eq!(
        stage.hears().await,
        r#"{"jsonrpc":"2.0","id":7,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}}"#
    );
}

/// RES-09, LOG-04, RPC-28
#[tokio::test]
async fn log_04_news_go_to_whom_they_concern() {
    let (one, two) = (session(1), session(2));
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a"}}"#;

    let shared = Stage::new(ClientCapabilities::default(), None);
    shared.patron.subscriptions.add("x://a".into(), &two);
    shared.take(log, Bound::Unknown(Vec::new()));
    shared.take(updated, Bound::Unknown(Vec::new()));
    let told: Vec<_> = shared.relay.told.lock().unwrap().drain(..).collect();
    assert_eq!(told, [(two.key, UPDATED.to_owned())], "a log message of nobody's may be another's");
    let call = call_of(&one);
    shared.take(log, Bound::Call(&call));
    assert!(matches!(call.take(), Some(Item::Raw(message)) if message.method() == "notifications/message"));

    let own = Stage::new(ClientCapabilities::default(), Some(Arc::clone(&one)));
    own.take(log, Bound::Unknown(Vec::new()));
    own.take(updated, Bound::Unknown(Vec::new()));
    let told: Vec<_> = own.relay.told.lock().unwrap().iter().map(|(key, _)| *key).collect();
    assert_eq!(told, [one.key, one.key]);
}
