//! The service that a layer makes of another one.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, request, response};
use ::tower_service::Service;

use super::Options;
use crate::Call;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::http::{Field, HeaderOptions, MissingIdentity, Refusal, headers, refusal, unidentified};

/// A service behind a limiter, made by a [`RateLimitLayer`](super::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    options: Arc<Options>,
}

impl<S> RateLimit<S> {
    pub(super) fn new(inner: S, options: Arc<Options>) -> Self {
        Self { inner, options }
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, RequestBody, ResponseBody> Service<Request<RequestBody>> for RateLimit<S>
where
    S: Service<Request<RequestBody>, Response = Response<ResponseBody>> + Clone + Send + 'static,
    S::Future: Send,
    RequestBody: Send + 'static,
    ResponseBody: From<String> + Send,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // The one that has said it is ready is the one to be called.
        let unasked = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, unasked);
        let options = self.options.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let outcome = options.ask(&parts).await;
            let request = Request::from_parts(parts, body);
            match outcome {
                Ok(Outcome::Unlimited) => inner.call(request).await,
                Ok(Outcome::Refused(refusal)) => Ok(answer(refusal)),
                Ok(Outcome::Admitted(admission)) => {
                    let (mut parts, body) = inner.call(request).await?.into_parts();
                    let decision = options.settle(admission, &parts).await;
                    add(&mut parts.headers, options.fields(&decision));
                    Ok(Response::from_parts(parts, body))
                }
                Err(error) => Ok(failed(error)),
            }
        })
    }
}

/// How a request goes on.
enum Outcome {
    Unlimited,
    Refused(Refusal),
    Admitted(Admission),
}

/// What a request that goes ahead was charged.
struct Admission {
    key: Vec<u8>,
    cost: i64,
    decision: Decision,
}

impl Options {
    async fn ask(&self, request: &request::Parts) -> Result<Outcome> {
        if self.skip.as_ref().is_some_and(|skip| skip(request)) {
            return Ok(Outcome::Unlimited);
        }
        let key = match (self.key)(request) {
            Some(key) if !key.is_empty() => key,
            _ => {
                if self.reported.first() {
                    tracing::warn!(rule = ?self.on_missing_key, "a request does not say who is calling");
                }
                match self.on_missing_key {
                    MissingIdentity::Reject => return Ok(Outcome::Refused(unidentified(self.body))),
                    MissingIdentity::Skip => return Ok(Outcome::Unlimited),
                    MissingIdentity::Shared => MissingIdentity::SHARED_KEY.into(),
                }
            }
        };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(request));
        let decision = self.limiter.allow(&key, cost).await?;
        let policies = self.limiter.blocking().policies();
        Ok(match refusal(&decision, policies, self.header_options(), self.body, self.problem_type) {
            Some(refusal) => Outcome::Refused(refusal),
            None => Outcome::Admitted(Admission { key, cost, decision }),
        })
    }

    /// Charges what a response says that the request has cost. It has been handled, so a store that is away changes
    /// nothing about the response.
    async fn settle(&self, admission: Admission, response: &response::Parts) -> Decision {
        let Admission { key, cost, decision } = admission;
        match self.after.as_ref().map(|after| after(response)) {
            Some(after) if after != cost => match self.charge(&key, cost, after.max(0)).await {
                Ok(decision) => decision,
                Err(error) => {
                    tracing::warn!(%error, "the charge for a request could not be set right");
                    decision
                }
            },
            _ => decision,
        }
    }

    /// Gives back or takes the difference, as far as it is there.
    async fn charge(&self, key: &[u8], taken: i64, cost: i64) -> Result<Decision> {
        if cost < taken {
            self.limiter.refund(key, taken - cost).await?;
        } else {
            let rest = self.limiter.allow(key, cost - taken).await?;
            if let (false, Ok(left @ 1..)) = (rest.allowed(), i64::try_from(rest.remaining())) {
                self.limiter.decide(Call::allow(key, left)).await?;
            }
        }
        self.limiter.peek(key, 1).await
    }

    fn header_options(&self) -> HeaderOptions<'static> {
        HeaderOptions::from(self.headers).at_us(self.limiter.blocking().wall_clock_us())
    }

    /// The fields of a request that went ahead, which needs no `Retry-After`.
    fn fields(&self, decision: &Decision) -> Vec<Field> {
        let mut fields = headers(decision, self.limiter.blocking().policies(), self.header_options());
        fields.retain(|(name, _)| *name != "Retry-After");
        fields
    }
}

fn answer<B: From<String>>(refusal: Refusal) -> Response<B> {
    let mut response = Response::new(refusal.body.into());
    *response.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    add(response.headers_mut(), refusal.headers);
    response
}

/// The answer where nobody could decide: a store that is away may come back, anything else is a mistake of the program.
fn failed<B: From<String>>(error: Error) -> Response<B> {
    let status = if error.store_kind().is_some() { 503 } else { 500 };
    let mut response =
        answer(Refusal { status, headers: vec![("Cache-Control", "no-store".to_owned())], body: String::new() });
    response.extensions_mut().insert(error);
    response
}

/// Adds the fields that are not there yet.
fn add(headers: &mut HeaderMap, fields: Vec<Field>) {
    for (name, value) in fields {
        // Names and values are printable ASCII.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::try_from(value)) {
            headers.entry(name).or_insert(value);
        }
    }
}
