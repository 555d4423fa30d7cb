//! FlowVisor's JSON-RPC names on the running slicer, so that scripts around `fvctl` go on working.
//!
//! Room: HTTP on the slicer's thread; questions and changes go through its orders, one after the other.
//! A request is what `fvctl` of FlowVisor 1.4 sends: JSON-RPC 2.0 by POST, basic authentication, whose password
//! is a token of `weir token`.
//!
//! - `document`: slices and flow space as text, changed by requests, kept in a file; `entry`: one of the flow space;
//! - `methods`: what each name does; `matches`: FlowVisor's matches in our words.

mod document;
mod entry;
mod matches;
mod methods;

pub use document::Document;
pub use methods::answer;

use crate::serve::caller::now_s;
use crate::serve::take::whole;
use crate::serve::tokens::{Entry, Role, Tokens};
use crate::slicer::service::Order;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// FlowVisor's `fvadmin`.
    Admin,
    /// One who looks at everything.
    Reader,
    /// A slice's own user.
    Slice(String),
}

/// Why a request was not answered: JSON-RPC's code, and a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// -32700 to -32600 as JSON-RPC 2.0 §5.1 has them, and -32000, which it leaves to servers.
    pub code: i32,
    /// What, and how to mend it.
    pub text: String,
}

impl Refused {
    /// The method is not there.
    pub fn method(text: impl Into<String>) -> Self {
        Self { code: -32601, text: text.into() }
    }
    /// The method is there, and the caller may not.
    pub fn denied(text: impl Into<String>) -> Self {
        Self { code: -32000, text: text.into() }
    }
    /// What was asked can't be.
    pub fn params(text: impl Into<String>) -> Self {
        Self { code: -32602, text: text.into() }
    }
    /// It failed here.
    pub fn internal(text: impl Into<String>) -> Self {
        Self { code: -32603, text: text.into() }
    }
}

/// A question or a change, and who waits for the answer.
#[derive(Debug)]
pub struct Call {
    /// Who asks.
    pub who: Who,
    /// Its name.
    pub method: String,
    /// As they came.
    pub params: Value,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Value, Refused>>,
}

struct Shim {
    tokens: Tokens,
    orders: mpsc::Sender<Order>,
}

/// What is served: every path, as `fvctl` asks for none.
pub fn router(tokens: Tokens, orders: mpsc::Sender<Order>) -> Router {
    Router::new().fallback(ask).with_state(Arc::new(Shim { tokens, orders }))
}

async fn ask(State(shim): State<Arc<Shim>>, request: Request) -> Response {
    let shown = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let token = shown.and_then(password);
    let who = match token.map(|t| shim.tokens.who(&t, now_s())) {
        Some(Ok(Some(entry))) => who(entry),
        Some(Err(e)) => {
            shim.tokens.say_unread(&e);
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        // `fvctl` shows its password only when it is asked for one.
        Some(Ok(None)) | None => {
            let asks = [(WWW_AUTHENTICATE, "Basic realm=\"weir\"")];
            return (StatusCode::UNAUTHORIZED, asks).into_response();
        }
    };
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [("allow", "POST")]).into_response();
    }
    let body = match whole(request.into_body(), None).await {
        Ok(b) => b,
        Err(p) => return p.into_response(),
    };
    let (id, answer) = match serde_json::from_slice::<Value>(&body) {
        Err(e) => (Value::Null, Err(Refused { code: -32700, text: e.to_string() })),
        Ok(v) => {
            let id = v.get("id").cloned().filter(|i| i.is_string() || i.is_number());
            (id.unwrap_or_default(), call(&shim, who, v).await)
        }
    };
    let said = match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(e) => {
            let error = json!({ "code": e.code, "message": e.text });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    };
    ([(CONTENT_TYPE, "application/json")], Body::from(said.to_string())).into_response()
}

async fn call(shim: &Shim, who: Who, mut v: Value) -> Result<Value, Refused> {
    let Some(method) = v.get("method").and_then(Value::as_str).map(str::to_owned) else {
        let text = "a request is {\"jsonrpc\":\"2.0\",\"id\":…,\"method\":…,\"params\":…}";
        return Err(Refused { code: -32600, text: text.to_owned() });
    };
    let params = v.get_mut("params").map(Value::take).unwrap_or_default();
    let (reply, answer) = oneshot::channel();
    let gone = || Refused::internal("the slicer is ending");
    let order = Order::Call(Call { who, method, params, reply });
    shim.orders.send(order).await.map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

fn who(e: Entry) -> Who {
    match e.role {
        Role::Operator => Who::Admin,
        Role::Reader => Who::Reader,
        Role::Owner => Who::Slice(e.owner.unwrap_or_default()),
    }
}

/// The password of `Basic BASE64(user:password)`.
fn password(header: &str) -> Option<String> {
    let (scheme, text) = header.split_once(' ')?;
    let bytes = scheme.eq_ignore_ascii_case("basic").then(|| base64(text.trim()))??;
    String::from_utf8(bytes).ok()?.split_once(':').map(|(_, p)| p.to_owned())
}

/// RFC 4648 §4.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for c in group {
            bits = bits << 6 | u32::from(digit(*c)?);
        }
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        let n = group.len().checked_sub(1).filter(|n| *n > 0)?;
        out.extend(bytes.get(1..=n)?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_read_as_rfc_7617_writes_them() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("Z"), None);
        assert_eq!(base64("Z!=="), None);
        assert_eq!(password("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").unwrap(), "open sesame");
        assert_eq!(password("Basic Zm9v"), None);
        assert_eq!(password("Bearer x"), None);
    }
}
