//! Running the program and what it talks to; everything that was started ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The scripted server.
pub const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/server.py");

/// A folder of a user who has nothing else.
pub struct Home(TempDir);

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file that only its owner can write.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        #[cfg(unix)]
        {
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&path, private).unwrap();
        }
        path
    }

    /// The user's own configuration.
    pub fn configure(&self, config: &Value) -> PathBuf {
        self.file(".config/portcullis/portcullis.json", &config.to_string())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "")
    }

    /// Runs the program with this on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        // Who does not read its input has closed it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(arguments).env_clear().env("HOME", self.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TOLD", "by the test");
        command.current_dir(self.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A gateway that listens on free ports.
    pub fn serve(&self, arguments: &[&str]) -> Gateway {
        let ports = ["serve", "--listen", "0", "--admin-listen", "0"];
        let mut child = self.command(&[&ports, arguments].concat()).stdin(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut address = |shore: &str| loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the gateway ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["message"] == "listening" && line["shore"] == shore {
                return format!("http://{}", line["address"].as_str().unwrap());
            }
        };
        let (clients, operator) = (address("clients") + "/mcp", address("operator"));
        // Nobody may be held up by a full pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Gateway { child, clients, operator }
    }
}

/// A gateway that runs. *On drop*: it is told to end, and waited for.
pub struct Gateway {
    child: Child,
    pub clients: String,
    pub operator: String,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// The scripted server over HTTP. *On drop*: it ends.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    pub fn start() -> Self {
        let mut command = Command::new("python3");
        command.args([SERVER, "--http"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = Vec::new();
        let mut out = child.stdout.take().unwrap();
        while url.last() != Some(&b'\n') {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            url.push(byte[0]);
        }
        Self { child, url: String::from_utf8(url).unwrap().trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
