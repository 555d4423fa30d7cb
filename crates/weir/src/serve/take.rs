//! What a request brings, taken with limits: its path, its query, its body.
//!
//! Room: extractors; whatever they refuse is a [`Problem`]. A body that is too large is not read, one
//! that is slow is not waited for.

use super::App;
use super::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The largest body.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// How long a body may take to come.
const BODY: Duration = Duration::from_secs(20);

/// What stands in a path.
#[derive(Debug)]
pub struct Named<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(t)) => Ok(Self(t)),
            Err(e) => Err(Problem::new(StatusCode::BAD_REQUEST, "path", e.body_text())),
        }
    }
}

/// What stands behind `?`.
#[derive(Debug)]
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(t)) => Ok(Self(t)),
            Err(e) => Err(Problem::new(StatusCode::BAD_REQUEST, "query", e.body_text())),
        }
    }
}

/// `If-Match`, only if it is still this, and `If-None-Match`, only if it is none of these (RFC 9110 §13.1).
#[derive(Clone, Debug, Default)]
pub struct Precondition {
    /// Tags, of which it must have one.
    one_of: Option<String>,
    /// Tags, of which it must have none.
    none_of: Option<String>,
}

impl FromRequestParts<Arc<App>> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        let all = |name| {
            let lines = parts.headers.get_all(name).iter();
            // What is no text is no tag.
            let lines: Vec<&str> = lines.map(|v| v.to_str().unwrap_or("\0")).collect();
            // Several lines are one list.
            (!lines.is_empty()).then(|| lines.join(","))
        };
        Ok(Self { one_of: all(IF_MATCH), none_of: all(IF_NONE_MATCH) })
    }
}

impl Precondition {
    /// Whether it holds of what has this tag.
    ///
    /// # Errors
    /// It does not.
    pub fn holds(&self, etag: &str) -> Result<(), Problem> {
        let named = |list: &String, same: fn(&str, &str) -> bool| {
            list.split(',').map(str::trim).any(|w| w == "*" || same(w, etag))
        };
        if self.one_of.as_ref().is_some_and(|l| !named(l, |w, tag| w == tag)) {
            return Err(changed());
        }
        // Compared as weak tags are.
        let same = |w: &str, tag: &str| w.strip_prefix("W/").unwrap_or(w) == tag;
        if self.none_of.as_ref().is_some_and(|l| named(l, same)) {
            let text = "it is there, and the request is for where it is not (If-None-Match): nothing was changed";
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "exists", text));
        }
        Ok(())
    }

    /// Whether it holds of what is not there.
    ///
    /// # Errors
    /// It was to be something.
    pub fn holds_of_nothing(&self) -> Result<(), Problem> {
        if self.one_of.is_none() { Ok(()) } else { Err(changed()) }
    }
}

fn changed() -> Problem {
    let text = "it has changed since it was read: read it again, and send its ETag as If-Match";
    Problem::new(StatusCode::PRECONDITION_FAILED, "changed", text)
}

/// A body in JSON.
#[derive(Debug)]
pub struct Said<T>(pub T);

impl<T: DeserializeOwned + Serialize> FromRequest<Arc<App>> for Said<T> {
    type Rejection = Problem;

    async fn from_request(req: Request, _: &Arc<App>) -> Result<Self, Problem> {
        let kind = req.headers().get(CONTENT_TYPE).map(|v| v.to_str().unwrap_or_default());
        let essence = kind.map(|k| k.split(';').next().unwrap_or_default().trim());
        let json = ["application/json", "application/merge-patch+json"];
        if essence.is_some_and(|e| !json.iter().any(|j| e.eq_ignore_ascii_case(j))) {
            let text = "Content-Type: application/json is what is read here";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", text));
        }
        let said = req.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
        let bytes = whole(req.into_body(), said).await?;
        read(&bytes).map(Self)
    }
}

/// Reads a body.
fn read<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, Problem> {
    let wrong = |e: serde_json::Error| {
        let (code, status) = match e.classify() {
            Category::Data => ("body", StatusCode::UNPROCESSABLE_ENTITY),
            _ => ("json", StatusCode::BAD_REQUEST),
        };
        Problem::new(status, code, format!("body: {e}"))
    };
    let said: Value = serde_json::from_slice(bytes).map_err(wrong)?;
    let meant: T = serde_json::from_slice(bytes).map_err(wrong)?;
    shaped(&said, &meant)?;
    Ok(meant)
}

/// Whether what was said has the shape of what was read: serde reads an object's fields from a list, too.
///
/// # Errors
/// Where a list stands in an object's place.
pub fn shaped(said: &Value, meant: &impl Serialize) -> Result<(), Problem> {
    let meant = serde_json::to_value(meant).unwrap_or_default();
    match listed(said, &meant, String::new()) {
        None => Ok(()),
        Some(at) => {
            let at = if at.is_empty() { "body".to_owned() } else { at };
            let text = format!("{at}: an object is read here, not a list");
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "body", text))
        }
    }
}

fn listed(said: &Value, meant: &Value, at: String) -> Option<String> {
    match (said, meant) {
        (Value::Array(_), Value::Object(_)) => Some(at),
        (Value::Object(s), Value::Object(m)) => s.iter().find_map(|(k, v)| {
            let at = if at.is_empty() { k.clone() } else { format!("{at}.{k}") };
            listed(v, m.get(k)?, at)
        }),
        (Value::Array(s), Value::Array(m)) => {
            let both = s.iter().zip(m).enumerate();
            both.into_iter().find_map(|(i, (s, m))| listed(s, m, format!("{at}[{i}]")))
        }
        _ => None,
    }
}

/// All of a body.
///
/// # Errors
/// It is too large or too slow.
pub async fn whole(body: Body, said: Option<u64>) -> Result<Vec<u8>, Problem> {
    let large = || {
        let text = format!("body: at most {MAX_BODY_BYTES} bytes are read");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text)
    };
    if said.is_some_and(|n| n > MAX_BODY_BYTES as u64) {
        return Err(large());
    }
    match timeout(BODY, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(all)) => Ok(all.to_bytes().into()),
        Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => Err(large()),
        Ok(Err(_)) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, "body", "body: it ended before its end"))
        }
        Err(_) => {
            let text = format!("body: it did not come within {} s", BODY.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", text))
        }
    }
}
