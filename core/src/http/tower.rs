//! A layer for `tower`: asks a limiter before a request reaches a service.

mod service;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ::http::{request, response};

pub use service::RateLimit;

use super::missing::Once;
use super::{BodyStyle, ClientIp, HeaderStyle, MissingIdentity, ProblemType};
use crate::{Limiter, aio};

type OfRequest<T> = Arc<dyn Fn(&request::Parts) -> T + Send + Sync>;
type OfResponse<T> = Arc<dyn Fn(&response::Parts) -> T + Send + Sync>;

/// Asks a limiter before a request reaches the service below.
///
/// An allowed request gets the service's response with the rate limit headers added; a header that the response has
/// already is left alone, so of two layers the inner one's stay. A refused request never reaches the service: it is
/// answered with 429, `Retry-After`, the headers and a problem+json body, or with 503 where the limiter refuses only
/// because its store is away ([`FailureRule::Closed`](crate::FailureRule::Closed)).
///
/// Where the limiter fails, since the store is away under [`FailureRule::Throw`](crate::FailureRule::Throw) or a cost is
/// wrong, the answer is an empty 503 or 500 with the [`Error`](crate::Error) among the response's extensions, where a
/// layer above can read it.
///
/// ```
/// use http::{Request, Response};
/// use ratelimit_core::http::tower::RateLimitLayer;
/// use ratelimit_core::{Limiter, Policy, store};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let limiter = Limiter::new(Policy::parse("1/m")?, store::memory(1_000)?)?;
/// let layer = RateLimitLayer::new(limiter, |request| {
///     Some(request.headers.get("x-user")?.as_bytes().to_vec())
/// });
/// let service = layer.layer(service_fn(|_| async { Ok::<_, ()>(Response::new("hello".to_owned())) }));
///
/// let request = || Request::get("/").header("x-user", "ann").body(()).unwrap();
/// let response = service.clone().oneshot(request()).await.unwrap();
/// assert_eq!(response.headers()["ratelimit"], "\"default\";r=0;t=60");
/// assert_eq!(service.oneshot(request()).await.unwrap().status(), 429);
/// # Ok::<(), ratelimit_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct RateLimitLayer(Arc<Options>);

/// What a layer and its services share.
#[derive(Clone)]
struct Options {
    limiter: aio::Limiter,
    key: OfRequest<Option<Vec<u8>>>,
    headers: HeaderStyle,
    body: BodyStyle,
    problem_type: Option<ProblemType>,
    on_missing_key: MissingIdentity,
    reported: Arc<Once>,
    cost: Option<OfRequest<i64>>,
    skip: Option<OfRequest<bool>>,
    after: Option<OfResponse<i64>>,
}

impl RateLimitLayer {
    /// A layer with a limiter for all requests. `key` says whose budget a request spends, such as
    /// [`by_client_ip`] does; `None` or an empty key where the request does not say who is calling.
    pub fn new<K: Into<Vec<u8>>>(
        limiter: impl Into<Arc<Limiter>>,
        key: impl Fn(&request::Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Options {
            limiter: aio::Limiter::new(limiter),
            key: Arc::new(move |request| key(request).map(Into::into)),
            headers: HeaderStyle::default(),
            body: BodyStyle::default(),
            problem_type: None,
            on_missing_key: MissingIdentity::default(),
            reported: Arc::default(),
            cost: None,
            skip: None,
            after: None,
        }))
    }

    /// The family of headers; the newest draft's where nothing is said.
    #[must_use]
    pub fn headers(self, headers: HeaderStyle) -> Self {
        self.with(|options| options.headers = headers)
    }

    /// The body of a refusal; problem details where nothing is said.
    #[must_use]
    pub fn body(self, body: BodyStyle) -> Self {
        self.with(|options| options.body = body)
    }

    /// The type of the problem, such as [`ProblemType::AbnormalUsageDetected`] where a limit is about guessing passwords.
    #[must_use]
    pub fn problem_type(self, type_: ProblemType) -> Self {
        self.with(|options| options.problem_type = Some(type_))
    }

    /// What to do with a request that does not say who is calling; the first is told as a warning of `tracing`. Rejected
    /// where nothing is said.
    #[must_use]
    pub fn on_missing_key(self, rule: MissingIdentity) -> Self {
        self.with(|options| options.on_missing_key = rule)
    }

    /// Units that a request takes, at least 1; 1 where nothing is said.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&request::Parts) -> i64 + Send + Sync + 'static) -> Self {
        self.with(|options| options.cost = Some(Arc::new(cost)))
    }

    /// Whether a request passes unlimited.
    #[must_use]
    pub fn skip(self, skip: impl Fn(&request::Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|options| options.skip = Some(Arc::new(skip)))
    }

    /// What a request has cost after all, by its response: 0 or more.
    ///
    /// The cost is taken before the request is handled, so that many at once cannot pass, and the difference is given
    /// back or taken afterwards. What a service fails at, or is dropped in, stays charged.
    #[must_use]
    pub fn after(self, after: impl Fn(&response::Parts) -> i64 + Send + Sync + 'static) -> Self {
        self.with(|options| options.after = Some(Arc::new(after)))
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl<S> ::tower_layer::Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, self.0.clone())
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("limiter", &self.0.limiter).finish_non_exhaustive()
    }
}

/// The address of the caller as the key, also behind proxies that are trusted. `peer` finds the other end of the
/// connection, where the server has put it: in axum `request.extensions.get::<ConnectInfo<SocketAddr>>()`.
pub fn by_client_ip(
    client_ip: ClientIp,
    peer: impl Fn(&request::Parts) -> Option<IpAddr> + Send + Sync + 'static,
) -> impl Fn(&request::Parts) -> Option<String> + Send + Sync + 'static {
    move |request| {
        let peer = peer(request).map(|peer| peer.to_string()).unwrap_or_default();
        let lines = |name| request.headers.get_all(name).iter().collect::<Vec<_>>();
        Some(client_ip.resolve(peer, &lines("forwarded"), &lines("x-forwarded-for"))?.key())
    }
}
