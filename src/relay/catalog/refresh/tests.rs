//! The tasks of the catalog before upstreams that are played: what is read when, and what clients see of it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use super::*;
use crate::call::{Answer, Body, Handshake, News, OutCall, Reply, Session};
use crate::config::environment::Environment;
use crate::config::{Format, parse};
use crate::jsonrpc::Message;
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::revision::Revision;

const ALPHA: UpstreamId = UpstreamId(0);
const BETA: UpstreamId = UpstreamId(1);

/// Upstreams that do as they are told.
#[derive(Default)]
struct Stage {
    /// By upstream and method: the elements of the list; an error where there are none.
    lists: Mutex<HashMap<(UpstreamId, &'static str), &'static str>>,
    asked: Mutex<Vec<(UpstreamId, &'static str)>>,
    announces: AtomicBool,
    /// Who cannot be reached.
    away: Mutex<HashSet<UpstreamId>>,
    /// Something else answers for them meanwhile.
    posed: AtomicBool,
}

impl Stage {
    fn list(&self, upstream: UpstreamId, method: &'static str, elements: &'static str) {
        self.lists.lock().unwrap().insert((upstream, method), elements);
    }

    fn asked(&self, method: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(_, asked)| *asked == method).count()
    }

    fn leaves(&self, upstream: UpstreamId) {
        self.away.lock().unwrap().insert(upstream);
    }

    fn fault(&self, upstream: UpstreamId) -> Option<Fault> {
        let (name, why) = ("one".into(), "it is away".into());
        self.away.lock().unwrap().contains(&upstream).then(|| match self.posed.load(Ordering::Relaxed) {
            true => Fault::Protocol { upstream: name, why },
            false => Fault::Unavailable { upstream: name, why, retry_after: None, unsent: true },
        })
    }

    fn answer(&self, call: &OutCall) -> Result<Reply, Fault> {
        if let Some(fault) = self.fault(call.upstream) {
            return Err(fault);
        }
        let method = call.method.name;
        self.asked.lock().unwrap().push((call.upstream, method));
        let kind = ItemKind::ALL.into_iter().find(|kind| kind.list_method().name == method).unwrap();
        let text = match self.lists.lock().unwrap().get(&(call.upstream, method)) {
            Some(elements) => {
                format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{}":[{elements}]}}}}"#, kind.member())
            }
            None => r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"never"}}"#.to_owned(),
        };
        let body = Body::Message(Message::parse(text.into()).unwrap());
        Ok(Reply::Done(Answer { body, rewrites: call.method.rewrites, uris: None, watch: None }))
    }
}

impl Upstreams for Stage {
    fn connect(&self, upstream: UpstreamId) -> BoxFuture<'static, Result<Arc<Handshake>, Fault>> {
        let capabilities = ServerCapabilities {
            tools: true,
            tools_changed: true,
            prompts: true,
            prompts_changed: true,
            ..ServerCapabilities::default()
        };
        let met = Handshake {
            revision: Revision::LATEST,
            capabilities,
            server_info: Bytes::from_static(b"{}"),
            instructions: None,
        };
        std::future::ready(self.fault(upstream).map_or_else(|| Ok(Arc::new(met)), Err)).boxed()
    }

    fn announces(&self, _: UpstreamId) -> bool {
        self.announces.load(Ordering::Relaxed)
    }

    fn set_log_level(&self, _: &Arc<Session>) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn roots_changed(&self, _: &Arc<Session>) {}

    fn is_bound(&self, _: UpstreamId, _: &Session) -> bool {
        true
    }

    fn release(&self, _: &Arc<Session>) {}
}

/// A catalog of two upstreams without a namespace, which is being kept.
fn kept(stage: &Arc<Stage>) -> (Arc<Catalog>, tasks::Group) {
    let file = r#"{"mcpServers": {
        "alpha": {"url": "http://127.0.0.1:1/", "portcullis": {"namespace": "none"}},
        "beta": {"url": "http://127.0.0.1:2/", "portcullis": {"namespace": "none"}}
    }}"#;
    let config = parse(file, Format::Json, "test.json", &Environment::default()).unwrap();
    assert_eq!(config.upstreams.len(), 2);
    let player = Arc::clone(stage);
    let out =
        BoxCloneSyncService::new(service_fn(move |call: OutCall| std::future::ready(player.answer(&call))));
    let catalog = Catalog::new(Arc::new(config), Arc::clone(stage) as Arc<dyn Upstreams>, out);
    let group = catalog.start();
    (catalog, group)
}

fn stage() -> Arc<Stage> {
    let stage = Arc::new(Stage { announces: AtomicBool::new(true), ..Stage::default() });
    for upstream in [ALPHA, BETA] {
        stage.list(upstream, "prompts/list", "");
        stage.list(upstream, "tools/list", "");
    }
    stage.list(ALPHA, "tools/list", r#"{"name":"one","inputSchema":{"type":"object"}}"#);
    stage
}

async fn pass(seconds: u64) {
    clock::sleep(Duration::from_secs(seconds)).await;
}

fn tools(catalog: &Catalog) -> String {
    let view = catalog.board(Endpoint::Merged).current();
    String::from_utf8_lossy(&view.lists[ItemKind::Tool.index()].whole).into_owned()
}

/// PAGE-05, F-051, D8: however often a reading fails or brings nothing new, the view and its cursors stay.
#[tokio::test(start_paused = true)]
async fn page_05_readings_that_change_nothing_leave_cursors_valid() {
    let stage = stage();
    stage.leaves(BETA);
    let (catalog, _tasks) = kept(&stage);
    pass(2).await;
    let board = catalog.board(Endpoint::Merged);
    let first = board.current();
    assert!(tools(&catalog).contains("one"));
    for _ in 0..20 {
        catalog.list_changed(ALPHA, ItemKind::Tool);
        pass(2).await;
    }
    assert!(stage.asked("tools/list") > 15);
    assert_eq!(board.current().epoch, first.epoch);
    assert!(board.at(first.epoch).is_some());
    stage.list(ALPHA, "tools/list", r#"{"name":"two","inputSchema":{"type":"object"}}"#);
    catalog.list_changed(ALPHA, ItemKind::Tool);
    pass(2).await;
    assert_eq!(board.current().epoch, first.epoch + 1);
    assert!(board.at(first.epoch).is_some());
}

/// Whom the catalog tells of changes.
#[derive(Default)]
struct Ear(Mutex<Vec<(Endpoint, ItemKind)>>);

impl Audience for Ear {
    fn list_changed(&self, endpoint: Endpoint, kind: ItemKind) {
        self.0.lock().unwrap().push((endpoint, kind));
    }
}

const ONCE: News<'static> = News { owner: None, repeated: false };

/// F-052, F-053: what an upstream announces is told although nothing is new, but not time and again.
#[tokio::test(start_paused = true)]
async fn f_052_an_announced_change_that_is_none_is_told_now_and_then() {
    let stage = stage();
    let (catalog, _tasks) = kept(&stage);
    pass(10).await;
    let ear = Arc::new(Ear::default());
    catalog.tell(ear.clone());
    let heard = || std::mem::take(&mut *ear.0.lock().unwrap());
    let both = [(Endpoint::Merged, ItemKind::Prompt), (Endpoint::Upstream(ALPHA), ItemKind::Prompt)];
    for _ in 0..2 {
        catalog.announced(ALPHA, ItemKind::Prompt, ONCE);
        pass(2).await;
        assert_eq!(heard(), both);
        for _ in 0..5 {
            catalog.announced(ALPHA, ItemKind::Prompt, ONCE);
            pass(2).await;
        }
        assert_eq!(heard(), [], "a flood");
        pass(30).await;
    }
    catalog.announced(ALPHA, ItemKind::Prompt, ONCE);
    catalog.announced(ALPHA, ItemKind::Prompt, News { owner: None, repeated: true });
    pass(2).await;
    assert_eq!(heard(), [], "what is said time and again means nothing");
    // What nobody announced, and what is seen to change, is told as ever.
    catalog.list_changed(ALPHA, ItemKind::Prompt);
    pass(2).await;
    assert_eq!(heard(), []);
}

/// F-053, D10, R-22: a list that fails for good is tried ever more seldom, alone, and does not hold up the others.
#[tokio::test(start_paused = true)]
async fn f_053_a_list_that_fails_for_good_is_left_alone() {
    let stage = stage();
    stage.lists.lock().unwrap().remove(&(ALPHA, "prompts/list"));
    let (catalog, _tasks) = kept(&stage);
    pass(3600).await;
    let prompts = stage.asked("prompts/list");
    assert!((10..60).contains(&prompts), "{prompts} in an hour");
    assert!(stage.asked("tools/list") <= 2 + 12, "only what failed is read again");
    assert!(catalog.members()[0].state().problem.is_some());
    assert!(tools(&catalog).contains("one"));
    stage.list(ALPHA, "prompts/list", "");
    catalog.list_changed(ALPHA, ItemKind::Prompt);
    pass(2).await;
    assert!(catalog.members()[0].state().problem.is_none(), "a notice ends the wait");
}

/// F-100: one that cannot be reached is tried again within two seconds, for as long as that lasts.
#[tokio::test(start_paused = true)]
async fn f_100_an_upstream_that_comes_back_is_read_soon() {
    for posed in [false, true] {
        let stage = stage();
        stage.posed.store(posed, Ordering::Relaxed);
        stage.leaves(ALPHA);
        let (catalog, _tasks) = kept(&stage);
        pass(600).await;
        stage.away.lock().unwrap().clear();
        pass(2).await;
        assert!(tools(&catalog).contains("one"), "a proxy answers for it: {posed}");
    }
}

/// LOG-06: it is told once that an upstream has gone, and once that it is back; not that it never came.
#[tokio::test(start_paused = true)]
async fn log_06_turns_of_upstreams_are_told_once() {
    let stage = stage();
    stage.leaves(BETA);
    let (catalog, _tasks) = kept(&stage);
    let turns = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&turns);
    catalog.tell_turns(move |upstream, turn| told.lock().unwrap().push((upstream, turn)));
    let of = |upstream| {
        let all = turns.lock().unwrap();
        all.iter().filter(|(of, _)| *of == upstream).map(|(_, turn)| *turn).collect::<Vec<_>>()
    };
    pass(5).await;
    assert!(of(ALPHA).is_empty() && of(BETA).is_empty());
    stage.leaves(ALPHA);
    catalog.doubt(ALPHA);
    pass(60).await;
    assert_eq!(of(ALPHA), [Turn::Away]);
    stage.away.lock().unwrap().clear();
    pass(5).await;
    assert_eq!(of(ALPHA), [Turn::Away, Turn::Back]);
    assert_eq!(of(BETA), [Turn::Back]);
}

/// HTTP-16, TOOL-01, R-22: declared announcements that have no way to come are not waited for.
#[tokio::test(start_paused = true)]
async fn r_22_who_cannot_announce_is_read_from_time_to_time() {
    let stage = stage();
    let (_catalog, _tasks) = kept(&stage);
    pass(3600).await;
    assert_eq!(stage.asked("tools/list"), 2, "both announce");
    stage.announces.store(false, Ordering::Relaxed);
    let (_catalog, _tasks) = kept(&stage);
    pass(301).await;
    assert_eq!(stage.asked("tools/list"), 2 + 4);
}

/// R-22: lists are given up a day after the upstream was last there, not after they were last read; of an upstream
/// that is there only the list that fails is.
#[tokio::test(start_paused = true)]
async fn r_22_lists_live_for_a_day_without_their_upstream() {
    const HOUR: u64 = 3600;
    let stage = stage();
    stage.list(ALPHA, "prompts/list", r#"{"name":"p"}"#);
    let (catalog, _tasks) = kept(&stage);
    pass(48 * HOUR).await;
    let member = &catalog.members()[0];
    let prompts = || member.state().snapshot.map(|snapshot| snapshot.of(ItemKind::Prompt).len());
    stage.lists.lock().unwrap().remove(&(ALPHA, "prompts/list"));
    catalog.list_changed(ALPHA, ItemKind::Prompt);
    pass(23 * HOUR).await;
    assert_eq!(prompts(), Some(1));
    pass(2 * HOUR).await;
    assert_eq!(prompts(), Some(0));
    assert!(tools(&catalog).contains("one"));
    stage.list(ALPHA, "prompts/list", r#"{"name":"p"}"#);
    pass(HOUR).await;
    stage.leaves(ALPHA);
    catalog.doubt(ALPHA);
    pass(23 * HOUR).await;
    assert_eq!(prompts(), Some(1));
    pass(2 * HOUR).await;
    assert_eq!(prompts(), None);
}

/// R-19: a name is its holder's until the holder gives it up.
#[tokio::test(start_paused = true)]
async fn r_19_a_name_that_was_given_up_is_free() {
    let one = r#"{"name":"one","description":"beta's","inputSchema":{"type":"object"}}"#;
    let stage = stage();
    let (catalog, _tasks) = kept(&stage);
    pass(2).await;
    stage.list(BETA, "tools/list", one);
    catalog.list_changed(BETA, ItemKind::Tool);
    pass(2).await;
    assert!(!tools(&catalog).contains("beta's"));
    stage.list(ALPHA, "tools/list", "");
    catalog.list_changed(ALPHA, ItemKind::Tool);
    pass(2).await;
    assert!(tools(&catalog).contains("beta's"), "{}", tools(&catalog));
}
