//! What a client is to do, as steps that every driver understands, and what came of it.
//!
//! | step | outcome |
//! |---|---|
//! | `list` of `tools`, `prompts`, `resources`, `resourceTemplates` | `items` of all pages, `pages` |
//! | `call` | `result`, and `progress` when asked for |
//! | `cancel` | `cancelled`: the call was cancelled at its first progress |
//! | `read`, `prompt`, `complete`, `ping`, `level` | `result` |
//! | `parallel` | `outcomes` of steps that ran side by side |
//! | `until` | the outcome of a step, repeated until it contains a text |
//! | `subscribe`, `unsubscribe` | `result` |
//! | `roots` | `told`: that its roots have changed |
//! | `asked` | `asked`: what the server has asked since, if the client answers |
//! | `forget`, `notified` | `notified`: each of these methods came since they were forgotten |
//!
//! A step that fails has the outcome `error` with `code` and `message`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{peers, process::Program, rust_client};

/// How long a client may take for a whole plan.
const PLAN: Duration = Duration::from_secs(240);
/// How long it may take for one step.
const STEP: Duration = Duration::from_secs(60);

/// Where a client goes. A URL that ends in `/sse` is one of HTTP+SSE, the older transport.
#[derive(Clone, Debug)]
pub enum Target {
    Url(String),
    Stdio { command: String, args: Vec<String>, env: Map<String, Value> },
}

impl Target {
    pub fn stdio(command: impl Into<String>, args: Vec<String>) -> Self {
        Self::Stdio { command: command.into(), args, env: Map::new() }
    }

    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        if let Self::Stdio { env, .. } = &mut self {
            env.insert(name.to_owned(), json!(value));
        }
        self
    }

    /// The URL, for clients that take nothing else.
    pub fn url(&self) -> &str {
        match self {
            Self::Url(url) => url,
            Self::Stdio { command, .. } => panic!("{command} has no URL"),
        }
    }

    /// As drivers read it, and as it stands in the files of clients.
    pub fn plan(&self) -> Value {
        match self {
            Self::Url(url) => json!({ "url": url }),
            Self::Stdio { command, args, env } => {
                json!({ "command": command, "args": args, "env": env })
            }
        }
    }
}

/// An official client.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    /// The TypeScript SDK, in the release of this npm package.
    TypeScript(&'static str),
    Python,
    /// The Rust SDK, offering this revision.
    Rust(&'static str),
}

impl Client {
    pub const TYPESCRIPT: Self = Self::TypeScript("@modelcontextprotocol/sdk");
    pub const RUST: Self = Self::Rust("2025-11-25");

    /// Connects, performs the steps in turn, disconnects.
    pub async fn run(self, target: &Target, steps: &[Value]) -> Report {
        self.perform(target, steps, false).await
    }

    /// The same as a client that can be asked for everything, and answers.
    pub async fn run_answering(self, target: &Target, steps: &[Value]) -> Report {
        self.perform(target, steps, true).await
    }

    async fn perform(self, target: &Target, steps: &[Value], answers: bool) -> Report {
        let mut plan = json!({
            "target": target.plan(), "steps": steps, "stepTimeoutMs": STEP.as_millis(), "answers": answers,
        });
        let program = match self {
            Self::Rust(revision) => {
                return tokio::time::timeout(PLAN, rust_client::run(target, revision, steps, answers))
                    .await
                    .expect("the Rust client is done in time");
            }
            Self::TypeScript(sdk) => {
                plan["sdk"] = json!(sdk);
                Program::new(peers::node()).args([peers::driver("typescript.mjs")])
            }
            Self::Python => Program::new(peers::python()).args([peers::driver("python.py")]),
        };
        let output = program.output(&plan.to_string(), PLAN).await;
        assert!(
            output.status.success(),
            "{self:?} at {target:?} ended with {}:\n{}",
            output.status,
            output.stderr
        );
        serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("{self:?} reported {:?}: {error}", output.stdout))
    }
}

/// What a client got.
#[derive(Debug, Deserialize)]
pub struct Report {
    /// The negotiated revision.
    pub revision: String,
    pub capabilities: Value,
    pub instructions: Option<String>,
    /// One for each step.
    pub outcomes: Vec<Value>,
}

/// How the names of an upstream are written.
#[derive(Clone, Copy)]
pub enum Names<'a> {
    /// As the upstream has them.
    Own,
    /// As the merged endpoint shows those of this upstream.
    Under(&'a str),
}

impl Names<'_> {
    pub fn name(self, own: &str) -> String {
        match self {
            Self::Own => own.to_owned(),
            Self::Under(namespace) => format!("{namespace}__{own}"),
        }
    }

    pub fn uri(self, own: &str) -> String {
        match self {
            Self::Own => own.to_owned(),
            Self::Under(namespace) => format!("{namespace}+{own}"),
        }
    }

    pub fn call(self, name: &str, arguments: Value) -> Value {
        json!({ "op": "call", "name": self.name(name), "arguments": arguments })
    }

    pub fn call_with_progress(self, name: &str, arguments: Value) -> Value {
        json!({ "op": "call", "name": self.name(name), "arguments": arguments, "progress": true })
    }

    pub fn cancel(self, name: &str, arguments: Value) -> Value {
        json!({ "op": "cancel", "name": self.name(name), "arguments": arguments })
    }

    pub fn read(self, uri: &str) -> Value {
        json!({ "op": "read", "uri": self.uri(uri) })
    }

    pub fn prompt(self, name: &str, arguments: Value) -> Value {
        json!({ "op": "prompt", "name": self.name(name), "arguments": arguments })
    }

    pub fn complete_prompt(self, name: &str, argument: Value, context: Value) -> Value {
        let reference = json!({ "type": "ref/prompt", "name": self.name(name) });
        json!({ "op": "complete", "ref": reference, "argument": argument, "context": context })
    }

    pub fn complete_template(self, uri: &str, argument: Value) -> Value {
        let reference = json!({ "type": "ref/resource", "uri": self.uri(uri) });
        json!({ "op": "complete", "ref": reference, "argument": argument })
    }

    /// An outcome as the upstream itself would have given it: without what belongs to other
    /// upstreams, and with its own names.
    pub fn own(self, outcome: &Value) -> Value {
        let mut outcome = outcome.clone();
        if let Self::Under(namespace) = self {
            let name = format!("{namespace}__");
            let uri = format!("{namespace}+");
            if let Some(items) = outcome.get_mut("items").and_then(Value::as_array_mut) {
                items.retain(|item| {
                    begins(item, "name", &name)
                        || begins(item, "uri", &uri)
                        || begins(item, "uriTemplate", &uri)
                });
            }
            strip(&mut outcome, &name, &uri);
        }
        outcome
    }
}

fn begins(item: &Value, member: &str, beginning: &str) -> bool {
    item[member].as_str().is_some_and(|value| value.starts_with(beginning))
}

fn strip(value: &mut Value, name: &str, uri: &str) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let beginning = match key.as_str() {
                    "name" => name,
                    "uri" | "uriTemplate" => uri,
                    _ => "",
                };
                match member {
                    Value::String(text) if text.starts_with(beginning) => drop(text.drain(..beginning.len())),
                    other => strip(other, name, uri),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, name, uri)),
        _ => {}
    }
}

pub fn list(what: &str) -> Value {
    json!({ "op": "list", "what": what })
}

/// The four lists.
pub fn lists() -> Vec<Value> {
    ["tools", "prompts", "resources", "resourceTemplates"].map(list).to_vec()
}

pub fn ping() -> Value {
    json!({ "op": "ping" })
}

pub fn level(level: &str) -> Value {
    json!({ "op": "level", "level": level })
}

pub fn parallel(steps: Vec<Value>) -> Value {
    json!({ "op": "parallel", "steps": steps })
}

pub fn until(step: Value, contains: &str) -> Value {
    json!({ "op": "until", "step": step, "contains": contains })
}

pub fn forget() -> Value {
    json!({ "op": "forget" })
}

pub fn notified(methods: &[&str]) -> Value {
    json!({ "op": "notified", "methods": methods })
}
