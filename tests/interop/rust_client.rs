//! Drives the official Rust client through a plan, as the scripts beside it drive the others.
#![allow(deprecated, reason = "the SDK deprecates what the revisions under test have")]

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        ClientConfig, ClientRequest, CreateMessageRequestParams, CreateMessageResult, CustomNotification,
        ElicitRequestParams, ElicitResult, ListRootsResult, LoggingMessageNotificationParam, PingRequest,
        ProgressNotificationParam, Request, ResourceUpdatedNotificationParam, ServerResult,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError},
    transport::StreamableHttpClientTransport,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::plan::{Report, Target};

/// How long a step may take; machines that run other tests are slow.
const STEP: Duration = Duration::from_secs(60);

/// Performs the steps in turn in a session of its own.
pub async fn run(target: &Target, revision: &str, steps: &[Value], answers: bool) -> Report {
    let client = RustClient::open(target, Some(revision), answers).await;
    let mut outcomes = Vec::new();
    for step in steps {
        outcomes.push(client.perform(step).await);
    }
    let server = client.server();
    let report = Report {
        revision: server["protocolVersion"].as_str().unwrap_or_default().to_owned(),
        capabilities: server["capabilities"].clone(),
        instructions: server["instructions"].as_str().map(str::to_owned),
        outcomes,
    };
    client.close().await;
    report
}

/// A connected client.
pub struct RustClient {
    service: RunningService<RoleClient, Listener>,
    heard: Listener,
}

/// What the server said unasked.
#[derive(Clone)]
struct Listener {
    revision: String,
    /// Whether it answers questions.
    answers: bool,
    asked: Arc<Mutex<Vec<Value>>>,
    notices: Arc<watch::Sender<Vec<&'static str>>>,
    progress: Arc<watch::Sender<Vec<ProgressNotificationParam>>>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.protocol_version = typed(json!(self.revision)).expect("a revision is a text");
        if self.answers {
            let capabilities = json!({
                "sampling": {}, "elicitation": { "form": {}, "url": {} }, "roots": { "listChanged": true },
            });
            info.capabilities = typed(capabilities).expect("these are capabilities");
        }
        info
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let params = self.question("sampling/createMessage", &params);
        let heard =
            params["messages"].as_array().and_then(|all| all.last()).map(|last| &last["content"]["text"]);
        let text = format!("heard: {}", heard.and_then(Value::as_str).unwrap_or_default());
        answer(json!({
            "role": "assistant", "content": { "type": "text", "text": text }, "model": "none", "stopReason": "endTurn",
        }))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = self.question("elicitation/create", &params);
        answer(if params["mode"] == "url" {
            json!({ "action": "accept" })
        } else {
            json!({ "action": "accept", "content": { "username": "ada", "email": "ada@example.org" } })
        })
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.question("roots/list", &json!({}));
        answer(json!({ "roots": [{ "uri": "file:///interop/root", "name": "root" }] }))
    }

    async fn on_logging_message(
        &self,
        _: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note("notifications/message");
    }

    async fn on_resource_updated(
        &self,
        _: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note("notifications/resources/updated");
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.send_modify(|all| all.push(progress));
    }

    async fn on_custom_notification(&self, other: CustomNotification, _: NotificationContext<RoleClient>) {
        if other.method == "notifications/elicitation/complete" {
            self.note("notifications/elicitation/complete");
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note("notifications/tools/list_changed");
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note("notifications/prompts/list_changed");
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note("notifications/resources/list_changed");
    }
}

impl Listener {
    fn note(&self, method: &'static str) {
        self.notices.send_modify(|all| all.push(method));
    }

    /// Keeps a question, and gives its parameters. Ids of pages are the gateway's own; what else is in them is nobody's
    /// to look at.
    fn question(&self, method: &str, params: &impl Serialize) -> Value {
        let mut params = value(params).expect("a question is JSON");
        if let Some(members) = params.as_object_mut() {
            members.retain(|name, _| !["elicitationId", "_meta"].contains(&name.as_str()));
        }
        self.asked
            .lock()
            .expect("no test panics with it")
            .push(json!({ "method": method, "params": params }));
        params
    }
}

fn answer<T: DeserializeOwned>(answer: Value) -> Result<T, ErrorData> {
    typed(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Why a step failed: the outcome to report.
struct Failure(Value);

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let code = match &error {
            ServiceError::McpError(error) => json!(error.code.0),
            _ => Value::Null,
        };
        Self(json!({ "error": { "code": code, "message": error.to_string() } }))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        failure(error.to_string())
    }
}

fn failure(message: String) -> Failure {
    Failure(json!({ "error": { "code": null, "message": message } }))
}

type Outcome = Result<Value, Failure>;

impl RustClient {
    pub async fn connect(target: &Target) -> Self {
        Self::open(target, None, false).await
    }

    async fn open(target: &Target, revision: Option<&str>, answers: bool) -> Self {
        let heard = Listener {
            revision: revision.unwrap_or("2025-11-25").to_owned(),
            answers,
            asked: Arc::default(),
            notices: Arc::default(),
            progress: Arc::default(),
        };
        let transport = StreamableHttpClientTransport::from_uri(target.url());
        let connecting = heard.clone().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize);
        let service = timeout(STEP, connecting)
            .await
            .expect("a server answers initialize in time")
            .unwrap_or_else(|error| panic!("{} is not reached: {error}", target.url()));
        Self { service, heard }
    }

    pub async fn close(self) {
        let _ = timeout(STEP, self.service.cancel()).await;
    }

    pub async fn tool_names(&self) -> Vec<String> {
        let tools = timeout(STEP, self.service.list_all_tools())
            .await
            .expect("a server lists its tools in time")
            .expect("a server lists its tools");
        tools.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    /// The answer to `initialize`.
    fn server(&self) -> Value {
        let server = self.service.peer_info().expect("a connected client knows its server");
        value(&*server).expect("an answer is JSON")
    }

    // Boxed, since steps hold steps.
    fn perform<'a>(&'a self, step: &'a Value) -> Pin<Box<dyn Future<Output = Value> + Send + 'a>> {
        Box::pin(async move {
            let outcome = match timeout(STEP, self.attempt(step)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(failure(format!("{step} took too long"))),
            };
            outcome.unwrap_or_else(|Failure(outcome)| outcome)
        })
    }

    async fn attempt(&self, step: &Value) -> Outcome {
        let client = &self.service;
        match step["op"].as_str().unwrap_or_default() {
            "list" => self.list(step["what"].as_str().unwrap_or_default()).await,
            "call" => self.call(step).await,
            "cancel" => self.cancel(step).await,
            "read" => result(client.read_resource(params(step)?).await?),
            "prompt" => result(client.get_prompt(params(step)?).await?),
            "complete" => result(client.complete(params(step)?).await?),
            "level" => result(client.set_level(params(step)?).await?),
            "ping" => result(client.send_request(ClientRequest::PingRequest(PingRequest::default())).await?),
            "subscribe" => {
                self.service.subscribe(params(step)?).await?;
                Ok(json!({ "result": {} }))
            }
            "unsubscribe" => {
                self.service.unsubscribe(params(step)?).await?;
                Ok(json!({ "result": {} }))
            }
            "roots" => {
                self.service.notify_roots_list_changed().await?;
                Ok(json!({ "told": true }))
            }
            "asked" => {
                let asked = std::mem::take(&mut *self.heard.asked.lock().expect("no test panics with it"));
                Ok(json!({ "asked": asked }))
            }
            "parallel" => self.parallel(step).await,
            "until" => self.until(step).await,
            "forget" => {
                self.heard.notices.send_modify(Vec::clear);
                Ok(json!({ "forgotten": true }))
            }
            "notified" => self.notified(step).await,
            other => Err(failure(format!("no step {other}"))),
        }
    }

    async fn list(&self, what: &str) -> Outcome {
        let items = match what {
            "tools" => value(&self.service.list_all_tools().await?)?,
            "prompts" => value(&self.service.list_all_prompts().await?)?,
            "resources" => value(&self.service.list_all_resources().await?)?,
            _ => value(&self.service.list_all_resource_templates().await?)?,
        };
        Ok(json!({ "items": items }))
    }

    async fn call(&self, step: &Value) -> Outcome {
        if step["progress"] != true {
            return result(self.service.call_tool(params(step)?).await?);
        }
        self.heard.progress.send_modify(Vec::clear);
        let request = ClientRequest::CallToolRequest(Request::new(params(step)?));
        let running =
            self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let token = running.progress_token.clone();
        let ServerResult::CallToolResult(answer) = running.await_response().await? else {
            return Err(failure("the answer is not that of a tool".to_owned()));
        };
        // Notices are handled beside answers, and beside each other.
        let mut reports = self.heard.progress.subscribe();
        let all = |reports: &Vec<ProgressNotificationParam>| {
            reports.iter().any(|report| Some(report.progress) == report.total)
        };
        let _ = timeout(STEP / 3, reports.wait_for(all)).await;
        let mut reports: Vec<_> = self.heard.progress.borrow().clone();
        reports.retain(|report| report.progress_token == token);
        reports.sort_by(|one, other| one.progress.total_cmp(&other.progress));
        let reports: Vec<_> = reports
            .into_iter()
            .map(|report| {
                let mut shown = json!({ "progress": report.progress, "total": report.total });
                if let Some(message) = report.message {
                    shown["message"] = message.into();
                }
                shown
            })
            .collect();
        Ok(json!({ "result": value(&answer)?, "progress": reports }))
    }

    async fn cancel(&self, step: &Value) -> Outcome {
        self.heard.progress.send_modify(Vec::clear);
        let request = ClientRequest::CallToolRequest(Request::new(params(step)?));
        let running =
            self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let mut reports = self.heard.progress.subscribe();
        let _ = reports.wait_for(|reports| !reports.is_empty()).await;
        running.cancel(Some("no longer wanted".to_owned())).await?;
        Ok(json!({ "cancelled": true }))
    }

    async fn parallel(&self, step: &Value) -> Outcome {
        let steps = step["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
        let outcomes = futures_util::future::join_all(steps.iter().map(|step| self.perform(step))).await;
        Ok(json!({ "outcomes": outcomes }))
    }

    async fn until(&self, step: &Value) -> Outcome {
        let sought = step["contains"].as_str().unwrap_or_default();
        loop {
            let outcome = self.perform(&step["step"]).await;
            if outcome.to_string().contains(sought) {
                return Ok(outcome);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn notified(&self, step: &Value) -> Outcome {
        let methods: Vec<String> = typed(step["methods"].clone())?;
        let mut notices = self.heard.notices.subscribe();
        let _ = notices.wait_for(|seen| methods.iter().all(|method| seen.contains(&method.as_str()))).await;
        Ok(json!({ "notified": methods }))
    }
}

/// The members of a step are those of the request's `params`, and one that says what it is.
fn params<T: DeserializeOwned>(step: &Value) -> Result<T, serde_json::Error> {
    let mut params = step.clone();
    if let Some(members) = params.as_object_mut() {
        members.retain(|name, _| !["op", "progress"].contains(&name.as_str()));
    }
    typed(params)
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value)
}

fn value(from: &impl Serialize) -> Result<Value, serde_json::Error> {
    serde_json::to_value(from)
}

fn result(from: impl Serialize) -> Outcome {
    Ok(json!({ "result": value(&from)? }))
}
