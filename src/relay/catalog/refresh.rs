//! Keeping the catalog true: a task for each upstream reads when something has changed, one task merges.
//!
//! *Invariants.* An upstream is read by its own task only, one reading at a time (F-089). Clients are
//! told when what they see has changed (TOOL-15), and now and then when an upstream says that something has which they
//! cannot see (`ECHO`).

mod merging;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::base::backoff::Backoff;
use crate::base::{clock, tasks};
use crate::call::{Audience, Endpoint, Fault, News, OutService, Purpose, UpstreamId, Upstreams};
use crate::config::snapshot::{Snapshot as Config, Transport};
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::board::Board;
use crate::relay::catalog::instructions;
use crate::relay::catalog::member::{Member, State};
use crate::relay::catalog::own::Own;
use crate::relay::catalog::read::{self, Reading};
use crate::relay::catalog::snapshot::Snapshot;
use crate::relay::catalog::store::Store;
use crate::relay::catalog::view::{self, Source};
use crate::telemetry::events::relay::{CatalogFailed, CatalogRefreshed, Finding, ItemDropped};
use crate::telemetry::words::DropReason;

/// How long a notice of change waits for more of its kind (TOOL-15).
const DEBOUNCE: Duration = Duration::from_millis(250);

/// The least time between two readings that notices caused (F-053).
const SPACING: Duration = Duration::from_secs(1);

/// How often clients are told at most that a list has changed which is the same as before. The upstream may mean
/// something by it, and a client that gets on with it directly gets the same through us; one that says it all the time
/// must not make every client read its lists all the time (F-053).
const ECHO: Duration = Duration::from_secs(30);

/// How long a failed reading waits at first and at most. An upstream that comes back is seen within
/// two seconds (F-100); what must not be tried so often, such as starting a child, has its own pace.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(1500));

/// As [`RETRY`], for an upstream that was reached and whose list is what fails: it may do so for good.
const RELIST: (Duration, Duration) = (Duration::from_millis(200), Duration::from_mins(5));

/// How often lists that stay the same are put on disk, so that the next start knows how old they are.
const SAVE: Duration = Duration::from_hours(1);

/// The catalog of all upstreams.
pub struct Catalog {
    pub(super) config: Arc<Config>,
    upstreams: Arc<dyn Upstreams>,
    pub(super) out: OutService,
    members: Vec<Arc<Member>>,
    merged: Arc<Board>,
    single: Vec<Arc<Board>>,
    /// What the boards were made of.
    pub(super) shown: Mutex<Vec<Source>>,
    /// Sessions that see something else.
    pub own: Own,
    audience: OnceLock<Arc<dyn Audience>>,
    turns: OnceLock<Box<dyn Fn(UpstreamId, Turn) + Send + Sync>>,
    store: Option<Arc<Store>>,
    stale: Notify,
    /// True once each upstream was tried and the result merged.
    settled: watch::Sender<bool>,
    /// Counts merges, for who waits for something to be known.
    merges: watch::Sender<u64>,
    started: Instant,
}

impl Catalog {
    /// Notes that a list of an upstream has changed: it is read anew.
    pub fn list_changed(&self, upstream: UpstreamId, kind: ItemKind) {
        self.members[upstream.index()].mark(kind);
    }

    /// Notes that an upstream says so.
    pub fn announced(&self, upstream: UpstreamId, kind: ItemKind, news: News<'_>) {
        self.members[upstream.index()].announce(kind, news);
    }

    /// Notes that all lists of an upstream may have changed unseen.
    pub fn doubt(&self, upstream: UpstreamId) {
        self.members[upstream.index()].mark_all();
    }

    /// A catalog that knows what an earlier run kept, and reads nothing before [`start`](Self::start).
    #[must_use]
    pub fn new(config: Arc<Config>, upstreams: Arc<dyn Upstreams>, out: OutService) -> Arc<Self> {
        let store = Store::of(&config).map(Arc::new);
        let members: Vec<_> = (0_u16..)
            .zip(&config.upstreams)
            .map(|(n, upstream)| {
                let known = store.as_ref().and_then(|store| store.load(upstream));
                Arc::new(Member::new(UpstreamId(n), upstream.clone(), known.map(Arc::new)))
            })
            .collect();
        let single = members.iter().map(|_| Arc::default()).collect();
        let catalog = Arc::new(Self {
            upstreams,
            out,
            members,
            merged: Arc::default(),
            single,
            shown: Mutex::default(),
            own: Own::default(),
            audience: OnceLock::new(),
            turns: OnceLock::new(),
            store,
            stale: Notify::new(),
            settled: watch::Sender::new(config.upstreams.is_empty()),
            merges: watch::Sender::new(0),
            started: clock::now(),
            config,
        });
        catalog.merge();
        catalog
    }

    /// Tells this audience of changes from now on.
    pub fn tell(&self, audience: Arc<dyn Audience>) {
        // A second audience would be a mistake of `app`; the first one stays.
        let _ = self.audience.set(audience);
    }

    /// Tells when an upstream goes away or comes back, from now on.
    pub fn tell_turns(&self, told: impl Fn(UpstreamId, Turn) + Send + Sync + 'static) {
        // As with the audience, the first one stays.
        let _ = self.turns.set(Box::new(told));
    }

    /// Begins to read. The tasks end with the returned group.
    #[must_use]
    pub fn start(self: &Arc<Self>) -> tasks::Group {
        let group = tasks::Group::new();
        let catalog = self.clone();
        group.spawn("catalog merge", async move { catalog.keep_merged().await }).detach();
        for member in &self.members {
            let (catalog, member) = (self.clone(), member.clone());
            group.spawn("catalog reading", async move { catalog.follow(&member).await }).detach();
        }
        group
    }

    /// What an endpoint shows.
    #[must_use]
    pub fn board(&self, endpoint: Endpoint) -> &Arc<Board> {
        match endpoint {
            Endpoint::Merged => &self.merged,
            Endpoint::Upstream(id) => &self.single[id.index()],
        }
    }

    /// The upstreams.
    #[must_use]
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }

    /// Waits until each upstream was tried, at most until `budget` after the start (R-22, F-083).
    pub async fn settled(&self, budget: Duration) {
        let mut settled = self.settled.subscribe();
        if *settled.borrow_and_update() {
            return;
        }
        // Either way the caller goes on with what is there.
        let _ = clock::within(self.started + budget, settled.wait_for(|settled| *settled)).await;
    }

    /// Waits until something is known of an endpoint, or none of its children is still starting, at most so long: a
    /// child that takes its time (F-028) is worth waiting for where there is nothing else.
    pub async fn known(&self, endpoint: Endpoint, limit: Duration) {
        let mut merges = self.merges.subscribe();
        let decided = || {
            let starting = |member: &Arc<Member>| {
                matches!(member.upstream.transport, Transport::Stdio(_)) && member.state().problem.is_none()
            };
            let known = |member: &Arc<Member>| member.state().snapshot.is_some();
            self.of(endpoint).any(known) || !self.of(endpoint).any(starting)
        };
        // Either way the caller goes on with what is there.
        let _ = clock::within(limit, merges.wait_for(|_| decided())).await;
    }

    /// The upstreams of an endpoint.
    pub fn of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Arc<Member>> + Clone {
        let shown = move |member: &&Arc<Member>| match endpoint {
            Endpoint::Merged => true,
            Endpoint::Upstream(id) => member.id == id,
        };
        self.members.iter().filter(shown)
    }

    /// Whether each upstream was tried, or the start budget has passed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        *self.settled.borrow() || clock::now() >= self.started + self.config.catalog.start_budget
    }

    async fn keep_merged(&self) {
        loop {
            self.stale.notified().await;
            self.merge();
            self.merges.send_modify(|merges| *merges += 1);
            let tried = self.members.iter().all(|member| member.state().tried);
            self.settled.send_if_modified(|settled| !std::mem::replace(settled, tried) && tried);
        }
    }

    async fn follow(self: &Arc<Self>, member: &Arc<Member>) {
        let (mut retry, mut relist) = (Backoff::new(RETRY.0, RETRY.1), Backoff::new(RELIST.0, RELIST.1));
        let mut all_read = clock::now();
        loop {
            let kinds = member.take_marks();
            let began = clock::now();
            if kinds.len() == ItemKind::ALL.len() {
                all_read = began;
            }
            let (announced, voices) = (member.take_announced(), member.take_voices());
            let before = member.state().snapshot;
            let failed = self.read(member, &kinds).await.err();
            if failed.is_none() {
                self.echo(member, &announced, before.as_deref());
            }
            self.hear(member, voices, before.as_deref());
            if let Some(failed) = &failed {
                self.failed(member, failed);
                member.restore(&failed.kinds);
            }
            member.update(|state| state.tried = true);
            self.stale.notify_one();
            let interval = match &failed {
                None => {
                    retry.reset();
                    relist.reset();
                    self.interval(member)
                }
                Some(failed) if failed.is_of_lists() => {
                    retry.reset();
                    Some(relist.next_at(draw()))
                }
                Some(_) => {
                    clock::sleep(retry.next_at(draw())).await;
                    continue;
                }
            };
            match pause(member, interval).await {
                Woken::Asked => {
                    // Notices come in bursts: one reading answers them all.
                    let spacing = SPACING.saturating_sub(clock::now().saturating_duration_since(began));
                    clock::sleep(spacing.max(DEBOUNCE)).await;
                }
                // A list that fails does not keep the others from being refreshed.
                Woken::Time
                    if failed.is_none()
                        || clock::now().saturating_duration_since(all_read)
                            >= self.config.catalog.refresh =>
                {
                    member.restore(&ItemKind::ALL);
                }
                Woken::Time => {}
            }
        }
    }

    /// Tells of announced changes that are none to be seen; those that are will be told of by the merge.
    fn echo(&self, member: &Member, announced: &[ItemKind], before: Option<&Snapshot>) {
        let (Some(before), Some(now), Some(audience)) =
            (before, member.state().snapshot, self.audience.get())
        else {
            return;
        };
        for &kind in announced {
            let same = |kind: ItemKind| before.items[kind.index()] == now.items[kind.index()];
            if !same(kind) || (kind == ItemKind::Resource && !same(ItemKind::Template)) {
                continue;
            }
            let at = clock::now();
            let mut due = false;
            member.update(|state| {
                let last = &mut state.echoed[kind.index()];
                due = last.is_none_or(|last| at.saturating_duration_since(last) >= ECHO);
                if due {
                    *last = Some(at);
                }
            });
            if due {
                audience.list_changed(Endpoint::Merged, kind);
                audience.list_changed(Endpoint::Upstream(member.id), kind);
            }
        }
    }

    /// After how long an upstream is read again without being asked (TOOL-01, R-22).
    fn interval(&self, member: &Member) -> Option<Duration> {
        let state = member.state();
        let offered = state.snapshot.as_ref().is_some_and(|snapshot| {
            let offers = &snapshot.handshake.capabilities;
            (!offers.tools || offers.tools_changed)
                && (!offers.prompts || offers.prompts_changed)
                && (!offers.resources || offers.resources_changed)
        });
        let heard = offered && self.upstreams.announces(member.id);
        (!heard).then_some(self.config.catalog.refresh)
    }

    /// Reads an upstream.
    async fn read(&self, member: &Member, kinds: &[ItemKind]) -> Result<(), Failed> {
        let began = clock::now();
        let none = |fault, met| Failed { fault, kinds: kinds.to_vec(), met };
        let handshake = self.upstreams.connect(member.id).await.map_err(|fault| none(fault, false))?;
        let source = read::From { member, out: &self.out, purpose: Purpose::Catalog };
        let known = member.state().snapshot;
        let reading = read::read(&source, handshake, known, &self.config.catalog, kinds).await;
        let Reading { mut snapshot, unfit, broken } = reading.map_err(|fault| none(fault, true))?;
        self.turn(member, Turn::Back);
        let upstream = &member.upstream.name;
        for (kind, unfit) in &unfit {
            let (item, reason) = (unfit.item.as_str(), unfit.reason);
            ItemDropped { upstream, kind: *kind, item, reason, detail: &unfit.detail }.emit();
        }
        let before = member.state();
        self.judge(&before, member, &mut snapshot);
        CatalogRefreshed {
            upstream,
            offered: ItemKind::ALL.map(|kind| snapshot.of(kind).len()),
            dropped: unfit.len(),
            took: clock::now().saturating_duration_since(began),
        }
        .emit();
        let snapshot = Arc::new(snapshot);
        self.keep(&before, member, &snapshot);
        self.save(&before, member, snapshot).await;
        match broken {
            Some((fault, kinds)) => Err(Failed { fault, kinds, met: true }),
            None => {
                member.update(|state| state.problem = None);
                Ok(())
            }
        }
    }

    /// Puts a reading on disk, unless it says what is there already.
    async fn save(&self, before: &State, member: &Member, snapshot: Arc<Snapshot>) {
        let Some(store) = self.store.clone() else { return };
        let now = clock::now();
        let is_recent = before.saved_at.is_some_and(|at| now.saturating_duration_since(at) < SAVE);
        if is_recent && before.snapshot.as_ref().is_some_and(|before| before.says_same(&snapshot)) {
            return;
        }
        let entry = Arc::clone(&member.upstream);
        match tasks::blocking("catalog save", move || store.save(&entry, &snapshot)).await {
            Ok(Ok(())) => member.update(|state| state.saved_at = Some(now)),
            // A catalog that cannot be kept costs the next start its head start, nothing else.
            Ok(Err(error)) => unkept(&member.upstream.name, &error),
            Err(error) => unkept(&member.upstream.name, &error),
        }
    }

    /// Reports findings, and withholds or strips by the operator's choice.
    pub(super) fn judge(&self, before: &State, member: &Member, snapshot: &mut Snapshot) {
        let upstream = &member.upstream.name;
        // What an earlier run has judged is judged again: its reports are gone.
        let before = before.snapshot.as_ref().filter(|_| before.tried);
        instructions::report(upstream, before.map(|known| &**known), snapshot);
        for kind in ItemKind::ALL {
            let items = snapshot.items[kind.index()].clone();
            if items.iter().all(|item| item.findings.is_empty())
                || before.is_some_and(|before| Arc::ptr_eq(&before.items[kind.index()], &items))
            {
                continue;
            }
            for item in items.iter() {
                for finding in &item.findings {
                    Finding { upstream, finding: *finding, item: &item.key }.emit();
                }
            }
            let (kept, withheld) = read::judge(items.to_vec(), self.config.catalog.on_finding, kind);
            for item in &withheld {
                let (item, reason) = (&*item.key, DropReason::Withheld);
                ItemDropped { upstream, kind, item, reason, detail: &"it has a finding" }.emit();
            }
            snapshot.items[kind.index()] = Arc::new(kept);
        }
    }

    /// Keeps a reading. Names that it claims anew while another upstream holds them are barred.
    fn keep(&self, before: &State, member: &Member, snapshot: &Arc<Snapshot>) {
        let merged = self.merged.current();
        let mut barred = (*before.barred).clone();
        for kind in [ItemKind::Tool, ItemKind::Prompt] {
            let source = Source {
                id: member.id,
                namespace: member.upstream.namespace.clone(),
                snapshot: Some(snapshot.clone()),
                barred: Arc::default(),
            };
            let names = view::named(&source, kind, self.config.catalog.name_budget);
            barred.retain(|(of, name)| *of != kind || names.iter().any(|exposed| exposed.name == *name));
            let Some(known) = &before.snapshot else { continue };
            for (item, exposed) in snapshot.of(kind).iter().zip(&names) {
                let is_new = !known.of(kind).iter().any(|old| old.key == item.key);
                let held = merged.route(kind, &exposed.name).is_some_and(|route| route.upstream != member.id);
                if is_new && held {
                    barred.insert((kind, exposed.name.clone()));
                }
            }
        }
        member.update(|state| {
            state.snapshot = Some(Arc::clone(snapshot));
            state.barred = Arc::new(barred);
        });
    }

    /// Notes whether an upstream is there, and tells when that is new.
    fn turn(&self, member: &Member, turn: Turn) {
        let mut is_new = false;
        member.update(|state| {
            let before = std::mem::replace(&mut state.away, turn == Turn::Away);
            // One that was never there has not gone.
            is_new = before != state.away && state.tried;
        });
        if is_new && let Some(told) = self.turns.get() {
            told(member.id, turn);
        }
    }

    /// Notes a failed reading; lists that are too old are given up.
    fn failed(&self, member: &Member, failed: &Failed) {
        let again = member.state().problem.is_some();
        if !failed.is_of_lists() {
            self.turn(member, Turn::Away);
        }
        CatalogFailed { upstream: &member.upstream.name, error: &failed.fault, again }.emit();
        let (now, stale_for) = (clock::now(), self.config.catalog.stale_for);
        member.update(|state| {
            let was_fine = state.tried && state.problem.is_none();
            state.problem = Some(failed.fault.to_string());
            let Some(snapshot) = state.snapshot.as_mut().map(Arc::make_mut) else { return };
            if was_fine {
                // Up to now the upstream would have told of a change.
                snapshot.read_at = now;
            }
            if now.saturating_duration_since(snapshot.read_at) <= stale_for {
                return;
            }
            if failed.is_of_lists() {
                failed.kinds.iter().for_each(|kind| snapshot.items[kind.index()] = Arc::default());
            } else {
                state.snapshot = None;
            }
        });
    }
}

/// What becomes of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It was there, and cannot be reached any more.
    Away,
    /// It can be reached again.
    Back,
}

/// A reading that failed, as a whole or in part.
struct Failed {
    fault: Fault,
    /// What is to be read again.
    kinds: Vec<ItemKind>,
    /// The upstream was met: what stands in its place while it is away may speak HTTP, too (F-100).
    met: bool,
}

impl Failed {
    /// Whether the upstream was there, and what it lists is what is wrong with it.
    fn is_of_lists(&self) -> bool {
        self.met && matches!(self.fault, Fault::Protocol { .. } | Fault::Timeout { limit: "list", .. })
    }
}

/// Waits for a notice, at most for `interval`.
async fn pause(member: &Member, interval: Option<Duration>) -> Woken {
    let Some(interval) = interval else {
        member.woken().await;
        return Woken::Asked;
    };
    match clock::within(interval, member.woken()).await {
        Ok(()) => Woken::Asked,
        Err(clock::Elapsed) => Woken::Time,
    }
}

fn unkept(upstream: &str, error: &dyn std::fmt::Display) {
    CatalogFailed { upstream, error, again: false }.emit();
}

enum Woken {
    /// Something says that lists have changed.
    Asked,
    /// It is time.
    Time,
}

fn draw() -> u32 {
    u32::from_ne_bytes(crate::base::ids::random_bytes())
}

#[cfg(test)]
mod tests;
