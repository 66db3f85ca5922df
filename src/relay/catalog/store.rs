//! The last catalog of each upstream on disk, to be served at the next start until it was read anew (R-22).
//!
//! *Invariants.* A file is replaced as a whole. One of another configuration of the upstream, of
//! another form, or older than `staleFor` is as good as none. Failures cost the head start, nothing else.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::base::{clock, ids};
use crate::call::Handshake;
use crate::config::snapshot::{Transport, Upstream};
use crate::jsonrpc::view::elements_at;
use crate::jsonrpc::{Object, id, text};
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::revision::Revision;
use crate::relay::catalog::item;
use crate::relay::catalog::snapshot::Snapshot;

/// The version of the form of the files.
const FORM: &[u8] = b"1";

/// A folder of catalogs.
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// In the state directory.
    #[must_use]
    pub fn new(state_directory: &Path) -> Self {
        Self { folder: state_directory.join("catalog") }
    }

    /// What an earlier run read of this upstream, as configured now.
    #[must_use]
    pub fn load(&self, upstream: &Upstream, stale_for: Duration) -> Option<Snapshot> {
        let kept = Bytes::from(fs::read(self.path(upstream)).ok()?);
        let object = Object::scan(&kept, 0).ok()?;
        let at = id::number(object.value(&kept, "readAt")?)?;
        let age = Duration::from_millis(clock::unix_millis().saturating_sub(at));
        if object.value(&kept, "form")? != FORM || age > stale_for {
            return None;
        }
        let instructions = object.string(&kept, "instructions").map(std::borrow::Cow::into_owned);
        let handshake = Handshake {
            revision: Revision::parse(&object.string(&kept, "revision")?)?,
            capabilities: ServerCapabilities::read(object.value(&kept, "capabilities")?).ok()?,
            server_info: kept.slice(object.find(&kept, "serverInfo")?),
            instructions,
        };
        let mut items: [Arc<Vec<item::Item>>; 4] = Default::default();
        for kind in ItemKind::ALL {
            let elements = elements_at(&kept, object.find(&kept, kind.member())).ok()?;
            let read = elements.iter().filter_map(|element| item::read(kind, element, usize::MAX).ok());
            items[kind.index()] = Arc::new(read.collect());
        }
        let read_at = clock::now().checked_sub(age).unwrap_or_else(clock::now);
        Some(Snapshot { handshake: Arc::new(handshake), items, read_at, stale: true })
    }

    /// Keeps a reading.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&self, upstream: &Upstream, snapshot: &Snapshot) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(upstream);
        let fresh = path.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&form(snapshot))?;
        file.sync_data()?;
        fs::rename(fresh, path)
    }

    /// Named by what decides the lists, so that another configuration never meets them.
    fn path(&self, upstream: &Upstream) -> PathBuf {
        let mut deciding = upstream.name.as_bytes().to_vec();
        match &upstream.transport {
            Transport::Stdio(stdio) => {
                for part in stdio.shown() {
                    deciding.push(0);
                    deciding.extend_from_slice(part.as_bytes());
                }
            }
            Transport::Remote(remote) => {
                deciding.push(1);
                deciding.extend_from_slice(remote.url.reveal().as_str().as_bytes());
            }
        }
        deciding.extend_from_slice(format!("{:?}", upstream.tools).as_bytes());
        self.folder.join(format!("{}.json", &ids::sha256_hex(&deciding)[..32]))
    }
}

fn form(snapshot: &Snapshot) -> Vec<u8> {
    let handshake = &snapshot.handshake;
    let mut out = format!(
        r#"{{"form":{},"readAt":{},"revision":"{}","capabilities":{},"#,
        String::from_utf8_lossy(FORM),
        clock::unix_millis(),
        handshake.revision,
        declared(handshake.capabilities),
    );
    if let Some(instructions) = &handshake.instructions {
        out.push_str(r#""instructions":"#);
        text::quote_into(&mut out, instructions);
        out.push(',');
    }
    let mut out = out.into_bytes();
    out.extend_from_slice(b"\"serverInfo\":");
    out.extend_from_slice(&handshake.server_info);
    for kind in ItemKind::ALL {
        out.extend_from_slice(format!(r#","{}":["#, kind.member()).as_bytes());
        for (n, item) in snapshot.of(kind).iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&item.text);
        }
        out.push(b']');
    }
    out.push(b'}');
    out
}

/// Capabilities as the upstream declared them, flags included.
fn declared(capabilities: ServerCapabilities) -> String {
    let ServerCapabilities {
        tools,
        tools_changed,
        prompts,
        prompts_changed,
        resources,
        resources_changed,
        subscribe,
        logging,
        completions,
    } = capabilities;
    let mut parts = Vec::new();
    if tools {
        parts.push(format!(r#""tools":{{"listChanged":{tools_changed}}}"#));
    }
    if prompts {
        parts.push(format!(r#""prompts":{{"listChanged":{prompts_changed}}}"#));
    }
    if resources {
        parts.push(format!(r#""resources":{{"listChanged":{resources_changed},"subscribe":{subscribe}}}"#));
    }
    if logging {
        parts.push(r#""logging":{}"#.to_owned());
    }
    if completions {
        parts.push(r#""completions":{}"#.to_owned());
    }
    format!("{{{}}}", parts.join(","))
}
