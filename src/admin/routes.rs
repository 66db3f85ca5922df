//! The pages of the operator's port.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::routing::get;

use super::health::{Readiness, Ready};
use crate::base::tasks;
use crate::telemetry::Telemetry;

/// What the pages show.
#[derive(Clone)]
pub(super) struct Sources {
    pub telemetry: Telemetry,
    pub readiness: Arc<dyn Readiness>,
}

/// The exposition format of the metrics page.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const TEXT_TYPE: &str = "text/plain; charset=utf-8";

type Page = (StatusCode, [(HeaderName, &'static str); 2], String);

/// `/livez`, `/readyz`, `/metrics`; everything else is 404.
pub(super) fn router(sources: Sources) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(sources)
}

/// Alive if it answers: it runs where requests run.
async fn livez() -> Page {
    page(StatusCode::OK, TEXT_TYPE, "alive\n".to_owned())
}

async fn readyz(State(sources): State<Sources>) -> Page {
    match sources.readiness.ready() {
        Ready::Yes => page(StatusCode::OK, TEXT_TYPE, "ready\n".to_owned()),
        Ready::No(reasons) => {
            let reasons: String = reasons.iter().flat_map(|reason| ["- ", reason, "\n"]).collect();
            page(StatusCode::SERVICE_UNAVAILABLE, TEXT_TYPE, format!("not ready\n{reasons}"))
        }
    }
}

async fn metrics(State(sources): State<Sources>) -> Page {
    // Milliseconds with many upstreams: too long for a thread that serves calls.
    match tasks::blocking("metrics page", move || sources.telemetry.page()).await {
        Ok(text) => page(StatusCode::OK, METRICS_TYPE, text),
        Err(ended) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, format!("{ended}\n")),
    }
}

fn page(status: StatusCode, kind: &'static str, text: String) -> Page {
    (status, [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")], text)
}
