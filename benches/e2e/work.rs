//! What a load does over and over, and how its answers are checked.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::time;

use crate::{
    answers::{LARGE_BYTES, STEPS, large_text},
    client::{Content, Endpoint, Session},
};

/// An operation that has no end after this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of the text that an echo carries.
const ECHO_BYTES: usize = 100;

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A small call, to each upstream in turn.
    Call,
    /// A small call, to upstream 0 alone.
    CallFirst,
    /// A call with a large result.
    Large,
    /// A call that reports progress before its answer.
    Steps,
    /// The list of tools, which must have so many.
    List(usize),
    /// Connect, shake hands, call, end the session.
    Session,
}

/// A tool as the target shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    name: String,
    /// The number of the upstream that must answer.
    owner: usize,
}

/// The tools that a target shows, as far as the load uses them.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    echo: Vec<Shown>,
    large: Vec<Shown>,
    steps: Vec<Shown>,
    /// How many tools there are in all.
    pub size: usize,
}

/// Work with all that it needs.
pub struct Task {
    pub endpoint: Arc<Endpoint>,
    pub work: Work,
    pub shelf: Shelf,
    large: String,
}

impl Shelf {
    /// Asks the target for its tools.
    pub async fn of(session: &mut Session) -> Result<Self> {
        let answers = session.request("tools/list", "{}").await?;
        let tools = answers.result()?.tools;
        let mut shelf = Self { size: tools.len(), ..Self::default() };
        for tool in &tools {
            let (owner, word) = match tool.name.rsplit_once("__") {
                Some((namespace, word)) => (owner(namespace)?, word),
                None => (0, tool.name.as_ref()),
            };
            let shown = Shown { name: tool.name.to_string(), owner };
            match word {
                "echo" => shelf.echo.push(shown),
                "large" => shelf.large.push(shown),
                "steps" => shelf.steps.push(shown),
                _ => {}
            }
        }
        Ok(shelf)
    }

    /// Leaves only the tools of one upstream.
    pub fn only(mut self, owner: usize) -> Self {
        for tools in [&mut self.echo, &mut self.large, &mut self.steps] {
            tools.retain(|shown| shown.owner == owner);
        }
        self
    }

    fn pick(tools: &[Shown], turn: usize) -> Result<&Shown> {
        tools.get(turn % tools.len().max(1)).context("the target does not show the tool")
    }
}

/// The number of the upstream under this namespace, as [`namespace`] gave it.
fn owner(namespace: &str) -> Result<usize> {
    let number = namespace.strip_prefix('s').with_context(|| format!("namespace {namespace} is not ours"))?;
    Ok(number.parse()?)
}

/// The name under which the upstream of this number stands in a target's configuration.
pub fn namespace(number: usize) -> String {
    format!("s{number}")
}

impl Task {
    /// The work at this endpoint with these tools.
    pub fn new(endpoint: Arc<Endpoint>, work: Work, shelf: Shelf) -> Self {
        let large = if work == Work::Large { large_text(LARGE_BYTES) } else { String::new() };
        Self { endpoint, work, shelf, large }
    }

    /// Does it once over an open session; [`Work::Session`] opens its own. `turn` differs in each operation.
    pub async fn once(&self, session: Option<&mut Session>, turn: usize) -> Result<()> {
        match time::timeout(PATIENCE, self.operate(session, turn)).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("no end after {} s", PATIENCE.as_secs()),
        }
    }

    /// Does it once over a new session for each upstream that it is about.
    pub async fn lap(&self, session: &mut Session) -> Result<()> {
        let upstreams = if self.work == Work::Call { self.shelf.echo.len() } else { 1 };
        for turn in 0..upstreams {
            self.once(Some(session), turn).await?;
        }
        Ok(())
    }

    async fn operate(&self, session: Option<&mut Session>, turn: usize) -> Result<()> {
        let Some(session) = session else {
            let mut session = Session::open(&self.endpoint).await?;
            self.echo(&mut session, turn).await?;
            return session.close().await;
        };
        match self.work {
            Work::Call | Work::CallFirst | Work::Session => self.echo(session, turn).await,
            Work::Large => self.large(session, turn).await,
            Work::Steps => self.steps(session, turn).await,
            Work::List(tools) => {
                let answers = session.request("tools/list", "{}").await?;
                let listed = answers.result()?.tools.len();
                ensure!(listed == tools, "{listed} tools instead of {tools}");
                Ok(())
            }
        }
    }

    async fn echo(&self, session: &mut Session, turn: usize) -> Result<()> {
        let tool = Shelf::pick(&self.shelf.echo, turn)?;
        let text = text(turn);
        let params = format!(r#"{{"name":"{}","arguments":{{"text":"{text}"}}}}"#, tool.name);
        let answers = session.request("tools/call", &params).await?;
        check(&answers.result()?.content, tool.owner, &text)
    }

    async fn large(&self, session: &mut Session, turn: usize) -> Result<()> {
        let tool = Shelf::pick(&self.shelf.large, turn)?;
        let params = format!(r#"{{"name":"{}","arguments":{{"text":""}}}}"#, tool.name);
        let answers = session.request("tools/call", &params).await?;
        check(&answers.result()?.content, tool.owner, &self.large)
    }

    async fn steps(&self, session: &mut Session, turn: usize) -> Result<()> {
        let tool = Shelf::pick(&self.shelf.steps, turn)?;
        let text = text(turn);
        let params = format!(
            r#"{{"name":"{}","arguments":{{"text":"{text}"}},"_meta":{{"progressToken":{}}}}}"#,
            tool.name,
            session.next_id()
        );
        let answers = session.request("tools/call", &params).await?;
        check(&answers.after_progress(STEPS as u64)?.content, tool.owner, &text)
    }
}

/// A text that no other operation of this load has, so that a stored or crossed answer is noticed.
pub fn text(turn: usize) -> String {
    format!("{turn:0ECHO_BYTES$}")
}

/// That this is one block of text, from this upstream.
pub fn check(content: &[Content<'_>], owner: usize, text: &str) -> Result<()> {
    let [block] = content else { bail!("{} blocks instead of one", content.len()) };
    let (number, rest) = block.text.split_once(':').context("an answer without its upstream's number")?;
    ensure!(number.parse() == Ok(owner), "upstream {number} answered for {owner}");
    ensure!(rest == text, "a wrong text of {} bytes", rest.len());
    Ok(())
}
