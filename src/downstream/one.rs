//! One message of a session: a request into a call, a notification into its effect.

use std::borrow::Cow;
use std::sync::Arc;

use tower::ServiceExt;

use crate::call::{Call, Fault};
use crate::downstream::exchange::{Exchange, Pending};
use crate::downstream::legacy::in_flight::Unfit;
use crate::downstream::legacy::session::Entry;
use crate::downstream::rescue::Refusal;
use crate::downstream::shore::Shore;
use crate::jsonrpc::scan::ScanError;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Id, Message, MessageError, Object};
use crate::mcp::methods;

/// What a request has become.
pub enum Begun {
    /// A call under way.
    Call(Exchange),
    /// A call that failed at once; the id is the client's.
    Failed(Fault, Id),
}

/// Begins a request.
///
/// # Errors
/// Refusals of the envelope, which are answered with an HTTP status of their own (RPC-14): an id in use, a
/// repeated member, more calls in flight than a session may have.
pub fn begin(shore: &Arc<Shore>, entry: &Entry, message: Message) -> Result<Begun, Refusal> {
    // A request has an id: the message's invariant.
    let Some(id) = message.id() else {
        return Err(Refusal::Invalid { what: "the request has no id", id: None });
    };
    let ticket = match entry.in_flight.begin(id.clone()) {
        Ok(ticket) => ticket,
        Err(Unfit::InUse) => {
            return Err(Refusal::Invalid { what: "the id is that of a request in flight", id: Some(id) });
        }
        Err(Unfit::Full) => return Err(Refusal::Busy(id)),
    };
    let Some(method) = methods::find(&message.method()) else {
        let name: String = message.method().chars().take(128).collect();
        return Ok(Begun::Failed(Fault::MethodNotFound(name), id));
    };
    match Call::new(entry.shared.clone(), method, message) {
        Ok(call) => {
            ticket.cancel().follows(call.course.clone());
            Ok(Begun::Call(Exchange::new(through(shore, call), ticket)))
        }
        Err(ScanError::NotObject) => {
            Ok(Begun::Failed(Fault::InvalidParams("`params` is not an object".into()), id))
        }
        Err(ScanError::Repeated(_)) => {
            Err(Refusal::Invalid { what: "a member of `params` occurs twice", id: Some(id) })
        }
        Err(error) => Err(MessageError::from(error).into()),
    }
}

/// The call through the gate.
pub fn through(shore: &Arc<Shore>, call: Call) -> Pending {
    Box::pin(shore.calls.clone().oneshot(call))
}

/// Takes a notification. What is wrong with it is nobody's answer (RPC-05).
pub fn notice(shore: &Arc<Shore>, entry: &Entry, message: Message) {
    match &*message.method() {
        "notifications/initialized" => entry.outbox.set_ready(),
        "notifications/cancelled" => {
            if let Some((id, reason)) = cancelled(&message) {
                entry.in_flight.cancel(&id, reason.as_deref());
            }
        }
        "notifications/progress" => entry.outbox.progressed(message),
        "notifications/roots/list_changed" => shore.sessions.roots_changed(&entry.shared),
        // Others mean nothing to us.
        _ => {}
    }
}

/// The id that a cancellation names, and why; malformed ones name none (CANC-01, CANC-07).
fn cancelled(message: &Message) -> Option<(Id, Option<Cow<'_, str>>)> {
    let params: Object = object_at(message.text(), message.params()).ok()??;
    let id = Id::parse(message.slice(params.find(message.text(), "requestId")?))?;
    Some((id, params.string(message.text(), "reason")))
}
