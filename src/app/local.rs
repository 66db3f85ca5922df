//! Calls through the gateway's own parts, without a listener: what the command line uses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tower::ServiceExt;

use crate::app::build::Gateway;
use crate::base::{ids, tasks};
use crate::call::{
    Answer, Body, Call, Endpoint, Fault, Item, Principal, Proof, Reply, Session, SessionKey, Upstreams,
    gather,
};
use crate::jsonrpc::message::compose;
use crate::jsonrpc::rewrite::{Plan, Rewriter};
use crate::jsonrpc::{Id, Message};
use crate::mcp::methods;
use crate::mcp::revision::Revision;

/// A session of this process with its own gateway.
///
/// *On drop*: its connections are released; call [`close`](Self::close) to wait for that.
pub struct Local {
    gateway: Gateway,
    session: Arc<Session>,
    _reading: tasks::Group,
}

/// The id of all our requests: one is made at a time.
const ID: u64 = 1;

impl Local {
    /// Starts to read the catalog, and opens a session at an endpoint.
    #[must_use]
    pub fn open(gateway: Gateway, endpoint: Endpoint) -> Self {
        let reading = gateway.catalog.start();
        let who = Arc::new(Principal::new("local", Proof::Local));
        let session = Session::new(SessionKey(ids::random_bytes()), Revision::LATEST, who, endpoint);
        Self { gateway, session: Arc::new(session), _reading: reading }
    }

    /// Waits until each upstream was tried, at most so long.
    pub async fn settled(&self, budget: Duration) {
        self.gateway.catalog.settled(budget).await;
    }

    /// The gateway that is called through.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Makes a request; `params` is JSON text. Notices on the way are handed to `notice` as whole messages.
    ///
    /// # Errors
    /// The fault of the call. A JSON-RPC error of an upstream is no fault: it is in the answer's text.
    pub async fn call(
        &self,
        method: &str,
        params: &str,
        mut notice: impl FnMut(Bytes),
    ) -> Result<Bytes, Fault> {
        let method = methods::find(method).ok_or_else(|| Fault::MethodNotFound(method.to_owned()))?;
        let message = Message::parse(compose(Some(ID), method.name, params))
            .map_err(|error| Fault::InvalidParams(error.to_string().into()))?;
        let call = Call::new(self.session.clone(), method, message)
            .map_err(|error| Fault::InvalidParams(error.to_string().into()))?;
        match self.gateway.calls.clone().oneshot(call).await? {
            Reply::Done(answer) => text(answer).await,
            Reply::Items(mut items) => loop {
                match items.next().await {
                    Some(Item::Notice(text)) => notice(text),
                    // There is nobody to ask, and nothing to reconnect.
                    Some(Item::Raw(_) | Item::Ask(_) | Item::Pause(_)) => {}
                    Some(Item::Done(answer)) => return text(answer).await,
                    Some(Item::Failed(fault)) => return Err(fault),
                    None => return Err(Fault::Internal),
                }
            },
        }
    }

    /// Ends the session and the server shore.
    pub async fn close(self, grace: Duration) {
        self.session.ended.cancel();
        self.gateway.servers.release(&self.session);
        self.gateway.servers.shutdown(grace).await;
    }
}

/// The whole answer, as a client would see it.
async fn text(mut answer: Answer) -> Result<Bytes, Fault> {
    let id = Id::number(ID);
    let plan = Plan { root: answer.rewrites, id: id.text().clone(), uris: answer.uris.take() };
    let text = match answer.body {
        Body::Result(result) => {
            return Ok(Bytes::from(
                [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", result.as_ref(), b"}"].concat(),
            ));
        }
        Body::Message(message) => message.text().clone(),
        Body::Stream(chunks) => gather(chunks).await?,
    };
    Rewriter::whole(plan, &text).map(|(text, _)| text).map_err(|_| Fault::Internal)
}
