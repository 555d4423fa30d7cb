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

#[test]
fn a_request_for_what_is_not_there_touches_nothing_that_is() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let (_, token) = app.tokens.add(tokens::Role::Operator, None, caller::now_s(), None).unwrap();
    let router = router(app);
    let put = |path: &str, conditions: &[(&str, &str)], body: &str| {
        let mut r = Request::builder().method("PUT").uri(path);
        r = r.header("authorization", format!("Bearer {token}"));
        r = conditions.iter().fold(r, |r, (name, value)| r.header(*name, *value));
        ask(&router, r.body(Body::from(body.to_owned())).unwrap())
    };
    let (none, at) = ("if-none-match", "/v1/lab");
    let (_, headers, _) = ask(&router, shown("GET", at, &token));
    let tag = headers["etag"].to_str().unwrap();
    for conditions in [
        &[(none, "*")][..],
        &[(none, tag)],
        &[(none, &*format!("\"x\", W/{tag}"))],
        &[(none, "\"x\""), (none, tag)],
        &[(none, "*"), ("if-match", tag)],
    ] {
        let (status, _, body) = put(at, conditions, "{}");
        assert_eq!(status, StatusCode::PRECONDITION_FAILED, "{conditions:?}: {body}");
        assert!(body.contains("\"code\":\"exists\""), "{body}");
    }
    let (status, _, body) = put(at, &[(none, "\"x\""), ("if-match", tag)], "{}");
    assert_eq!(status, StatusCode::OK, "{body}");
    // A network that is not there is made, if it can be.
    let (status, _, body) =
        put("/v1/networks/red", &[(none, "*")], "{\"name\":\"red\",\"node\":[]}");
    assert!(status == StatusCode::UNPROCESSABLE_ENTITY && body.contains("no node"), "{body}");
}

#[test]
fn listeners_and_requests_take_none_of_each_other_s_room() {
    let dir = tempfile::tempdir().unwrap();
    let (app, tokens) = with_owners(dir.path(), &["alice"]);
    let router = router(Arc::clone(&app));
    let ask = |path: &'static str| router.clone().oneshot(shown("GET", path, &tokens[0]));
    runtime().block_on(async {
        let all = app.jobs.acquire_many(JOBS as u32).await.unwrap();
        assert_eq!(ask("/v1/networks").await.unwrap().status(), 503);
        let mut stream = ask("/v1/events?observe_ms=100").await.unwrap().into_body();
        assert_eq!(next(&mut stream).await.as_deref(), Some(": weir\n\n"));
        for _ in 0..3 {
            let told = next(&mut stream).await.unwrap();
            assert!(told.starts_with("event: counters"), "{told}");
        }
        drop(all);
        // However many look, or hang at it.
        let _all = app.looks.acquire_many(LOOKS as u32).await.unwrap();
        assert_eq!(ask("/v1/networks").await.unwrap().status(), 200);
    });
}

/// An app with a token of each of these owners.
fn with_owners(dir: &std::path::Path, owners: &[&str]) -> (Arc<App>, Vec<String>) {
    let app = app(dir);
    let token = |o: &&str| {
        let owner = Some((*o).to_owned());
        app.tokens.add(tokens::Role::Owner, owner, caller::now_s(), None).unwrap().1
    };
    let all = owners.iter().map(token).collect();
    (app, all)
}

fn shown(method: &str, path: &str, token: &str) -> Request {
    let r = Request::builder().method(method).uri(path);
    r.header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap()
}

async fn next(body: &mut Body) -> Option<String> {
    let bytes = body.frame().await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn tell_of(app: &App, owner: &str) {
    let (network, owner) = ("net".to_owned(), owner.to_owned());
    let about = vec![desk::About { network, owner, part: desk::Part::Whole }];
    let (revision, by, steps, guard) = (1, None, Vec::new(), None);
    app.events.tell(|at_s| events::Event { at_s, revision, by, about, steps, guard });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_token_that_is_removed_hears_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (app, tokens) = with_owners(dir.path(), &["alice", "alice"]);
    let router = router(Arc::clone(&app));
    runtime().block_on(async {
        let mut streams = Vec::new();
        for t in &tokens {
            let r = router.clone().oneshot(shown("GET", "/v1/events", t)).await.unwrap();
            let mut body = r.into_body();
            assert_eq!(next(&mut body).await.as_deref(), Some(": weir\n\n"));
            streams.push(body);
        }
        tell_of(&app, "alice");
        for s in &mut streams {
            assert!(next(s).await.unwrap().starts_with("event: change"));
        }
        let id = tokens[0].split('_').nth(1).unwrap();
        Tokens::new(app.tokens.path().to_owned()).remove(id).unwrap();
        tell_of(&app, "alice");
        assert_eq!(next(&mut streams[0]).await, None);
        assert!(next(&mut streams[1]).await.unwrap().starts_with("event: change"));
        // Nothing needs to happen for it.
        let id = tokens[1].split('_').nth(1).unwrap();
        Tokens::new(app.tokens.path().to_owned()).remove(id).unwrap();
        assert_eq!(next(&mut streams[1]).await, None);
    });
}

#[test]
fn one_owner_leaves_others_their_part() {
    let dir = tempfile::tempdir().unwrap();
    let (app, tokens) = with_owners(dir.path(), &["alice", "alice", "bob"]);
    let router = router(Arc::clone(&app));
    let [alice, again, bob] = tokens.as_slice() else { panic!() };
    runtime().block_on(async {
        let ask =
            |path: &'static str, token: &str| router.clone().oneshot(shown("GET", path, token));
        // Streams: whichever of her tokens she shows.
        let mut streams = Vec::new();
        for n in 0..64 {
            let r = ask("/v1/events", if n % 2 == 0 { alice } else { again }).await.unwrap();
            assert_eq!(r.status().as_u16(), if n < 16 { 200 } else { 503 }, "{n}");
            streams.push(r);
        }
        assert_eq!(ask("/v1/events", bob).await.unwrap().status(), 200);
        assert_eq!(ask("/v1/networks", alice).await.unwrap().status(), 200);
        // What is at work: bodies that do not come.
        let slow = || {
            let (to, from) = tokio::sync::mpsc::channel::<String>(1);
            let stream = events::Fed::new(from);
            let r = Request::builder().method("PATCH").uri("/v1/networks/red");
            let r = r.header("authorization", format!("Bearer {alice}"));
            let answer = router.clone().oneshot(r.body(Body::from_stream(stream)).unwrap());
            (to, tokio::spawn(answer))
        };
        let slow: Vec<_> = (0..JOBS / 4).map(|_| slow()).collect();
        while app.at_work.take("owner alice".to_owned(), JOBS / 4).is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ask("/v1/networks", again).await.unwrap().status(), 503);
        assert_eq!(ask("/v1/networks", bob).await.unwrap().status(), 200);
        // Whoever has ended has his part again.
        for (to, answer) in slow {
            drop(to);
            assert_eq!(answer.await.unwrap().unwrap().status(), 400);
        }
        assert_eq!(ask("/v1/networks", alice).await.unwrap().status(), 200);
        drop(streams);
    });
}

#[test]
fn tokens_that_can_not_be_read_let_nobody_in_and_say_nothing_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let (_, token) = app.tokens.add(tokens::Role::Operator, None, caller::now_s(), None).unwrap();
    let router = router(app);
    let good = std::fs::read_to_string(dir.path().join("tokens")).unwrap();
    let ask = |token: &str| {
        let r = Request::builder().uri("/v1/networks");
        let r = r.header("authorization", format!("Bearer {token}"));
        ask(&router, r.body(Body::empty()).unwrap())
    };
    for wrong in ["[[token", &good.replace("operator", "emperor")] {
        std::fs::write(dir.path().join("tokens"), wrong).unwrap();
        for token in [&*token, "x"] {
            let (status, headers, body) = ask(token);
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
            assert_eq!(headers["retry-after"], "1");
            assert!(body.contains("\"code\":\"tokens\""), "{body}");
            let said = ["emperor", "TOML", &*dir.path().display().to_string()];
            assert!(!said.iter().any(|s| body.contains(s)), "{body}");
        }
    }
    std::fs::write(dir.path().join("tokens"), good).unwrap();
    assert_eq!(ask(&token).0, StatusCode::OK);
    assert_eq!(ask("x").0, StatusCode::UNAUTHORIZED);
}
