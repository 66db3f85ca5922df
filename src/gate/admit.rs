//! The permit: a [`Call`] becomes [`Admitted`] here and nowhere else.

use std::task::{Context, Poll};

use tower::{Layer, Service};

use crate::call::{Admitted, Call};

/// Admits calls.
#[derive(Debug, Clone, Copy)]
pub struct AdmitLayer;

/// See [`AdmitLayer`].
#[derive(Debug, Clone)]
pub struct Admit<S> {
    inner: S,
}

impl<S> Layer<S> for AdmitLayer {
    type Service = Admit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Admit { inner }
    }
}

impl<S: Service<Admitted>> Service<Call> for Admit<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        self.inner.call(Admitted::grant(call))
    }
}
