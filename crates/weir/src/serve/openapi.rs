//! The OpenAPI document, made from the operations themselves.
//!
//! Room: types in, a document out. Served at `/openapi.json`, printed by `weir serve --openapi`.

use super::problem::Problem;
use super::{events, lab, metrics, monitor, networks};
use axum::Json;
use axum::response::IntoResponse;
use utoipa::openapi::path::{HttpMethod, Operation, ParameterIn};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi as _, ToSchema};

/// All operations.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "weir",
        description = "Virtual networks on shared data planes: instantiate, delete, migrate, set, \
                       monitor. Errors are problem documents (RFC 9457) of one line that says what, \
                       where, and how to mend it. docs/guide/api.md explains roles and limits."
    ),
    paths(
        networks::list, networks::create, networks::show, networks::put, networks::patch, networks::delete,
        networks::node, networks::set, networks::migrate, monitor::network,
        lab::show, lab::apply, lab::revision, lab::recover, lab::verify,
        events::listen, metrics::metrics, document,
    ),
    components(schemas(Problem, events::EventItem)),
    modifiers(&Everywhere),
)]
struct Document;

/// The document.
pub fn openapi() -> OpenApi {
    Document::openapi()
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "document", security(()),
    responses((status = 200, description = "OpenAPI", body = Object, content_type = "application/json"))
)]
pub async fn document() -> impl IntoResponse {
    Json(openapi())
}

/// What holds of every operation: who may ask, and what may go wrong.
struct Everywhere;

impl Modify for Everywhere {
    fn modify(&self, api: &mut OpenApi) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        api.components.get_or_insert_default().add_security_scheme("token", bearer);
        let requirement = SecurityRequirement::new("token", Vec::<String>::new());
        api.security = Some(vec![requirement]);
        for (path, item) in &mut api.paths.paths {
            let all = [
                (HttpMethod::Get, &mut item.get),
                (HttpMethod::Put, &mut item.put),
                (HttpMethod::Post, &mut item.post),
                (HttpMethod::Patch, &mut item.patch),
                (HttpMethod::Delete, &mut item.delete),
            ];
            for (method, op) in all {
                let Some(op) = op else { continue };
                if path != "/openapi.json" {
                    failures(op, path, method == HttpMethod::Get);
                }
            }
        }
    }
}

fn failures(op: &mut Operation, path: &str, looks: bool) {
    let mut add = |status: &str, what: &str| {
        let all = &mut op.responses.responses;
        all.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(what)));
    };
    add("401", "No token that holds");
    add("403", "Not the token's to ask");
    add("408", "What was sent came too slowly");
    add("500", "The store or the tokens can't be read");
    add("503", "Too much is asked at once");
    add("504", "It takes longer than is waited for; a change goes on");
    if path.contains('{') {
        add("400", "The path can't be read");
        add("404", "There is none, or none that the token may see");
    }
    if !looks {
        add("409", "It is there already, or a change was interrupted");
        add("412", "It has changed since it was read");
        add("422", "It can't be: what, where, and how to mend it");
        add("502", "A physical node does not answer");
    }
    let asks = op.parameters.iter().flatten().any(|p| match p {
        RefOr::T(p) => p.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => false,
    });
    if op.request_body.is_some() || asks {
        let what = "What was sent can't be read";
        let all = &mut op.responses.responses;
        all.entry("400".to_owned()).or_insert_with(|| RefOr::T(problem(what)));
    }
    if op.request_body.is_some() {
        let all = &mut op.responses.responses;
        for (status, what) in [("413", "It is too large"), ("415", "It is not JSON")] {
            all.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(what)));
        }
    }
}

fn problem(what: &str) -> Response {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(what).content("application/problem+json", content).build()
}
