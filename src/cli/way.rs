//! The way to the tools: through the gateway's own parts in this process, or to one that runs (R-32).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::app::build::{Gateway, build};
use crate::app::local::Local;
use crate::base::clock;
use crate::call::{Endpoint, Fault};
use crate::cli::exit::{Because, Exit, Failure};
use crate::cli::output::{self, Reader};
use crate::cli::remote::Remote;
use crate::config::environment::Environment;
use crate::config::secrets::Secret;
use crate::config::snapshot::{LogLevel, Snapshot};

/// A gateway that runs already.
#[derive(Debug, Clone, Default, Args)]
pub struct Running {
    /// Ask a gateway that runs, or any server with Streamable HTTP, such as http://127.0.0.1:7420/mcp
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "command", "server"])]
    pub url: Option<Url>,

    /// The file with the key for it; without it, the variable PORTCULLIS_KEY
    #[arg(long, value_name = "FILE", requires = "url")]
    pub key_file: Option<PathBuf>,
}

/// How calls are made.
pub enum Way {
    /// In this process, from the file.
    Inside(Box<Local>),
    /// By HTTP.
    Outside(Remote),
}

/// What came of a request.
pub enum Outcome {
    /// The text of the result.
    Result(Box<RawValue>),
    /// A JSON-RPC error.
    Error(RpcError),
}

/// A JSON-RPC error.
#[derive(Debug, Clone, Deserialize)]
pub struct RpcError {
    /// The number.
    pub code: i64,
    /// The words.
    pub message: String,
    /// What else was said.
    pub data: Option<serde_json::Value>,
}

/// How long servers may take to start before we go on without them. By default their own limits are
/// shorter; longer ones that were configured end here.
const START: Duration = Duration::from_secs(600);

/// After this time somebody at a terminal wants to know what we wait for.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long servers get to end.
const END: Duration = Duration::from_secs(5);

impl Way {
    /// To the gateway that runs at a URL.
    ///
    /// # Errors
    /// When it cannot be reached, or the key file cannot be read.
    pub async fn to(url: Url, key_file: Option<PathBuf>, environment: &Environment) -> Result<Self, Failure> {
        let key = match key_file {
            Some(path) => {
                let read = std::fs::read_to_string(&path);
                let context = format!("cannot read {}", path.display());
                Some(anyhow::Context::context(read, context).or_exit(Exit::Usage)?.into())
            }
            None => environment.text("PORTCULLIS_KEY").map(|key| Secret::from(key.to_owned())),
        };
        Ok(Self::Outside(Remote::open(url, key).await?))
    }

    /// Through parts of our own, once every server was tried.
    ///
    /// # Errors
    /// When the parts cannot be made.
    pub async fn through(mut config: Snapshot) -> Result<Self, Failure> {
        // The state belongs to the gateway that may be running, and old lists help nobody here.
        config.state_directory = None;
        let gateway = build(Arc::new(config))?;
        let local = Local::open(gateway, Endpoint::Merged);
        let tried = local.settled(START);
        if Reader::of_notes() == Reader::Terminal {
            let mut tried = std::pin::pin!(tried);
            if clock::within(PATIENCE, tried.as_mut()).await.is_err() {
                output::note(&format!("waiting for {}", pending(local.gateway()).join(", ")));
                tried.await;
            }
        } else {
            tried.await;
        }
        Ok(Self::Inside(Box::new(local)))
    }

    /// Makes a request; `params` is JSON text. Messages that come before the answer are handed to `notice`.
    ///
    /// # Errors
    /// When there is no answer, or the gateway itself refuses.
    pub async fn call(
        &mut self,
        method: &str,
        params: &str,
        mut notice: impl FnMut(&[u8]),
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Outside(remote) => remote.call(method, params, notice).await,
            Self::Inside(local) => {
                let answered = local.call(method, params, |text: Bytes| notice(&text)).await;
                read(&answered.map_err(|fault| failure(&fault))?)
            }
        }
    }

    /// Ends what was begun.
    pub async fn close(self) {
        match self {
            Self::Inside(local) => local.close(END).await,
            Self::Outside(remote) => remote.close().await,
        }
    }
}

impl RpcError {
    /// The code with which a command ends for it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let reason = self.data.as_ref().and_then(|data| data.get("reason")?.as_str());
        match reason {
            Some(reason) if reason.starts_with("upstream_") => Exit::Unavailable,
            _ => Exit::ToolError,
        }
    }
}

/// The logging of commands that are over soon. They say themselves what failed, and the level in the file is
/// meant for the gateway.
pub fn log_quietly(config: &mut Snapshot, level: Option<Level>) {
    config.log.level = level.map_or(LogLevel::Error, LogLevel::from);
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// Only what needs a person
    Error,
    /// And what may soon
    Warn,
    /// And what happens to connections and servers, with what servers write to standard error
    Info,
    /// And every call
    Debug,
    /// The same as debug today
    Trace,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warn,
            Level::Info => Self::Info,
            Level::Debug => Self::Debug,
            Level::Trace => Self::Trace,
        }
    }
}

/// The servers that were not tried yet.
pub fn pending(gateway: &Gateway) -> Vec<Arc<str>> {
    let members = gateway.catalog.members().iter();
    members.filter(|member| !member.state().tried).map(|member| member.upstream.name.clone()).collect()
}

/// What is in a whole response.
fn read(text: &[u8]) -> Result<Outcome, Failure> {
    #[derive(Deserialize)]
    struct Response {
        result: Option<Box<RawValue>>,
        error: Option<RpcError>,
    }
    let response: Response = serde_json::from_slice(text)?;
    match (response.result, response.error) {
        (Some(result), _) => Ok(Outcome::Result(result)),
        (None, Some(error)) => Ok(Outcome::Error(error)),
        (None, None) => Err(Failure::new(Exit::Failed, "the answer is neither a result nor an error")),
    }
}

/// How a command ends when its call cannot be made.
fn failure(fault: &Fault) -> Failure {
    let exit = match fault {
        Fault::Unavailable { .. }
        | Fault::Timeout { .. }
        | Fault::Protocol { .. }
        | Fault::OutcomeUnknown { .. } => Exit::Unavailable,
        Fault::Unknown { .. } | Fault::InvalidParams(_) | Fault::ResourceNotFound { .. } => Exit::ToolError,
        _ => Exit::Failed,
    };
    Failure::new(exit, output::harmless(&fault.to_string()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_numbers_come_through_unread() {
        let text = br#"{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890123}}"#;
        let Ok(Outcome::Result(result)) = read(text) else { panic!("a result") };
        assert_eq!(result.get(), r#"{"n":12345678901234567890123}"#);
        assert!(read(br#"{"id":1}"#).is_err());
    }

    #[test]
    fn an_error_says_whose_it_is() {
        let read = |data: &str| {
            let text = format!(r#"{{"id":1,"error":{{"code":-32603,"message":"m","data":{data}}}}}"#);
            match read(text.as_bytes()) {
                Ok(Outcome::Error(error)) => error.exit(),
                _ => panic!("an error"),
            }
        };
        assert_eq!(read(r#"{"origin":"gateway","reason":"upstream_timeout"}"#), Exit::Unavailable);
        assert_eq!(read(r#"{"reason":7}"#), Exit::ToolError);
        assert_eq!(read("null"), Exit::ToolError);
    }
}
