//! What is documented is served, and what is served is documented.

use super::*;
use axum::body::Body;
use axum::http::header::ALLOW;
use http_body_util::BodyExt;
use tower::ServiceExt;

fn app(dir: &std::path::Path) -> Arc<App> {
    let given = plan::Given {
        tokens: Some(dir.join("tokens")),
        store: Some(dir.join("net.redb")),
        listen: None,
    };
    Arc::new(App::new(Plan::load(None, given).unwrap()).unwrap())
}

fn ask(router: &Router, request: Request) -> (StatusCode, axum::http::HeaderMap, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let r = router.clone().oneshot(request).await.unwrap();
        let (head, body) = r.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
    })
}

fn request(method: &str, path: &str) -> Request {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

#[test]
fn what_is_documented_is_served_and_wants_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let router = router(app(dir.path()));
    let document = serde_json::to_value(openapi::openapi()).unwrap();
    let mut documented = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let concrete = path.replace("{number}", "1").replace(['{', '}'], "");
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let (status, headers, body) = ask(&router, request(&method, &concrete));
            assert!(headers.contains_key("x-request-id"));
            match path.as_str() {
                "/openapi.json" => assert_eq!(status, StatusCode::OK),
                _ => {
                    assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}: {body}");
                    assert_eq!(headers["content-type"], "application/problem+json");
                    assert_eq!(headers["www-authenticate"], "Bearer");
                }
            }
            documented.entry(concrete.clone()).or_default().push(method);
        }
    }
    assert!(documented.len() >= 12, "{documented:?}");
    // What is served beyond that would be told here.
    for (path, mut methods) in documented {
        let (status, headers, _) = ask(&router, request("OPTIONS", &path));
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let allowed = headers[ALLOW].to_str().unwrap();
        let mut served: Vec<String> = allowed.split(',').map(|m| m.trim().to_owned()).collect();
        served.retain(|m| m != "HEAD");
        served.sort();
        methods.sort();
        assert_eq!(served, methods, "{path}");
    }
}

#[test]
fn schemas_are_closed_and_named() {
    let document = serde_json::to_value(openapi::openapi()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in ["Network", "Lab", "Node", "Change", "Problem", "Counters", "EventItem"] {
        assert!(schemas.contains_key(name), "{name}");
    }
    assert_eq!(schemas["Network"]["additionalProperties"], false);
    let required = schemas["Network"]["required"].as_array().unwrap();
    assert_eq!(required, &["name", "node"]);
    let text = document.to_string();
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[test]
fn bodies_and_paths_of_any_shape_are_refused_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let (_, token) = app.tokens.add(tokens::Role::Operator, None, caller::now_s(), None).unwrap();
    let router = router(app);
    let with = |method: &str, path: &str, kind: &str, body: Vec<u8>| {
        let r = Request::builder().method(method).uri(path).header("content-type", kind);
        let r = r.header("authorization", format!("Bearer {token}"));
        ask(&router, r.body(Body::from(body)).unwrap())
    };
    let json = "application/json";
    let deep = "[".repeat(100_000).into_bytes();
    let large = vec![b' '; take::MAX_BODY_BYTES + 1];
    for (method, path, kind, body, status, code) in [
        ("POST", "/v1/networks", json, b"{".to_vec(), 400, "json"),
        ("POST", "/v1/networks", json, b"".to_vec(), 400, "json"),
        ("POST", "/v1/networks", json, b"\xff\xfe".to_vec(), 400, "json"),
        ("POST", "/v1/networks", json, deep, 400, "json"),
        ("POST", "/v1/networks", json, b"[]".to_vec(), 422, "body"),
        (
            "POST",
            "/v1/networks",
            json,
            b"{\"name\":\"a\",\"node\":[],\"nod\":1}".to_vec(),
            422,
            "body",
        ),
        ("POST", "/v1/networks", "text/plain", b"{}".to_vec(), 415, "media-type"),
        (
            "POST",
            "/v1/networks",
            json,
            b"{\"name\":\"a\",\"node\":[[\"s\"]]}".to_vec(),
            422,
            "body",
        ),
        ("POST", "/v1/recover", json, b"[\"on\"]".to_vec(), 422, "body"),
        ("PUT", "/v1/lab", json, large, 413, "too-large"),
        ("PUT", "/v1/lab?dry_run=perhaps", json, b"{}".to_vec(), 400, "query"),
        ("PUT", "/v1/lab?dry=true", json, b"{}".to_vec(), 400, "query"),
        (
            "PUT",
            "/v1/lab",
            json,
            b"{\"host\":[{\"name\":\"h\",\"api\":\"unix:x\"}]}".to_vec(),
            422,
            "refused",
        ),
        ("GET", "/v1/revisions/x", json, vec![], 400, "path"),
        ("GET", "/v1/revisions/7", json, vec![], 404, "no-revision"),
        ("GET", "/v1/networks/%ff", json, vec![], 400, "path"),
        ("GET", "/v1/networks/no", json, vec![], 404, "no-network"),
        ("GET", "/v2", json, vec![], 404, "no-path"),
        ("PATCH", "/v1/networks/no", json, b"[]".to_vec(), 404, "no-network"),
        ("PUT", "/v1/networks/a", json, b"{\"name\":\"b\",\"node\":[]}".to_vec(), 422, "refused"),
        ("POST", "/v1/recover", json, b"{\"way\":\"sideways\"}".to_vec(), 422, "body"),
        ("GET", "/v1/events?observe_ms=1", json, vec![], 400, "query"),
    ] {
        let (got, headers, text) = with(method, path, kind, body);
        assert_eq!(got.as_u16(), status, "{method} {path}: {text}");
        assert_eq!(headers["content-type"], "application/problem+json");
        let p: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&p["status"], &p["code"]), (&status.into(), &code.into()), "{text}");
        assert!(!p["detail"].as_str().unwrap().contains('\n') && p["type"] == "about:blank");
    }
    // Nothing of it was kept.
    let (_, _, text) = with("GET", "/v1/networks", json, vec![]);
    assert_eq!(text, "{\"revision\":0,\"interrupted\":false,\"networks\":[]}");
}
