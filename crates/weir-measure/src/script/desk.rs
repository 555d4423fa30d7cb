//! What a script's handlers act by: `cx`.
//!
//! Sans-I/O. While a handler runs, the engine's [`Context`] lies on the desk; each call of the script does
//! with it what a compiled module would. Bounded: messages and timers of one handler, series and values of
//! samples.

use super::{rules, told};
use crate::document::Samples;
use crate::document::file::{PLAIN, is_plain};
use crate::engine::pairing::Pairing;
use crate::module::{Act, Bench, Context, LoadId, Params};
use rhai::{Array, Dynamic, Engine, EvalAltResult, Map};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_openflow::model::{FlowFilter, Message, Port, StatsRequest};
use weir_packet::Nanos;

/// What one handler may ask for: a table's worth of entries and some.
const ACTS: usize = 100_000;
/// Series of samples.
const SERIES: usize = 1_000;
/// Values of all of them that are kept one by one; past that there are digits enough for percentiles.
const VALUES: usize = 1 << 22;
/// Sentences of `print` and `note`.
const NOTES: usize = 50;
/// Bytes of an echo request.
const ECHO: i64 = 60_000;

/// Byte `n` of an echo request's payload.
pub(super) fn echo_byte(n: usize) -> u8 {
    (n % 251) as u8
}

/// A series of samples that the script records.
pub(super) struct Series {
    pub(super) title: String,
    pub(super) samples: Samples,
}

/// What lies there.
pub(super) struct Desk {
    now: Nanos,
    bench: Bench,
    params: Params,
    acts: Vec<Act>,
    xid: u32,
    loads: u8,
    departures: Pairing,
    pub(super) series: BTreeMap<String, Series>,
    pub(super) notes: Vec<String>,
}

/// The script's hold on the desk.
#[derive(Clone)]
pub(super) struct Cx(Arc<Mutex<Desk>>);

type Fails<T> = Result<T, Box<EvalAltResult>>;

fn wrong(why: impl Into<String>) -> Box<EvalAltResult> {
    why.into().into()
}

impl Cx {
    pub(super) fn new(params: &Params) -> Self {
        Self(Arc::new(Mutex::new(Desk {
            now: Nanos(0),
            bench: Bench::default(),
            params: params.clone(),
            acts: Vec::new(),
            xid: 0,
            loads: 0,
            departures: Pairing::default(),
            series: BTreeMap::new(),
            notes: Vec::new(),
        })))
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays the engine's context on the desk for the time of `work`.
    pub(super) fn lend<T>(&self, cx: &mut Context<'_>, work: impl FnOnce() -> T) -> T {
        {
            let mut d = self.desk();
            d.now = cx.now;
            if d.bench != *cx.bench {
                d.bench = cx.bench.clone();
            }
            d.lay(cx);
        }
        let done = work();
        self.desk().lay(cx);
        done
    }

    /// Something done by the context.
    fn with<T>(&self, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let mut d = self.desk();
        let Desk { now, bench, params, acts, xid, loads, departures, .. } = &mut *d;
        work(&mut Context { now: *now, bench, params, acts, xid, loads, departures, traffic: None })
    }

    /// Something asked of the engine.
    fn act<T>(&self, work: impl FnOnce(&mut Context<'_>) -> T) -> Fails<T> {
        if self.desk().acts.len() >= ACTS {
            return Err(wrong(format!("more than {ACTS} messages and timers at once")));
        }
        Ok(self.with(work))
    }

    fn load(n: i64) -> Fails<LoadId> {
        u8::try_from(n).map(LoadId).map_err(|_| wrong(format!("{n} is no load")))
    }

    fn time(seconds: Dynamic) -> Fails<Duration> {
        let s = rules::number(seconds).map_err(|e| wrong(format!("the time {e}")))?;
        Duration::try_from_secs_f64(s).map_err(|_| wrong(format!("{s} s is no time to wait")))
    }

    fn param(&mut self, name: &str) -> Fails<Dynamic> {
        let d = self.desk();
        let found = parameter(&d.params, name);
        found.ok_or_else(|| wrong(format!("there is no parameter '{name}'")))
    }

    fn record(&mut self, id: &str, value: f64) -> Fails<()> {
        let mut d = self.desk();
        let s = d.series.get_mut(id).ok_or_else(|| no_series(id))?;
        s.samples.record(value);
        Ok(())
    }

    fn series(&mut self, id: &str, title: &str, unit: &str) -> Fails<()> {
        if !is_plain(id) {
            return Err(wrong(format!("series {id:?}: {PLAIN}")));
        }
        let mut d = self.desk();
        if d.series.len() >= SERIES {
            return Err(wrong(format!("more than {SERIES} series of samples")));
        }
        let short = |t: &str| t.chars().take(200).collect::<String>();
        let samples = Samples::keeping(&short(unit), VALUES / SERIES.min(64));
        d.series.entry(short(id)).or_insert(Series { title: short(title), samples });
        Ok(())
    }

    fn request(&mut self, body: Message) -> Fails<i64> {
        self.act(|cx| i64::from(cx.request(body)))
    }

    fn note(&self, text: &str) {
        let mut d = self.desk();
        let text: String = text.chars().take(400).collect();
        if d.notes.len() < NOTES && !d.notes.contains(&text) {
            d.notes.push(text);
        }
    }
}

impl Desk {
    /// Exchanges what is on the desk with what the engine has.
    fn lay(&mut self, cx: &mut Context<'_>) {
        std::mem::swap(&mut self.acts, cx.acts);
        std::mem::swap(&mut self.xid, cx.xid);
        std::mem::swap(&mut self.loads, cx.loads);
        std::mem::swap(&mut self.departures, cx.departures);
    }
}

pub(super) fn no_series(id: &str) -> Box<EvalAltResult> {
    wrong(format!("there is no series '{id}': make it by cx.series(id, title, unit)"))
}

/// A parameter's value as a script has it.
fn parameter(params: &Params, name: &str) -> Option<Dynamic> {
    use crate::module::Kind;
    let p = params.about().params.iter().find(|p| p.name == name)?;
    let whole = |n: u64| Dynamic::from_int(i64::try_from(n).unwrap_or(i64::MAX));
    Some(match p.kind {
        Kind::Count(..) => whole(params.count(name)),
        Kind::Number(..) => Dynamic::from_float(params.number(name)),
        Kind::Counts(..) => params.counts(name).into_iter().map(whole).collect::<Array>().into(),
        Kind::Numbers(..) => {
            params.numbers(name).iter().map(|n| Dynamic::from_float(*n)).collect::<Array>().into()
        }
        Kind::Word(_) => params.word(name).to_owned().into(),
    })
}

/// All parameters.
pub(super) fn parameters(params: &Params) -> Map {
    let names = params.about().params.iter().map(|p| p.name.clone());
    names.filter_map(|n| Some((n.as_str().into(), parameter(params, &n)?))).collect()
}

/// Makes the calls known.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Cx>("cx");
    engine.register_fn("now", |cx: &mut Cx| cx.with(|c| told::moment(c.now())));
    engine.register_fn("param", Cx::param);
    engine.register_fn("is_13", |cx: &mut Cx| cx.with(|c| c.bench().is_13()));
    engine.register_fn("has_barriers", |cx: &mut Cx| cx.with(|c| c.bench().barriers));
    engine.register_fn("port", |cx: &mut Cx, channel: i64| {
        let n = usize::try_from(channel).unwrap_or(usize::MAX);
        cx.with(|c| i64::from(c.bench().port(n).0))
    });
    engine.register_fn("in_port", |_: &mut Cx| i64::from(Port::IN_PORT.0));
    engine.register_fn("controller", |_: &mut Cx| i64::from(Port::CONTROLLER.0));

    engine.register_fn("echo", |cx: &mut Cx, bytes: i64| {
        if !(0..=ECHO).contains(&bytes) {
            return Err(wrong(format!("an echo request has 0 to {ECHO} bytes, not {bytes}")));
        }
        cx.request(Message::EchoRequest((0..bytes as usize).map(echo_byte).collect()))
    });
    engine.register_fn("barrier", |cx: &mut Cx| cx.request(Message::BarrierRequest));
    engine.register_fn("flow_stats", |cx: &mut Cx| {
        cx.act(|c| i64::from(c.stats(StatsRequest::Flow(FlowFilter::every_flow()))))
    });
    engine.register_fn("aggregate_stats", |cx: &mut Cx| {
        cx.act(|c| i64::from(c.stats(StatsRequest::Aggregate(FlowFilter::every_flow()))))
    });
    engine.register_fn("clear_table", |cx: &mut Cx| cx.act(|c| c.clear_table()));
    engine.register_fn("flow_mod", |cx: &mut Cx, map: Map| {
        let in_port = cx.with(|c| c.bench().port(0));
        let flow = rules::flow_mod(map, in_port).map_err(|e| wrong(format!("flow_mod: {e}")))?;
        cx.act(|c| i64::from(c.flow_mod(flow)))
    });
    engine.register_fn("probes", |cx: &mut Cx, map: Map| {
        let load = rules::load(map).map_err(|e| wrong(format!("probes: {e}")))?;
        cx.act(|c| i64::from(c.begin(load).0))
    });
    engine.register_fn("set_fps", |cx: &mut Cx, load: i64, fps: Dynamic| {
        let load = Cx::load(load)?;
        let fps = rules::number(fps).map_err(|e| wrong(format!("the rate {e}")))?;
        cx.act(|c| c.set_fps(load, fps))
    });
    engine.register_fn("stop", |cx: &mut Cx, load: i64| {
        let load = Cx::load(load)?;
        cx.act(|c| c.stop(load))
    });
    engine.register_fn("departure", |cx: &mut Cx, load: i64, number: i64| {
        let load = Cx::load(load)?;
        let known = u32::try_from(number).ok().and_then(|n| cx.with(|c| c.departure(load, n)));
        Ok::<_, Box<EvalAltResult>>(known.map_or(Dynamic::UNIT, told::moment))
    });
    engine.register_fn("timer_in", |cx: &mut Cx, seconds: Dynamic, token: i64| {
        let after = Cx::time(seconds)?;
        cx.act(|c| c.timer_in(after, token.cast_unsigned()))
    });
    engine.register_fn("disconnect", |cx: &mut Cx| cx.act(|c| c.disconnect()));
    engine.register_fn("connect", |cx: &mut Cx| cx.act(|c| c.connect()));
    engine.register_fn("progress", |cx: &mut Cx, done: i64, of: i64| {
        let n = |n: i64| u64::try_from(n).unwrap_or(0);
        cx.act(|c| c.progress(n(done), n(of)))
    });
    engine.register_fn("over", |cx: &mut Cx| cx.act(|c| c.end()));
    engine.register_fn("fail", |cx: &mut Cx, why: &str| {
        let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
        cx.act(|c| c.fail(why))
    });

    engine.register_fn("series", Cx::series);
    engine.register_fn("record", Cx::record);
    engine.register_fn("record", |cx: &mut Cx, id: &str, n: i64| cx.record(id, n as f64));
    engine.register_fn("miss", |cx: &mut Cx, id: &str| {
        let mut d = cx.desk();
        let s = d.series.get_mut(id).ok_or_else(|| no_series(id))?;
        s.samples.miss();
        Ok::<_, Box<EvalAltResult>>(())
    });
    engine.register_fn("count", |cx: &mut Cx, id: &str| {
        let d = cx.desk();
        let s = d.series.get(id).ok_or_else(|| no_series(id))?;
        Ok::<_, Box<EvalAltResult>>(i64::try_from(s.samples.count()).unwrap_or(i64::MAX))
    });
    engine.register_fn("percentile", |cx: &mut Cx, id: &str, percent: Dynamic| {
        let percent = rules::number(percent).map_err(|e| wrong(format!("the percentile {e}")))?;
        let d = cx.desk();
        let s = d.series.get(id).ok_or_else(|| no_series(id))?;
        let value = s.samples.percentile(percent);
        Ok::<_, Box<EvalAltResult>>(value.map_or(Dynamic::UNIT, Dynamic::from_float))
    });
    engine.register_fn("note", |cx: &mut Cx, text: &str| cx.note(text));
}
