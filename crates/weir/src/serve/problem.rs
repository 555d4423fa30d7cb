//! What goes wrong, as RFC 9457 says it: a problem document of one line that says what, where, and how
//! to mend it.
//!
//! Room: data and its answer. Made by everything in `serve`.

use crate::fault::is_bad_input;
use crate::net::apart::NotApart;
use crate::verify::LeakItem;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use weir_supervisor::store::StoreError;

/// A problem document.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: the status and `code` say what kind it is.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The status in words.
    pub title: &'static str,
    /// The status.
    pub status: u16,
    /// What, where, and how to mend it, in one line.
    pub detail: String,
    /// A word for programs: it stays the same when `detail` is said better.
    pub code: &'static str,
    /// Ways from one network to another, where a change was refused for their sake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub leaks: Vec<LeakItem>,
}

/// Most characters of a detail.
const LONGEST: usize = 2000;

impl Problem {
    /// One of this status.
    pub fn new(status: StatusCode, code: &'static str, detail: impl std::fmt::Display) -> Self {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let detail = detail.to_string().chars().take(LONGEST).map(shown).collect();
        let title = status.canonical_reason().unwrap_or("Error");
        let (kind, leaks) = ("about:blank", Vec::new());
        Self { kind, title, status: status.as_u16(), detail, code, leaks }
    }

    /// Nobody has shown who he is.
    pub fn unauthorized() -> Self {
        let text =
            "no token that holds: send 'Authorization: Bearer TOKEN'; 'weir token add' makes one";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", text)
    }

    /// There is none, or none that the caller may know of: the same in every byte.
    pub fn no_network(name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        let text = format!("no network '{name}': GET /v1/networks lists yours");
        Self::new(StatusCode::NOT_FOUND, "no-network", text)
    }

    /// What was asked is not the caller's to ask.
    pub fn forbidden(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// What was asked can't be.
    pub fn refused(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", detail)
    }

    /// Too much is asked at once.
    pub fn busy(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }
}

impl From<anyhow::Error> for Problem {
    fn from(e: anyhow::Error) -> Self {
        let text = format!("{e:#}");
        match e.downcast_ref::<StoreError>() {
            Some(StoreError::InUse(_)) => return Self::busy(text),
            Some(_) => return Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store", text),
            None => {}
        }
        match is_bad_input(&e) {
            true => {
                let leaks = e.downcast_ref::<NotApart>().map(|n| n.leaks.clone());
                let code = if leaks.is_some() { "not-isolated" } else { "refused" };
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Self { leaks: leaks.unwrap_or_default(), ..Self::new(status, code, text) }
            }
            // What is asked of others is asked of nodes.
            false => Self::new(StatusCode::BAD_GATEWAY, "node", text),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Texts and numbers: JSON has a form for all of them.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut r = (status, body).into_response();
        let h = r.headers_mut();
        h.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match status {
            StatusCode::UNAUTHORIZED => {
                h.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                h.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        r
    }
}
