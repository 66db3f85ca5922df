//! Questions of many upstreams to many clients at once: each to the client of its call, each answer to its asker
//! (LIFE-15, SAMP-10, ELIC-20, RPC-07, RPC-09, F-055, F-056).

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream::iter;
use serde_json::{Value, json};

use crate::kit::peer::Peer;
use crate::kit::script::Server;
use crate::kit::*;

/// Calls of one session to one upstream at a time: below what a session may have open.
const AT_ONCE: usize = 16;

/// A server whose tool asks for a word that belongs to its token, and tells what it was answered.
fn asking<T>(server: Server<T>) -> Server<T> {
    server.call("ask", async |ask: Exchange| {
        let token = ask.argument("token").as_str().unwrap().to_owned();
        let form = json!({"message": token, "requestedSchema": {"type": "object", "properties": {}}});
        let Some(seen) = ask.ask(&text::quoted(&token), "elicitation/create", form).await else {
            return Reply::Hang;
        };
        let answer = text::tree(&seen.body)["result"].clone();
        ask.peer.note(&format!("{token} {}", answer["action"].as_str().unwrap_or("error")));
        Reply::text(format!("{token}: {}", answer["content"]["word"].as_str().unwrap_or_default()))
    })
}

/// A client that knows its own name, so that it notices what is not for it.
struct Asked {
    client: Client,
    name: &'static str,
}

impl Asked {
    async fn new(gateway: &Gateway, name: &'static str) -> Self {
        Self { client: gateway.client().await, name }
    }

    /// The token of a question, which has to be one of this session's.
    fn token(&self, question: &Value) -> String {
        let message = question["params"]["message"].as_str().unwrap();
        let (origin, token) = message.split_once("] ").expect("an origin stands before it (R-45)");
        assert!(token.starts_with(self.name), "{} was asked {message}", self.name);
        assert_eq!(origin.trim_start_matches('['), token.split('/').nth(1).unwrap());
        token.to_owned()
    }

    /// The answer to a question: a word that only this session and this token make.
    fn word(&self, question: &Value) -> String {
        let word = format!("{} of {}", self.token(question), self.name);
        let result = json!({"action": "accept", "content": {"word": word}});
        text::response(&question["id"].to_string(), &result.to_string())
    }

    async fn say(&self, message: &str) {
        assert_eq!(self.client.post(message).send().await.status, 202);
    }

    fn call(&self, upstream: &str, n: usize) -> (String, String, Value) {
        let token = format!("{}/{upstream}/{n}", self.name);
        let params = json!({"name": format!("{upstream}__ask"), "arguments": {"token": token}});
        (token.clone(), text::quoted(&format!("call {token}")), params)
    }

    /// Calls, answers whatever is asked meanwhile on the call's stream, and gives the text of the result.
    async fn ask(&self, upstream: &str, n: usize) {
        let (token, id, params) = self.call(upstream, n);
        let mut answer = self.client.begin(&id, "tools/call", params).await;
        loop {
            // What is asked may go on another call's stream, so that this one has nothing but its answer.
            let message = if answer.is_stream() { answer.message().await } else { Some(answer.text().await) };
            let message = text::tree(&message.expect("an answer comes"));
            if message["method"] == "elicitation/create" {
                self.say(&self.word(&message)).await;
            } else {
                let said = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
                assert_eq!(said, format!("{token}: {token} of {}", self.name), "{message}");
                return;
            }
        }
    }
}

/// 1,000 questions of two sessions and two upstreams.
async fn each_answer_reaches_its_asker(alpha: impl Into<Entry>, beta: impl Into<Entry>) {
    let gateway = gateway().upstream("alpha", alpha).upstream("beta", beta).start().await;
    let (one, two) = (Asked::new(&gateway, "one").await, Asked::new(&gateway, "two").await);
    let pairs = [(&one, "alpha"), (&one, "beta"), (&two, "alpha"), (&two, "beta")];
    let all = pairs.map(|(session, upstream)| {
        let calls = (0..250).map(move |n| session.ask(upstream, n));
        iter(calls).buffer_unordered(AT_ONCE).collect::<Vec<_>>()
    });
    let done = within(secs(120), "all answers", futures_util::future::join_all(all)).await;
    assert_eq!(done.iter().map(Vec::len).sum::<usize>(), 1000);
}

/// F-055, LIFE-15: over HTTP a question comes on the stream of its call.
#[tokio::test]
async fn f_055_a_thousand_questions_over_http_find_their_way() {
    each_answer_reaches_its_asker(asking(http_server()), asking(http_server())).await;
}

/// F-055, LIFE-15: over a pipe nothing says which call a question belongs to, but whose child it is.
#[tokio::test]
async fn f_055_a_thousand_questions_over_pipes_find_their_way() {
    each_answer_reaches_its_asker(asking(stdio_server()), asking(stdio_server())).await;
}

/// How a client behaves to a question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    Answers,
    AnswersTwice,
    /// Another session answers first, with the same id.
    Robbed,
    CancelsTheCall,
    /// After the call was cancelled.
    AnswersLate,
}

const MANNERS: [Manner; 5] =
    [Manner::Answers, Manner::AnswersTwice, Manner::Robbed, Manner::CancelsTheCall, Manner::AnswersLate];

impl Manner {
    fn ends(self) -> &'static str {
        match self {
            Self::Answers | Self::AnswersTwice | Self::Robbed => "accept",
            Self::CancelsTheCall | Self::AnswersLate => "cancel",
        }
    }
}

impl Asked {
    async fn behave(&self, manner: Manner, other: &Asked, upstream: &str, n: usize) {
        let (_, id, params) = self.call(upstream, n);
        let mut answer = self.client.begin(&id, "tools/call", params).await;
        let question = text::tree(&answer.message().await.expect("a question comes"));
        let word = self.word(&question);
        match manner {
            Manner::Answers => self.say(&word).await,
            Manner::AnswersTwice => {
                self.say(&word).await;
                self.say(&word).await;
            }
            Manner::Robbed => {
                other.say(&word.replace("accept", "decline")).await;
                self.say(&word).await;
            }
            Manner::CancelsTheCall | Manner::AnswersLate => {
                let params = json!({"requestId": text::tree(&id)});
                assert_eq!(self.client.notify("notifications/cancelled", params).await, 202);
                while answer.message().await.is_some() {}
                if manner == Manner::AnswersLate {
                    self.say(&word).await;
                }
                return;
            }
        }
        let message = text::tree(&answer.message().await.expect("an answer comes"));
        assert!(message["result"].is_object(), "{manner:?}: {message}");
    }
}

/// ELIC-20, RPC-09: whatever clients do, each question ends once at its server, and never with a yes that nobody gave.
#[tokio::test]
async fn elic_20_each_question_has_one_end_whatever_clients_do() {
    let (alpha, beta) = (asking(http_server()).start(), asking(stdio_server()).start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let (one, two) = (Asked::new(&gateway, "one").await, Asked::new(&gateway, "two").await);
    let mut expected = HashMap::new();
    for (session, other) in [(&one, &two), (&two, &one)] {
        for upstream in ["alpha", "beta"] {
            for n in 0..15 {
                let manner = MANNERS[n % MANNERS.len()];
                session.behave(manner, other, upstream, n).await;
                expected.insert(format!("{}/{upstream}/{n}", session.name), manner.ends());
            }
        }
    }
    ends(&alpha, "alpha", &expected).await;
    ends(&beta, "beta", &expected).await;
}

/// ELIC-20, LIFE-21: with a session end its questions: nobody has said yes.
#[tokio::test]
async fn elic_20_who_has_gone_has_not_said_yes() {
    let alpha = asking(http_server()).start();
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", asking(http_server())).start().await;
    let mut expected = HashMap::new();
    for name in ["one", "two", "three"] {
        let gone = Asked::new(&gateway, name).await;
        let mut open = Vec::new();
        for n in 0..5 {
            let (token, id, params) = gone.call("alpha", n);
            let mut answer = gone.client.begin(&id, "tools/call", params).await;
            answer.message().await.expect("a question comes");
            open.push(answer);
            expected.insert(token, "cancel");
        }
        assert_eq!(gone.client.delete().send().await.status, 204);
    }
    ends(&alpha, "alpha", &expected).await;
}

/// Each question of this server's has ended as expected, and got one answer.
async fn ends(peer: &Peer, upstream: &str, expected: &HashMap<String, &str>) {
    let mine: Vec<_> =
        expected.iter().filter(|(token, _)| token.split('/').nth(1) == Some(upstream)).collect();
    let all = || (peer.notes().len() >= mine.len()).then_some(());
    peer.until("the end of each question", all).await;
    let mut notes = peer.notes();
    notes.sort();
    let mut wanted: Vec<_> = mine.iter().map(|(token, end)| format!("{token} {end}")).collect();
    wanted.sort();
    assert_eq!(notes, wanted);
    let answers = peer.received().into_iter().filter(|seen| seen.method.is_none() && seen.id.is_some());
    assert_eq!(answers.count(), mine.len(), "one answer each");
}
