//! A reverse proxy on hyper that neither reads nor changes what it carries: the least that a proxy in Rust costs.

use std::{convert::Infallible, sync::Arc};

use anyhow::Result;
use http::uri::{Authority, PathAndQuery, Scheme};
use http_body_util::{Either, Empty};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::HOST,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use crate::part;

/// Where the proxy sends everything.
#[derive(Debug, Serialize, Deserialize)]
pub struct Route {
    /// Host and port of the one upstream.
    pub upstream: String,
}

/// What the process says once its port is open.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    pub origin: String,
}

struct Proxy {
    client: Client<HttpConnector, Incoming>,
    upstream: Authority,
}

/// Serves until the process is ended.
pub async fn serve(route: Route) -> Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let proxy = Arc::new(Proxy { client, upstream: route.upstream.parse()? });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    part::announce(&Ready { origin: format!("http://{}", listener.local_addr()?) })?;
    loop {
        // A failed accept is one client's trouble; the next may fare better.
        let Ok((socket, _)) = listener.accept().await else { continue };
        tokio::spawn(converse(socket, proxy.clone()));
    }
}

async fn converse(socket: TcpStream, proxy: Arc<Proxy>) {
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.forward(request).await) }
    });
    // An error here is the peer that left; there is nobody to tell.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

impl Proxy {
    async fn forward(&self, mut request: Request<Incoming>) -> Response<Either<Incoming, Empty<Bytes>>> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.upstream.clone());
        parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        let answer = match Uri::from_parts(parts) {
            Ok(uri) => {
                *request.uri_mut() = uri;
                request.headers_mut().remove(HOST);
                self.client.request(request).await.ok()
            }
            Err(_) => None,
        };
        answer.map_or_else(refusal, |answer| answer.map(Either::Left))
    }
}

fn refusal() -> Response<Either<Incoming, Empty<Bytes>>> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
