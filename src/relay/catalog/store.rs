//! The last catalog of each upstream on disk, to be served at the next start until it was read anew (R-22).
//!
//! *Invariants.* A file is replaced as a whole. One of another configuration of the upstream, of
//! another form, or older than `staleFor` is as good as none. Failures cost the head start, nothing else. The files are
//! for the gateway's user alone; of secrets there is no more in them than a digest in their names.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zeroize::Zeroizing;

use crate::base::{clock, ids};
use crate::call::Handshake;
use crate::config::environment::Environment;
use crate::config::snapshot::{Catalog as Limits, Snapshot as Config, Transport, Upstream};
use crate::jsonrpc::view::elements_at;
use crate::jsonrpc::{Object, id, text};
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::revision::Revision;
use crate::relay::catalog::item;
use crate::relay::catalog::snapshot::Snapshot;

/// The version of the form of the files.
const FORM: &[u8] = b"2";

/// A folder of catalogs.
pub struct Store {
    folder: PathBuf,
    limits: Limits,
    environment: Arc<Environment>,
}

impl Store {
    /// In the state directory, if there is one.
    #[must_use]
    pub fn of(config: &Config) -> Option<Self> {
        let folder = config.state_directory.as_ref()?.join("catalog");
        Some(Self { folder, limits: config.catalog.clone(), environment: Arc::clone(&config.environment) })
    }

    /// What an earlier run read of this upstream, as configured now.
    #[must_use]
    pub fn load(&self, upstream: &Upstream) -> Option<Snapshot> {
        let kept = Bytes::from(fs::read(self.path(upstream)).ok()?);
        let object = Object::scan(&kept, 0).ok()?;
        let at = id::number(object.value(&kept, "readAt")?)?;
        let age = Duration::from_millis(clock::unix_millis().saturating_sub(at));
        if object.value(&kept, "form")? != FORM || age > self.limits.stale_for {
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
        let (mut folder, mut options) = (fs::DirBuilder::new(), fs::OpenOptions::new());
        folder.recursive(true);
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

            folder.mode(0o700);
            options.mode(0o600);
        }
        folder.create(&self.folder)?;
        let path = self.path(upstream);
        let fresh = path.with_extension("new");
        let mut file = options.open(&fresh)?;
        file.write_all(&form(snapshot))?;
        file.sync_data()?;
        fs::rename(fresh, path)
    }

    /// Named by a digest of what decides the lists, credentials included, so that another configuration or another
    /// account never meets them.
    fn path(&self, upstream: &Upstream) -> PathBuf {
        let mut deciding = Zeroizing::new(Vec::new());
        let mut add = |part: &[u8]| {
            deciding.extend_from_slice(&(part.len() as u64).to_be_bytes());
            deciding.extend_from_slice(part);
        };
        add(upstream.name.as_bytes());
        match &upstream.transport {
            Transport::Stdio(stdio) => {
                add(b"stdio");
                add(stdio.command.reveal().as_bytes());
                stdio.args.iter().for_each(|arg| add(arg.reveal().as_bytes()));
                add(b"env");
                for (name, value) in &stdio.env {
                    add(name.as_bytes());
                    add(value.reveal().as_bytes());
                }
                add(b"passEnv");
                for name in &stdio.pass_env {
                    add(name.as_bytes());
                    add(self.environment.value(name).unwrap_or_default().as_encoded_bytes());
                }
                add(b"cwd");
                add(stdio.cwd.as_deref().unwrap_or(Path::new("")).as_os_str().as_encoded_bytes());
            }
            Transport::Remote(remote) => {
                add(b"remote");
                add(remote.url.reveal().as_str().as_bytes());
                for (name, value) in &remote.headers {
                    add(name.as_bytes());
                    add(value.reveal().as_bytes());
                }
            }
        }
        add(format!("{:?} {:?}", upstream.tools, self.limits.on_finding).as_bytes());
        self.folder.join(format!("{}.json", &ids::sha256_hex(&deciding)[..32]))
    }
}

fn form(snapshot: &Snapshot) -> Vec<u8> {
    let handshake = &snapshot.handshake;
    let age = clock::now().saturating_duration_since(snapshot.read_at);
    let read_at = clock::unix_millis().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let mut out = format!(
        r#"{{"form":{},"readAt":{},"revision":"{}","capabilities":{},"#,
        String::from_utf8_lossy(FORM),
        read_at,
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

#[cfg(test)]
mod tests;
