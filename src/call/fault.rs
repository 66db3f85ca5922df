//! What can go wrong on the way of a call: whether a repeat is safe, how it counts, which code it has.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::jsonrpc::error::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, QUOTA_EXCEEDED, RESOURCE_NOT_FOUND,
};
use crate::jsonrpc::{ErrorObject, text};

/// A failed call. Its text goes to clients: no inner addresses, no secrets (RPC-12).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No such method, or not in this session.
    #[error("method not found: {0}")]
    MethodNotFound(String),
    /// The envelope is right, the request is not allowed now.
    #[error("{0}")]
    InvalidRequest(Cow<'static, str>),
    /// Parameters are missing or of the wrong type.
    #[error("{0}")]
    InvalidParams(Cow<'static, str>),
    /// A name that nobody has; the exposed name is repeated (TOOL-06, PROM-03).
    #[error("unknown {what}: {name}")]
    Unknown {
        /// `tool` or `prompt`
        what: &'static str,
        /// As the client wrote it.
        name: String,
    },
    /// A resource that nobody has (RES-07).
    #[error("resource not found")]
    ResourceNotFound {
        /// As the client wrote it.
        uri: String,
    },
    /// A resource of an upstream that tells of no changes (RES-10).
    #[error("the server of this resource has no subscriptions")]
    SubscribeUnsupported {
        /// As the client wrote it.
        uri: String,
    },
    /// The upstream cannot be reached, has ended, or is being left alone for a while.
    #[error("upstream `{upstream}` is not available: {why}")]
    Unavailable {
        /// Its name.
        upstream: Arc<str>,
        /// What is known, fit for a client.
        why: Cow<'static, str>,
        /// When a repeat may help.
        retry_after: Option<Duration>,
        /// Whether the call surely did not reach it.
        unsent: bool,
    },
    /// A time limit passed; it is named, so that it can be raised (F-060).
    #[error("upstream `{upstream}` did not answer within its `{limit}` limit of {}", Seconds(*.after))]
    Timeout {
        /// Its name.
        upstream: Arc<str>,
        /// The key under `timeouts`.
        limit: &'static str,
        /// Its value.
        after: Duration,
    },
    /// The upstream broke the protocol.
    #[error("upstream `{upstream}` broke the protocol: {why}")]
    Protocol {
        /// Its name.
        upstream: Arc<str>,
        /// What it did.
        why: Cow<'static, str>,
    },
    /// The connection was lost after the call had left: nobody knows whether it was done (F-021).
    #[error("the connection to upstream `{upstream}` was lost, the outcome of the call is unknown")]
    OutcomeUnknown {
        /// Its name.
        upstream: Arc<str>,
    },
    /// A bounded thing is full (R-11, R-37).
    #[error("{what} is exhausted; the limit is `{key}`")]
    Exhausted {
        /// What is full.
        what: &'static str,
        /// The configuration key to raise.
        key: &'static str,
    },
    /// The client cancelled, or its session ended; nobody reads this.
    #[error("cancelled")]
    Cancelled,
    /// The gateway stops, and the grace period is over (F-098).
    #[error("the gateway is shutting down")]
    Stopping,
    /// A bug, or a machine without resources.
    #[error("internal error")]
    Internal,
}

/// How a call ended, as metrics count it (F-102).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A result.
    Ok,
    /// A tool's result with `isError`.
    ToolError,
    /// A JSON-RPC error, by the upstream or by us for the client's mistake.
    RpcError,
    /// A time limit passed.
    Timeout,
    /// The client cancelled.
    Cancelled,
    /// The upstream was not there or broke off.
    UpstreamDown,
    /// Not allowed.
    Denied,
    /// Too much.
    RateLimited,
}

impl Outcome {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::ToolError,
        Self::RpcError,
        Self::Timeout,
        Self::Cancelled,
        Self::UpstreamDown,
        Self::Denied,
        Self::RateLimited,
    ];

    /// The value of the label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::RpcError => "rpc_error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::UpstreamDown => "upstream_down",
            Self::Denied => "denied",
            Self::RateLimited => "rate_limited",
        }
    }
}

impl Fault {
    /// Whether the call surely was not executed, so that sending it again cannot do it twice.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Unavailable { unsent: true, .. } | Self::Exhausted { .. })
    }

    /// The name of the upstream that it concerns.
    #[must_use]
    pub fn upstream(&self) -> Option<&str> {
        match self {
            Self::Unavailable { upstream, .. }
            | Self::Timeout { upstream, .. }
            | Self::Protocol { upstream, .. }
            | Self::OutcomeUnknown { upstream } => Some(upstream),
            _ => None,
        }
    }

    /// How metrics count it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Timeout { .. } => Outcome::Timeout,
            Self::Cancelled | Self::Stopping => Outcome::Cancelled,
            Self::Exhausted { .. } => Outcome::RateLimited,
            Self::Unavailable { .. } | Self::OutcomeUnknown { .. } | Self::Protocol { .. } => {
                Outcome::UpstreamDown
            }
            _ => Outcome::RpcError,
        }
    }

    /// The JSON-RPC code (RPC-10, RPC-11, RPC-13).
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::MethodNotFound(_) => METHOD_NOT_FOUND,
            Self::InvalidRequest(_) => INVALID_REQUEST,
            Self::InvalidParams(_) | Self::Unknown { .. } | Self::SubscribeUnsupported { .. } => {
                INVALID_PARAMS
            }
            Self::ResourceNotFound { .. } => RESOURCE_NOT_FOUND,
            Self::Exhausted { .. } => QUOTA_EXCEEDED,
            _ => INTERNAL_ERROR,
        }
    }

    /// The error as clients see it, with `data` by RPC-13.
    #[must_use]
    pub fn to_error(&self) -> ErrorObject {
        let mut message = self.to_string();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        ErrorObject { code: self.code(), message, data: self.data() }
    }

    fn data(&self) -> Option<String> {
        let (reason, upstream, retry) = match self {
            Self::ResourceNotFound { uri } => return Some(format!(r#"{{"uri":{}}}"#, text::quote(uri))),
            Self::SubscribeUnsupported { uri } => {
                return Some(format!(r#"{{"uri":{},"reason":"subscribe_unsupported"}}"#, text::quote(uri)));
            }
            Self::Unavailable { upstream, retry_after, .. } => {
                ("upstream_unavailable", Some(upstream), *retry_after)
            }
            Self::Timeout { upstream, .. } => ("upstream_timeout", Some(upstream), None),
            Self::Protocol { upstream, .. } => ("upstream_protocol_error", Some(upstream), None),
            Self::OutcomeUnknown { upstream } => ("upstream_outcome_unknown", Some(upstream), None),
            Self::Exhausted { .. } => ("quota_exceeded", None, None),
            Self::Stopping => ("shutting_down", None, None),
            _ => return None,
        };
        let mut data = format!(r#"{{"origin":"gateway","reason":"{reason}""#);
        if let Some(upstream) = upstream {
            data.push_str(r#","upstream":"#);
            text::quote_into(&mut data, upstream);
        }
        if let Some(retry) = retry {
            data.push_str(&format!(r#","retryAfterMs":{}"#, retry.as_millis()));
        }
        data.push('}');
        Some(data)
    }
}

/// A duration as people write it.
struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RPC-13
    #[test]
    fn upstream_faults_carry_a_reason_and_a_name() {
        let fault = Fault::Unavailable {
            upstream: "a\"b".into(),
            why: "it ended".into(),
            retry_after: Some(Duration::from_millis(1500)),
            unsent: true,
        };
        let error = fault.to_error();
        assert_eq!(error.code, INTERNAL_ERROR);
        assert_eq!(
            error.data.as_deref(),
            Some(
                r#"{"origin":"gateway","reason":"upstream_unavailable","upstream":"a\"b","retryAfterMs":1500}"#
            )
        );
    }

    /// RES-10: not `-32601`, after which a client would subscribe to nothing any more.
    #[test]
    fn res_10_a_subscription_that_cannot_be_is_the_parameters_fault() {
        let error = Fault::SubscribeUnsupported { uri: "a+x://1".into() }.to_error();
        assert_eq!(error.code, INVALID_PARAMS);
        assert_eq!(error.data.as_deref(), Some(r#"{"uri":"a+x://1","reason":"subscribe_unsupported"}"#));
    }

    /// F-060: the message names the limit and the upstream.
    #[test]
    fn timeouts_name_their_limit() {
        let fault = Fault::Timeout {
            upstream: "alpha".into(),
            limit: "callIdle",
            after: Duration::from_millis(2500),
        };
        assert_eq!(
            fault.to_error().message,
            "Upstream `alpha` did not answer within its `callIdle` limit of 2.5 s"
        );
        assert_eq!(fault.outcome(), Outcome::Timeout);
        assert!(!fault.is_unsent());
    }
}
