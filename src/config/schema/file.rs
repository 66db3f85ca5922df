//! The file as a whole: the tables of servers that clients know, and `portcullis`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;

use super::entry::{Entry, Named};
use super::gateway::Gateway;
use super::timeouts::Timeouts;
use crate::config::decode::{Decoder, Field, Place, Refusal, Table, Wrong, nearest};
use crate::config::document::Node;
use crate::config::problem::Problem;
use crate::config::snapshot::FailedUpstream;

/// The configuration of an MCP client, or of several, with what the gateway adds under `portcullis`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it only describes the file; `Contents` is what is read")]
#[schemars(title = "Portcullis configuration", rename_all = "camelCase")]
pub struct File {
    /// Servers, as most clients list them.
    pub mcp_servers: Option<BTreeMap<String, Entry>>,
    /// Servers, as VS Code lists them.
    pub servers: Option<BTreeMap<String, Entry>>,
    /// Servers, as Codex lists them.
    #[schemars(rename = "mcp_servers")]
    pub codex_servers: Option<BTreeMap<String, Entry>>,
    /// Values that VS Code asks for. The gateway takes the one called `some-id` from the variable
    /// `INPUT_SOME_ID`.
    pub inputs: Option<Vec<serde_json::Value>>,
    /// The settings of the gateway as a whole.
    pub portcullis: Option<Gateway>,
}

/// What a file says, read and not yet checked as a whole.
#[derive(Debug, Default)]
pub(in crate::config) struct Contents {
    pub gateway: Gateway,
    pub entries: Vec<Named>,
    pub failed: Vec<FailedUpstream>,
    pub disabled: Vec<Arc<str>>,
}

/// The keys under which servers are listed.
const ROOTS: [&str; 3] = ["mcpServers", "servers", "mcp_servers"];

impl Contents {
    /// Reads a whole file. What is wrong is noted in the decoder.
    pub(in crate::config) fn decode<'a>(decoder: &mut Decoder<'a>, root: &'a Node) -> Self {
        let field = Field::root(decoder, root);
        field.noted(|field| field.open_table(Self::read)).map(|placed| placed.value).unwrap_or_default()
    }

    fn read(table: &mut Table<'_, '_>) -> Self {
        let gateway = table.read("portcullis", |field| field.table(Gateway::decode));
        // Here nothing can fail alone.
        let failures = std::mem::take(&mut table.decoder.failures);
        table.decoder.problems.extend(failures);
        let mut contents = Self { gateway: gateway.unwrap_or_default(), ..Self::default() };
        for root in ROOTS {
            table.read(root, |field| contents.read_servers(field));
        }
        contents.look_at_keys(table);
        contents
    }

    /// A table of entries, or a list of entries with names.
    fn read_servers(&mut self, field: &mut Field<'_, '_>) -> Result<(), Refusal> {
        let timeouts = self.gateway.timeouts.clone();
        let found = if field.is_list() {
            field.list(|item| {
                let outcome = outcome(item, &timeouts)?;
                let name = item.open_table(|table| table.read("name", |field| field.text()))?;
                let name = name.ok_or_else(|| Wrong::new("`name` is missing"))?;
                Ok((name.reveal().to_owned(), outcome))
            })?
        } else {
            field.open_table(|table| table.read_all(|_, field| outcome(field, &timeouts)))?
        };
        for (name, outcome) in found {
            match outcome {
                Outcome::Read(_, entry) if entry.disabled => self.disabled.push(name.into()),
                Outcome::Read(place, entry) => self.entries.push(Named { name, place, entry: *entry }),
                Outcome::Failed(problems) => self.failed.push(FailedUpstream { name: name.into(), problems }),
            }
        }
        Ok(())
    }

    /// Says when nothing lists servers, and when `portcullis` is misspelt.
    fn look_at_keys(&self, table: &mut Table<'_, '_>) {
        for (key, place) in table.keys() {
            if key != "portcullis" && nearest(key, ["portcullis"]).is_some() {
                // Nobody else has a key like this, and what it says must not be lost.
                let wrong = Wrong::new(format!("unknown key `{key}`"));
                table.decoder.note(&place, wrong.mend("did you mean `portcullis`?"));
            }
        }
        if ROOTS.iter().any(|root| table.has(root)) {
            return;
        }
        let roots = "servers are listed under `mcpServers`, `servers` or `mcp_servers`";
        let slip = table.keys().into_iter().find_map(|(key, place)| Some((place, nearest(key, ROOTS)?)));
        match slip {
            Some((place, meant)) => {
                let wrong = Wrong::new("nothing in this file lists servers");
                let mend = format!("did you mean `{meant}`?\n{roots}");
                table.decoder.note(&place, wrong.mend(mend));
            }
            None if table.has("portcullis") => {
                let place = table.place.clone();
                let message = "nothing in this file lists servers";
                table.decoder.warn(&place, message, roots);
            }
            None => table.note(Wrong::new("nothing in this file lists servers").mend(roots)),
        }
    }
}

/// What became of an entry.
enum Outcome {
    Read(Place, Box<Entry>),
    Failed(Vec<Problem>),
}

/// Reads an entry, so that what the world around the file lacks concerns this entry only.
fn outcome(field: &mut Field<'_, '_>, timeouts: &Timeouts) -> Result<Outcome, Refusal> {
    let faults = field.decoder.problems.len();
    let outer = std::mem::take(&mut field.decoder.failures);
    let read = field.open_table(|table| (table.place.clone(), Entry::decode(table, timeouts)));
    let failures = std::mem::replace(&mut field.decoder.failures, outer);
    let (place, entry) = read?;
    if field.decoder.problems.len() > faults {
        // What follows from a fault that is noted need not be noted as well.
        return Err(Refusal::Noted);
    }
    if failures.is_empty() {
        Ok(Outcome::Read(place, Box::new(entry)))
    } else {
        Ok(Outcome::Failed(failures))
    }
}
