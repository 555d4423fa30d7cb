//! A script as a module: each event calls the handler that the script has for it, if any.
//!
//! Sans-I/O. The script's own state is `this`, a map that `start` finds empty. An error ends the measurement
//! in one line; what was recorded until then is kept.

use super::Body;
use super::desk::{Cx, parameters};
use super::paper::Doc;
use super::told;
use crate::document::Document;
use crate::module::{Bench, Captured, Context, LoadDone, Module, Params, Sample};
use rhai::{Dynamic, Map};
use std::sync::Arc;
use std::time::Duration;
use weir_openflow::model::Msg;
use weir_packet::Nanos;

pub(super) struct Scripted {
    body: Arc<Body>,
    cx: Cx,
    state: Dynamic,
    takes: Option<Duration>,
    failed: bool,
}

impl Scripted {
    pub(super) fn new(body: Arc<Body>, params: &Params) -> Self {
        let takes = body.takes(parameters(params));
        Self { body, cx: Cx::new(params), state: Map::new().into(), takes, failed: false }
    }

    /// Calls a handler, if there is one and none has failed; its value.
    fn call(
        &mut self,
        cx: &mut Context<'_>,
        handler: &str,
        arguments: impl FnOnce() -> Vec<Dynamic>,
    ) -> Option<Dynamic> {
        if self.failed || !self.body.has(handler) {
            return None;
        }
        let mut all = vec![Dynamic::from(self.cx.clone())];
        all.extend(arguments());
        let (body, state) = (&self.body, &mut self.state);
        match self.cx.lend(cx, || body.call(handler, state, all)) {
            Ok(value) => Some(value),
            Err(why) => {
                self.failed = true;
                cx.fail(why);
                None
            }
        }
    }

    fn says_yes(value: Option<Dynamic>) -> bool {
        value.is_some_and(|v| v.as_bool().unwrap_or(false))
    }
}

impl Module for Scripted {
    fn takes(&self) -> Option<Duration> {
        self.takes
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.call(cx, "start", Vec::new);
    }

    fn written(&mut self, cx: &mut Context<'_>, xid: u32, at: Nanos) {
        self.call(cx, "written", || vec![i64::from(xid).into(), told::moment(at)]);
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        self.call(cx, "message", || vec![told::message(at, msg).into()]);
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        self.call(cx, "frame", || vec![told::frame(frame).into()]);
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        self.call(cx, "timer", || vec![token.cast_signed().into()]);
    }

    fn sample(&mut self, cx: &mut Context<'_>, sample: &Sample) {
        self.call(cx, "sample", || vec![told::sample(sample).into()]);
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        self.call(cx, "load_done", || vec![told::load_done(done).into()]);
    }

    fn unanswered(&mut self, cx: &mut Context<'_>, xid: u32) -> bool {
        let value = self.call(cx, "unanswered", || vec![i64::from(xid).into()]);
        Self::says_yes(value)
    }

    fn connection(&mut self, cx: &mut Context<'_>, at: Nanos, up: bool) -> bool {
        let value = self.call(cx, "connection", || vec![told::moment(at), up.into()]);
        Self::says_yes(value)
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let doc = Doc::new(self.cx.clone(), document);
        if let Err(why) =
            self.body.call("finish", &mut self.state, vec![Dynamic::from(doc.clone())])
        {
            document.partial.get_or_insert(why);
        }
        doc.write(document);
    }
}
