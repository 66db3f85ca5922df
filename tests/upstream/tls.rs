//! Secure connections: whom to trust, HTTP/2, proxies.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use portcullis::base::tasks;
use portcullis::config::environment::Environment;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::rig::*;

/// A folder with the certificate of an authority, and what a server for `localhost` needs.
struct Authority {
    folder: tempfile::TempDir,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        ca.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::DigitalSignature];
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca_cert.pem()).unwrap();
        Self {
            folder,
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn script(seen: &Seen) -> Act {
    greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}")))
}

/// A server over TLS without HTTP/2; gives its port.
async fn secure_server(acceptor: TlsAcceptor) -> (u16, tasks::Task<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tasks::spawn("tls server", async move {
        let mut running = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            running.push(tasks::spawn("tls connection", async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, 0, &script, |_| ()).await;
                }
            }));
        }
    });
    (port, task)
}

fn entry(port: u16, ca: Option<&PathBuf>) -> String {
    let ca =
        ca.map_or(String::new(), |file| format!(r#", "portcullis": {{"caFile": "{}"}}"#, file.display()));
    format!(r#""type": "http", "url": "https://localhost:{port}/mcp"{ca}"#)
}

/// F-095, R-15: an extra authority is trusted, a stranger is not, and the reason is known.
#[tokio::test]
async fn f_095_an_extra_authority_is_trusted() {
    let authority = Authority::new();
    let (port, _server) = secure_server(authority.acceptor(&["http/1.1"])).await;
    let rig = Rig::new(&entry(port, Some(&authority.file())));
    done(rig.call(&session(1), r#"{"name":"t"}"#).await).await;

    let rig = Rig::new(&entry(port, None));
    let fault = rig.connect().await.unwrap_err();
    assert!(fault.to_string().ends_with("no secure connection could be made"), "{fault}");
    let reason = rig.shore.status().swap_remove(0).reason;
    assert!(reason.contains("UnknownIssuer") || reason.contains("unknown issuer"), "{reason}");
}

/// R-29: a CA file that was replaced counts for the next connection.
#[tokio::test]
async fn a_new_ca_file_is_read() {
    let (old, new) = (Authority::new(), Authority::new());
    let (port, _server) = secure_server(new.acceptor(&[])).await;
    let rig = Rig::new(&entry(port, Some(&old.file())));
    rig.connect().await.unwrap_err();
    let text = std::fs::read(new.file()).unwrap();
    std::fs::write(old.file(), text).unwrap();
    let later = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(2_000_000_000);
    std::fs::File::options().write(true).open(old.file()).unwrap().set_modified(later).unwrap();
    rig.connect().await.unwrap();
}

/// HTTP-40: one connection for all where the upstream speaks HTTP/2.
#[tokio::test]
async fn http_2_carries_many_calls_on_one_connection() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(Mutex::new(0));
    let count = Arc::clone(&connections);
    let _server = tasks::spawn("h2 server", async move {
        let mut running = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            *count.lock().unwrap() += 1;
            let acceptor = acceptor.clone();
            running.push(tasks::spawn("h2 connection", async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let service = service_fn(answer);
                let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }));
        }
    });
    let rig = Rig::new(&entry(port, Some(&authority.file())));
    let sessions: Vec<_> = (0..10).map(session).collect();
    rig.connect().await.unwrap();
    let calls = sessions.iter().map(|session| rig.call(session, r#"{"name":"t"}"#));
    for reply in futures_util::future::join_all(calls).await {
        assert!(done(reply).await.contains("result"));
    }
    assert_eq!(*connections.lock().unwrap(), 1);
}

async fn answer(
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<Full<Bytes>>, std::convert::Infallible> {
    assert_eq!(request.uri().path(), "/mcp");
    assert_eq!(request.uri().host(), Some("localhost"));
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let seen = Seen {
        verb: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: Default::default(),
        body: String::from_utf8(body.to_vec()).unwrap(),
        connection: 0,
    };
    let Act::Answer(text) = script(&seen) else { panic!("only whole answers here") };
    let text = String::from_utf8(text).unwrap();
    let (top, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = top.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let mut answer = http::Response::builder().status(status);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        answer = answer.header(name, value);
    }
    Ok(answer.body(Full::from(body.to_owned())).unwrap())
}

/// F-095: secure upstreams are reached through the proxy, with its credentials and without ours.
#[tokio::test]
async fn f_095_a_proxy_is_asked_for_a_tunnel() {
    let authority = Authority::new();
    let (port, _server) = secure_server(authority.acceptor(&["http/1.1"])).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&asked);
    let _proxy = tasks::spawn("proxy", async move {
        let mut running = Vec::new();
        while let Ok((mut stream, _)) = proxy.accept().await {
            let note = Arc::clone(&note);
            running.push(tasks::spawn("tunnel", async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                *note.lock().unwrap() = String::from_utf8(head).unwrap();
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
            }));
        }
    });
    // The name is the proxy's to resolve; the certificate is for another, so the handshake fails after the tunnel.
    let environment: Environment =
        [("HTTPS_PROXY".to_owned(), format!("http://u:p@{address}"))].into_iter().collect();
    let file = format!(
        r#"{{"mcpServers": {{"alpha": {{"url": "https://ext.example:8443/mcp", "headers": {{"authorization": "Bearer t"}}, "portcullis": {{"caFile": "{}"}}}}}}}}"#,
        authority.file().display()
    );
    let rig = Rig::of(&file, &environment);
    let fault = rig.connect().await.unwrap_err();
    assert!(fault.to_string().ends_with("no secure connection could be made"), "{fault}");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.starts_with("CONNECT ext.example:8443 HTTP/1.1\r\nHost: ext.example:8443\r\n"), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic dTpw\r\n") && !asked.contains("Bearer"), "{asked}");
}
