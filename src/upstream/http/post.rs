//! One HTTP request to an upstream: a pooled or a new connection, redirects within the origin, the
//! verdict for the breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{HOST, HeaderMap, LOCATION};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use url::Url;

use crate::base::{caps, clock};
use crate::telemetry::words::UpstreamCondition;
use crate::upstream::condition::Condition;
use crate::upstream::health::{Breaker, Change};
use crate::upstream::http::address::{AddressError, Origin, request_target};
use crate::upstream::http::compression::InflateError;
use crate::upstream::http::connect::{ConnectError, Connector};
use crate::upstream::http::content::Content;
use crate::upstream::http::link::{self, SendError, Whole};
use crate::upstream::http::pool::{Pool, Taken};
use crate::upstream::report::Report;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Each connection was closed before anything was sent.
    #[error("it closes connections before anything is sent")]
    Closed,
    /// It was sent, and the connection broke before the head of the answer.
    #[error("the connection was lost: {0}")]
    Lost(hyper::Error),
    /// It was redirected to where we do not follow (F-070, HTTP-39).
    #[error("it redirects to {0}")]
    Redirect(String),
    /// It was redirected too often.
    #[error("it redirects more than {} times", caps::REDIRECTS)]
    Redirects,
    /// It was redirected to what cannot stand in a request.
    #[error("it redirects to an address that cannot be used")]
    Unusable,
    /// The answer is encoded in a way that we do not read.
    #[error(transparent)]
    Encoding(#[from] InflateError),
}

/// An answer whose body is still to come.
pub struct Received {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub content: Content,
}

/// Who is told how the requests to one upstream fare.
#[derive(Clone)]
pub struct Health {
    /// Decides when it is left alone.
    pub breaker: Arc<Breaker>,
    /// What the operator sees.
    pub condition: Arc<Condition>,
    /// What is counted.
    pub report: Report,
}

/// The place where requests to one upstream go.
pub struct Endpoint {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
    /// As configured.
    home: Arc<Place>,
    /// Where a permanent redirect has led, or home (HTTP-39).
    place: ArcSwap<Place>,
    breaker: Arc<Breaker>,
    condition: Arc<Condition>,
    report: Report,
}

struct Place {
    url: Url,
    /// What stands in the request line of HTTP/1.1.
    target: Uri,
    /// The whole of it, as HTTP/2 wants it.
    whole: Uri,
}

impl Place {
    fn new(url: Url, connector: &Connector) -> Result<Self, AddressError> {
        let absolute = connector.proxy.is_some() && !connector.origin.tls;
        let whole = request_target(&url, true)?;
        let target = if absolute { whole.clone() } else { request_target(&url, false)? };
        Ok(Self { url, target, whole })
    }
}

impl Endpoint {
    /// Requests to `url` by way of `connector`.
    ///
    /// # Errors
    /// When the URL cannot stand in a request.
    pub fn new(url: Url, connector: Connector, health: Health) -> Result<Self, AddressError> {
        // Common servers close idle connections after five seconds, balancers in front of TLS after a minute.
        let keep = Duration::from_secs(if connector.origin.tls { 50 } else { 4 });
        let home = Arc::new(Place::new(url, &connector)?);
        let place = ArcSwap::new(Arc::clone(&home));
        let Health { breaker, condition, report } = health;
        let (connector, pool) = (Arc::new(connector), Arc::new(Pool::new(keep)));
        Ok(Self { connector, pool, home, place, breaker, condition, report })
    }

    /// Another place on the same server, reached by the same connections.
    ///
    /// # Errors
    /// When the URL cannot stand in a request.
    pub fn beside(&self, url: Url) -> Result<Self, AddressError> {
        let home = Arc::new(Place::new(url, &self.connector)?);
        Ok(Self {
            connector: Arc::clone(&self.connector),
            pool: Arc::clone(&self.pool),
            place: ArcSwap::new(Arc::clone(&home)),
            home,
            breaker: Arc::clone(&self.breaker),
            condition: Arc::clone(&self.condition),
            report: self.report.clone(),
        })
    }

    /// The server that it is on.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.connector.origin
    }

    /// The value of `Host`.
    #[must_use]
    pub fn host(&self) -> &HeaderValue {
        &self.connector.origin.header
    }

    /// Headers for the proxy, where requests go to it in the clear.
    #[must_use]
    pub fn proxy_credentials(&self) -> Option<&HeaderValue> {
        let proxy = self.connector.proxy.as_ref().filter(|_| !self.connector.origin.tls)?;
        proxy.credentials.as_ref()
    }

    /// Forgets where redirects have led: what was moved may be back (F-070).
    pub fn go_home(&self) {
        self.place.store(Arc::clone(&self.home));
    }

    /// Closes connections that have been idle for too long.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    /// Sends a request and waits for the head of its answer; the caller sets the deadline. `mark` is set
    /// as soon as a byte of it may have left.
    ///
    /// *On drop:* the connection is closed.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn send(
        &self,
        method: Method,
        headers: &HeaderMap,
        body: Bytes,
        mark: &AtomicBool,
    ) -> Result<Received, PostError> {
        self.travel(&mut self.place.load_full(), (method, headers, body), mark).await
    }

    /// Asks with GET, as [`send`](Self::send) does; with the answer comes the address that it came from.
    ///
    /// *On drop:* the connection is closed.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn get(&self, headers: &HeaderMap) -> Result<(Received, Url), PostError> {
        let mut place = self.place.load_full();
        let request = (Method::GET, headers, Bytes::new());
        let received = self.travel(&mut place, request, &AtomicBool::new(false)).await?;
        Ok((received, place.url.clone()))
    }

    /// Sends a request to `place`, and on to where redirects lead, which is noted there.
    async fn travel(
        &self,
        place: &mut Arc<Place>,
        (method, headers, body): (Method, &HeaderMap, Bytes),
        mark: &AtomicBool,
    ) -> Result<Received, PostError> {
        let (mut redirects, mut lasting) = (0, true);
        loop {
            self.report.sent(body.len());
            let mut request: Whole = Request::new(Full::new(body.clone()));
            *request.method_mut() = method.clone();
            *request.headers_mut() = headers.clone();
            let received = self.once(place, request, mark).await;
            if is_stray(&received) {
                self.go_home();
            }
            let received = self.judged(received)?;
            if !received.status.is_redirection() || received.status == StatusCode::NOT_MODIFIED {
                return Ok(received);
            }
            redirects += 1;
            if redirects > caps::REDIRECTS {
                return Err(PostError::Redirects);
            }
            *place = Arc::new(self.follow(&place.url, &received)?);
            // What is temporary holds for this request alone.
            lasting &= received.status == StatusCode::PERMANENT_REDIRECT;
            if lasting {
                self.place.store(Arc::clone(place));
            }
            received.content.finish();
            // A redirected request was not executed.
            mark.store(false, Ordering::Relaxed);
        }
    }

    async fn once(
        &self,
        place: &Place,
        mut request: Whole,
        mark: &AtomicBool,
    ) -> Result<Received, PostError> {
        loop {
            let (taken, fresh) = match self.pool.take() {
                Some(taken) => (taken, false),
                // Rare, and large.
                None => (Box::pin(self.open()).await?, true),
            };
            if let (Taken::Shared(shared), true) = (&taken, fresh) {
                self.pool.share(shared.clone());
            }
            *request.uri_mut() = match &taken {
                Taken::Single(_) => place.target.clone(),
                Taken::Shared(_) => place.whole.clone(),
            };
            mark.store(true, Ordering::Relaxed);
            match taken.send(request, &self.pool).await {
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    let content = Content::new(body, &head.headers, self.report.clone())?;
                    return Ok(Received { status: head.status, headers: head.headers, content });
                }
                Err(SendError::Unsent(again)) => {
                    mark.store(false, Ordering::Relaxed);
                    if fresh {
                        return Err(PostError::Closed);
                    }
                    request = again;
                    request.headers_mut().insert(HOST, self.host().clone());
                }
                Err(SendError::Lost(error)) => return Err(PostError::Lost(error)),
            }
        }
    }

    async fn open(&self) -> Result<Taken, PostError> {
        Ok(link::open(self.connector.connect().await?).await?)
    }

    /// Where an answer with a redirect leads; only 307 and 308 within the origin are followed.
    fn follow(&self, from: &Url, received: &Received) -> Result<Place, PostError> {
        let location = received.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let target = location.and_then(|text| from.join(text).ok());
        let keeps = matches!(received.status.as_u16(), 307 | 308);
        let here = target.as_ref().and_then(|url| Origin::of(url).ok());
        match target {
            Some(url) if keeps && here.as_ref() == Some(&self.connector.origin) => {
                Place::new(url, &self.connector).map_err(|_| PostError::Unusable)
            }
            target => {
                let mut shown = target.map_or_else(
                    || "nowhere".to_owned(),
                    |mut url| {
                        // A query may hold a secret, and credentials are one. Neither is there to be shown.
                        url.set_query(None);
                        let _ = (url.set_username(""), url.set_password(None));
                        url.to_string()
                    },
                );
                shown.truncate(shown.floor_char_boundary(200));
                self.report.redirected(&shown);
                Err(PostError::Redirect(shown))
            }
        }
    }

    /// A request was left without the head of its answer for as long as such an answer may take.
    pub fn silent(&self) {
        if self.breaker.failed(clock::now()) == Some(Change::Opened) {
            self.condition.set(UpstreamCondition::Open, "it does not answer");
        }
    }

    /// Tells the breaker how the way there was.
    fn judged(&self, received: Result<Received, PostError>) -> Result<Received, PostError> {
        let failed = match &received {
            Ok(received) => received.status.as_u16() >= 502,
            Err(PostError::Connect(_) | PostError::Closed | PostError::Lost(_)) => true,
            Err(_) => false,
        };
        let change = if failed { self.breaker.failed(clock::now()) } else { self.breaker.succeeded() };
        match change {
            Some(Change::Opened) => {
                let why = received
                    .as_ref()
                    .err()
                    .map_or_else(|| "it answers with server errors".to_owned(), ToString::to_string);
                self.condition.set(UpstreamCondition::Open, &why);
            }
            Some(Change::Closed) => self.condition.set(UpstreamCondition::Ready, ""),
            None => {}
        }
        received
    }
}

/// Whether nothing is to be found where a request went, so that a redirect which led there may hold no more.
fn is_stray(received: &Result<Received, PostError>) -> bool {
    match received {
        Ok(received) => matches!(received.status, StatusCode::NOT_FOUND | StatusCode::GONE),
        Err(PostError::Connect(_)) => true,
        Err(_) => false,
    }
}
