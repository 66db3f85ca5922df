//! The invariant behind all routing, as a property: whatever sessions, servers, questions, cancellations and deaths come
//! in whatever order, no message reaches a session that it does not belong to, and each question ends once
//! (LIFE-15, SAMP-10, ELIC-20, RPC-07, RPC-28).
//!
//! Each message carries a token that names its session, its server and its call. `PROPTEST_CASES` sets how many orders are
//! tried; one that fails is printed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::kit::peer::Peer;
use crate::kit::process;
use crate::kit::script::Server;
use crate::kit::stdio_server::StdioServer;
use crate::kit::*;

const CASES: u32 = 12;
const SESSIONS: usize = 4;

/// What happens next; the numbers choose among what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Call(usize, usize),
    Answer(usize),
    AnswerTwice(usize),
    /// A session answers a question of another.
    Rob(usize, usize),
    Cancel(usize),
    /// The client loses the connection of a call.
    Vanish(usize),
    /// The session ends, and the next one takes its place.
    End(usize),
    KillChild(usize),
    CutServer,
    Rest,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let session = || 0..SESSIONS;
    let step = prop_oneof![
        12 => (session(), 0..2_usize).prop_map(|(session, upstream)| Step::Call(session, upstream)),
        8 => session().prop_map(Step::Answer),
        2 => session().prop_map(Step::AnswerTwice),
        2 => (session(), session()).prop_map(|(session, other)| Step::Rob(session, other)),
        2 => session().prop_map(Step::Cancel),
        2 => session().prop_map(Step::Vanish),
        1 => session().prop_map(Step::End),
        1 => (0..SESSIONS).prop_map(Step::KillChild),
        1 => Just(Step::CutServer),
        2 => Just(Step::Rest),
    ];
    proptest::collection::vec(step, 30..60)
}

/// A tool that tells of its token before, within and after a question about it.
fn telling<T>(server: Server<T>) -> Server<T> {
    server.capabilities(json!({"tools": {}, "logging": {}})).call("ask", async |ask: Exchange| {
        let token = ask.argument("token").as_str().unwrap().to_owned();
        let tell =
            async || ask.notify("notifications/message", json!({"level": "error", "data": token})).await;
        tell().await;
        let form = json!({"message": token, "requestedSchema": {"type": "object", "properties": {}}});
        let Some(seen) = ask.ask(&text::quoted(&token), "elicitation/create", form).await else {
            return Reply::Hang;
        };
        let answer = text::tree(&seen.body)["result"].clone();
        let word = answer["content"]["word"].as_str().unwrap_or("-");
        ask.peer.note(&format!("{token} {} {word}", answer["action"].as_str().unwrap_or("error")));
        tell().await;
        Reply::text(token)
    })
}

/// A session, as its client has seen it.
struct Member {
    client: Client,
    name: String,
    calls: usize,
    seen: Arc<Mutex<Seen>>,
    readers: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    /// Questions without an answer: id and token.
    questions: VecDeque<(Value, String)>,
    /// Calls without an answer.
    open: VecDeque<String>,
    /// How often each call was answered.
    answers: HashMap<String, usize>,
}

impl Seen {
    /// Takes a message of a stream of the session `name`; every token in it has to be of that session.
    fn take(&mut self, name: &str, message: &Value) {
        let token = match message["method"].as_str() {
            Some("elicitation/create") => &message["params"]["message"],
            Some("notifications/message") => &message["params"]["data"],
            Some("notifications/cancelled") => {
                self.questions.retain(|(id, _)| *id != message["params"]["requestId"]);
                return;
            }
            Some(other) => panic!("{name} heard {other}"),
            None if message["error"].is_object() => &Value::Null,
            None => &message["result"]["content"][0]["text"],
        };
        let token = token.as_str().unwrap_or_default();
        let token = token.rsplit(' ').next().unwrap_or_default().to_owned();
        let mine = token.is_empty() || token.split('/').next() == Some(name);
        assert!(mine, "{name} got what is not its own: {message}");
        if message["method"] == "elicitation/create" {
            self.questions.push_back((message["id"].clone(), token));
        } else if let Some(id) = message["id"].as_str() {
            assert!(token.is_empty() || token == id, "{id} was answered {token}");
            self.open.retain(|open| open != id);
            *self.answers.entry(id.to_owned()).or_default() += 1;
        }
    }
}

impl Member {
    async fn new(gateway: &Gateway, number: usize) -> Self {
        let client = gateway.client().await;
        let (name, seen, readers) = (format!("s{number}"), Arc::default(), JoinSet::new());
        Self { client, name, calls: 0, seen, readers }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Begins a call and reads its stream in the background.
    fn call(&mut self, upstream: &str) {
        self.calls += 1;
        let token = format!("{}/{upstream}/{}", self.name, self.calls);
        let params = json!({"name": format!("{upstream}__ask"), "arguments": {"token": token}});
        let request = text::request(&text::quoted(&token), "tools/call", &params.to_string());
        let (letter, name, seen) = (self.client.post(&request), self.name.clone(), self.seen.clone());
        self.seen().open.push_back(token);
        self.readers.spawn(async move {
            let mut answer = letter.send().await;
            if !answer.is_stream() {
                let message = text::tree(&answer.text().await);
                return seen.lock().unwrap().take(&name, &message);
            }
            while let Some(message) = answer.message().await {
                seen.lock().unwrap().take(&name, &text::tree(&message));
            }
        });
    }

    /// The answer to the oldest question: a word that belongs to this session and the question.
    fn answer(&self) -> Option<String> {
        let (id, token) = self.seen().questions.pop_front()?;
        let word = json!({"action": "accept", "content": {"word": format!("{token}!")}});
        Some(text::response(&id.to_string(), &word.to_string()))
    }

    async fn say(&self, message: &str) {
        let status = self.client.post(message).send().await.status;
        assert_eq!(status, 202, "{}: {message}", self.name);
    }

    async fn cancel(&self) {
        let oldest = self.seen().open.pop_front();
        if let Some(token) = oldest {
            self.client.notify("notifications/cancelled", json!({"requestId": token})).await;
        }
    }

    /// A reader that failed has seen what it must not.
    async fn gather(&mut self) {
        while let Some(ended) = self.readers.try_join_next() {
            ended.unwrap();
        }
        tokio::task::yield_now().await;
    }

    /// Answers what is still asked until no call is open, then ends the session.
    async fn end(mut self) {
        // A question whose stream was lost is asked again here.
        let mut standing = self.client.get().send().await;
        let (seen, name) = (self.seen.clone(), self.name.clone());
        let listening = tokio::spawn(async move {
            while let Some(message) = standing.message().await {
                seen.lock().unwrap().take(&name, &text::tree(&message));
            }
        });
        let what = format!("the end of all calls of {}", self.name);
        let rest = async {
            while !self.readers.is_empty() {
                while let Some(answer) = self.answer() {
                    self.say(&answer).await;
                }
                // A question may still be on its way; look again soon, and when a call has ended.
                if let Ok(Some(ended)) = tokio::time::timeout(ms(20), self.readers.join_next()).await {
                    ended.unwrap();
                }
            }
        };
        within(secs(30), &what, rest).await;
        for (call, times) in &self.seen().answers {
            assert_eq!(*times, 1, "answers to {call}");
        }
        self.client.delete().send().await;
        // The stream ends with its session.
        listening.await.unwrap();
    }
}

async fn play(steps: Vec<Step>) {
    let (alpha, beta) = (telling(http_server()).start(), telling(stdio_server()).start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let mut born = 0;
    let mut members = Vec::new();
    for _ in 0..SESSIONS {
        members.push(Member::new(&gateway, born).await);
        born += 1;
    }
    for step in steps {
        match step {
            Step::Call(session, upstream) => members[session].call(["alpha", "beta"][upstream]),
            Step::Answer(session) => {
                if let Some(answer) = members[session].answer() {
                    members[session].say(&answer).await;
                }
            }
            Step::AnswerTwice(session) => {
                if let Some(answer) = members[session].answer() {
                    members[session].say(&answer).await;
                    members[session].say(&answer).await;
                }
            }
            Step::Rob(session, other) if session != other => {
                let question = members[session].seen().questions.front().cloned();
                // Only where it is no question of the robber's own, whose ids are as small.
                let own = |id: &Value| members[other].seen().questions.iter().any(|(known, _)| known == id);
                if let Some((id, token)) = question.filter(|(id, _)| !own(id)) {
                    let stolen = json!({"action": "decline", "content": {"word": token}});
                    members[other].say(&text::response(&id.to_string(), &stolen.to_string())).await;
                }
            }
            Step::Rob(..) => {}
            Step::Cancel(session) => members[session].cancel().await,
            Step::Vanish(session) => {
                members[session].readers.abort_all();
                while members[session].readers.join_next().await.is_some() {}
                members[session].seen().questions.clear();
            }
            Step::End(session) => {
                let fresh = Member::new(&gateway, born).await;
                born += 1;
                let old = std::mem::replace(&mut members[session], fresh);
                old.client.delete().send().await;
            }
            Step::KillChild(n) => kill(&beta, n),
            Step::CutServer => alpha.cut_connections(),
            Step::Rest => tokio::time::sleep(ms(15)).await,
        }
        for member in &mut members {
            member.gather().await;
        }
    }
    for member in members {
        member.end().await;
    }
    gateway
        .metrics_until("no session is left", |metrics| metrics.sum("portcullis_sessions", &[]) == 0.0)
        .await;
    for peer in [&*alpha as &Peer, &*beta] {
        ended_once(peer);
    }
}

fn kill(beta: &StdioServer, n: usize) {
    let running = beta.running();
    if let Some(child) = running.get(n % running.len().max(1)) {
        process::kill(child.pid());
    }
}

/// No question was answered twice, and a yes is that of its own client.
fn ended_once(peer: &Peer) {
    let mut ends = HashMap::new();
    for note in peer.notes() {
        let (token, end) = note.split_once(' ').unwrap();
        assert!(ends.insert(token.to_owned(), end.to_owned()).is_none(), "{token} was answered twice");
        match end.split_once(' ').unwrap() {
            ("accept", word) => assert_eq!(word, format!("{token}!")),
            // A robber may have hit a question of its own, whose id it was as well; never the one that it was after.
            ("decline", word) => assert_ne!(word, token),
            (no, _) => assert!(["cancel", "error"].contains(&no), "{note}"),
        }
    }
}

#[test]
fn no_order_of_things_brings_a_message_to_the_wrong_session() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let config = Config { cases, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let played = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(play(steps));
        Ok(())
    });
    if let Err(failed) = played {
        panic!("{failed}");
    }
}
