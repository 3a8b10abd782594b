//! The page that a coordinator shows to browsers: the cluster as it is now.
//!
//! Place: beside every step of failure -> ... -> stripe healthy; it only looks, as `status` does, and
//! says the same. All of it is in this binary; nothing comes from anywhere else.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::http::request::Parts;
use suture_drivers::control::service::ControlService;
use suture_drivers::http::{Cached, HttpPages, HttpReply};

use crate::status::describe;

const INDEX: &str = include_str!("../web/index.html");
const STYLE: &str = include_str!("../web/style.css");
const SCRIPT: &str = include_str!("../web/page.js");

/// The page, and what it asks for each second.
pub struct WebPages {
    service: Arc<ControlService>,
    status: Cached<Bytes>,
}

impl WebPages {
    /// Of what this service says.
    pub fn new(service: Arc<ControlService>) -> WebPages {
        WebPages { service, status: Cached::default() }
    }

    async fn status(&self) -> HttpReply {
        let make = async {
            let status = self.service.status().await?;
            let text = serde_json::to_string(&describe(&status));
            text.map(Bytes::from).map_err(|why| tonic::Status::internal(why.to_string()))
        };
        match self.status.get(make).await {
            Ok(text) => HttpReply::ok("application/json", text),
            Err(why) => HttpReply::refusal(StatusCode::SERVICE_UNAVAILABLE, why.message()),
        }
    }
}

impl HttpPages for WebPages {
    async fn answer(&self, request: &Parts) -> HttpReply {
        match request.uri.path() {
            "/" | "/index.html" => HttpReply::ok("text/html; charset=utf-8", INDEX),
            "/style.css" => HttpReply::ok("text/css; charset=utf-8", STYLE),
            "/page.js" => HttpReply::ok("text/javascript; charset=utf-8", SCRIPT),
            "/status.json" => self.status().await,
            _ => HttpReply::refusal(StatusCode::NOT_FOUND, "there is nothing here: see /"),
        }
    }
}
