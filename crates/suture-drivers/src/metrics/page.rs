//! The page `/metrics`.
//!
//! Place: the last step before monitoring reads what daemons count.

use hyper::StatusCode;
use hyper::http::header;

use super::Exposition;
use crate::http::{Cached, HttpPages, HttpReply, HttpRequest};

/// The path that monitoring asks for.
const PATH: &str = "/metrics";

/// Serves what `make` gives; nothing while the daemon shuts down.
#[derive(Debug)]
pub struct MetricsPage<M> {
    cached: Cached<Exposition>,
    make: M,
}

impl<M> MetricsPage<M> {
    /// A page of what `make` gives.
    pub fn new(make: M) -> MetricsPage<M> {
        MetricsPage { cached: Cached::default(), make }
    }
}

impl<M, F> HttpPages for MetricsPage<M>
where
    M: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<Exposition>> + Send,
{
    const COMMANDS: bool = false;

    async fn answer(&self, request: HttpRequest) -> HttpReply {
        if request.path() != PATH {
            let why = format!("there is nothing here but {PATH}");
            return HttpReply::refusal(StatusCode::NOT_FOUND, why);
        }
        let accepted =
            request.parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let open = accepted.is_some_and(|text| text.contains("application/openmetrics-text"));
        let make = async { (self.make)().await.ok_or(()) };
        match self.cached.get(make).await {
            Ok(exposition) => {
                let (content_type, body) = exposition.choose(open);
                HttpReply::ok(content_type, body)
            }
            Err(()) => {
                let why = "the daemon is shutting down";
                HttpReply::refusal(StatusCode::SERVICE_UNAVAILABLE, why)
            }
        }
    }
}
