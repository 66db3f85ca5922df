//! The operator's port, asked over a real socket.

use std::net::SocketAddr;
use std::sync::Mutex;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::admin::Ready;

/// What the gateway says of itself.
struct State(Mutex<Ready>);

impl Readiness for State {
    fn ready(&self) -> Ready {
        self.0.lock().unwrap().clone()
    }
}

struct Port {
    address: SocketAddr,
    state: Arc<State>,
    stop: CancellationToken,
    serving: tasks::Task<io::Result<()>>,
}

fn open() -> Port {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    let state = Arc::new(State(Mutex::new(Ready::Yes)));
    let stop = CancellationToken::new();
    let serving =
        tasks::spawn("operator's port", serve(socket, Telemetry::detached(), state.clone(), stop.clone()));
    Port { address, state, stop, serving }
}

/// Status, head and body of one exchange.
async fn ask(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_owned(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n\r\n")).await
}

/// three pages without authentication, under any Host, and nothing else.
#[tokio::test]
async fn three_pages_and_nothing_else() {
    let port = open();
    let (status, _, body) = get(port.address, "/livez").await;
    assert_eq!((status, body.as_str()), (200, "alive\n"));
    let (status, head, body) = get(port.address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("# TYPE portcullis_build_info gauge\nportcullis_build_info{version="), "{body}");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    for path in ["/", "/status", "/metrics/", "/metrics/x", "/mcp", "/livez/../admin"] {
        assert_eq!(get(port.address, path).await.0, 404, "{path}");
    }
    assert_eq!(
        ask(port.address, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.0,
        405
    );
    assert_eq!(
        ask(port.address, "HEAD /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.0,
        200
    );
}

/// R-33, F-099: the probe follows the gateway and tells why; liveness does not depend on it.
#[tokio::test]
async fn f_099_readiness_is_told_with_reasons() {
    let port = open();
    let (status, _, body) = get(port.address, "/readyz").await;
    assert_eq!((status, body.as_str()), (200, "ready\n"));
    *port.state.0.lock().unwrap() = Ready::No(vec!["draining".to_owned(), "beta is missing".to_owned()]);
    let (status, _, body) = get(port.address, "/readyz").await;
    assert_eq!((status, body.as_str()), (503, "not ready\n- draining\n- beta is missing\n"));
    assert_eq!(get(port.address, "/livez").await.0, 200);
}

/// F-098: the port closes when told, also under a connection that is idle.
#[tokio::test]
async fn f_098_idle_connections_do_not_hold_the_stop() {
    let port = open();
    let mut idle = TcpStream::connect(port.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut some = [0; 16];
    idle.read_exact(&mut some).await.unwrap();
    port.stop.cancel();
    clock::within(Duration::from_secs(10), port.serving).await.unwrap().unwrap().unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(TcpStream::connect(port.address).await.is_err());
}

/// F-092: connections beyond the cap are closed at once, and the port serves again when others end.
#[tokio::test]
async fn f_092_connections_are_capped() {
    let port = open();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 16]).await.unwrap();
        held.push(stream);
    }
    let mut refused = TcpStream::connect(port.address).await.unwrap();
    assert_eq!(refused.read(&mut [0; 16]).await.unwrap_or(0), 0);
    drop(held);
    let answered = clock::within(Duration::from_secs(10), async {
        loop {
            // The ends of the held connections are seen by tasks of their own.
            let mut stream = TcpStream::connect(port.address).await.unwrap();
            let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
            if stream.read(&mut [0; 16]).await.is_ok_and(|read| read > 0) {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
    answered.await.unwrap();
}
