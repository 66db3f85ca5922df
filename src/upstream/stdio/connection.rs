//! MCP with a child: the line over its two pipes, and the process that ends with it.
//!
//! *On drop:* the child's group is killed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use super::child::{Child, Grace, Life};
use super::pipe::{Closed, Input};
use super::reader::Reader;
use crate::base::tasks;
use crate::call::Fault;
use crate::mcp::revision::Revision;
use crate::upstream::blame::Blame;
use crate::upstream::flight::Failure;
use crate::upstream::line::{Line, Manners, Met, Outlet, Request, Unsent};
use crate::upstream::report::Report;

/// How long the last lines of a child that has ended are waited for, and the news of its end once its
/// output is closed (F-026).
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);

/// An open connection.
pub struct StdioConnection {
    /// What is spoken over its pipes.
    pub met: Met<Stdin>,
    life: Life,
}

impl StdioConnection {
    /// Meets a child and offers it `offered`.
    ///
    /// *On drop:* the child is killed.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(child: Child, offered: Revision, manners: Manners) -> Result<Arc<Self>, Failure> {
        let Child { input, frames, noise, life } = child;
        let deadline = manners.deadline();
        let report = manners.patron.unbound.report.clone();
        let line = Line::new(Stdin { input, report }, manners);
        let exit = {
            let exit = life.exit();
            async move { exit.await.to_string() }
        };
        let reader = Reader { line: Arc::clone(&line), noise };
        tasks::spawn("stdio reader", reader.run(frames, exit)).detach();
        Ok(Arc::new(Self { met: line.meet(offered, &deadline).await?, life }))
    }

    /// Stops the child in good order (STDIO-04).
    pub async fn close(&self, grace: Grace) {
        self.met.close();
        self.life.stop(grace).await;
    }
}

/// The child's standard input. What is queued there counts as sent: the child may read it at any time.
pub struct Stdin {
    input: Input,
    report: Report,
}

impl Outlet for Stdin {
    async fn send(&self, text: Bytes, request: Request<'_>) -> Result<(), Unsent> {
        self.say(text).await?;
        request.sent.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn say(&self, text: Bytes) -> Result<(), Unsent> {
        let size = text.len();
        self.input.send(text).await.map_err(|Closed| Unsent::Ending)?;
        self.report.sent(size);
        Ok(())
    }

    fn offer(&self, text: Bytes) -> bool {
        self.input.offer(text).is_ok()
    }

    fn lost(blame: &Blame, why: String, _: bool) -> Fault {
        // Its end is its own doing as a rule, and the reason tells more than that nobody knows.
        blame.broken(why)
    }
}
