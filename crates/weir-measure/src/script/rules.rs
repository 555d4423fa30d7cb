//! Flow_mods and loads from the maps that scripts write.
//!
//! Pure. A key that is not known is an error that names the nearest.

use crate::module::load::Load;
use crate::module::rules as own;
use crate::probe::{Headers, Vary};
use rhai::{Array, Dynamic, Map};
use weir_openflow::model::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, Instruction, Match, Port,
};

/// A map whose keys are taken one by one.
pub(super) struct Keys(Map);

impl Keys {
    /// With these keys alone.
    pub(super) fn new(map: Map, known: &[&str]) -> Result<Self, String> {
        for key in map.keys() {
            if !known.contains(&key.as_str()) {
                let near = known.iter().min_by_key(|k| crate::module::distance(k, key));
                let near = near.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)"));
                return Err(format!("'{key}' is no key here{near}"));
            }
        }
        Ok(Self(map))
    }

    /// One that may be there.
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(Dynamic) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.0.remove(key) {
            None => Ok(None),
            Some(v) if v.is_unit() => Ok(None),
            Some(v) => read(v).map(Some).map_err(|e| format!("'{key}' {e}")),
        }
    }

    /// One that must be there.
    pub(super) fn needed<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(Dynamic) -> Result<T, String>,
    ) -> Result<T, String> {
        self.take(key, read)?.ok_or_else(|| format!("'{key}' is missing"))
    }
}

pub(super) fn text(v: Dynamic) -> Result<String, String> {
    v.into_string().map_err(|_| "must be a text".to_owned())
}

pub(super) fn number(v: Dynamic) -> Result<f64, String> {
    let n = v.as_float().or_else(|_| v.as_int().map(|n| n as f64));
    n.map_err(|_| "must be a number".to_owned())
}

fn within<T: TryFrom<i64>>(v: Dynamic) -> Result<T, String> {
    let n = v.as_int().map_err(|_| "must be a whole number".to_owned())?;
    T::try_from(n).map_err(|_| format!("can't be {n}"))
}

fn flag(v: Dynamic) -> Result<bool, String> {
    v.as_bool().map_err(|_| "must be true or false".to_owned())
}

fn map(v: Dynamic) -> Result<Map, String> {
    v.try_cast().ok_or_else(|| "must be a map: #{ … }".to_owned())
}

/// The headers of flow `n`: they differ in their destination address.
pub(super) fn flow(n: u16) -> Headers {
    Headers::default().nth(n, &[Vary::DstAddr])
}

/// `ipv4_dst` for `Ipv4Dst`.
fn field_name(f: Field) -> String {
    let mut name = String::new();
    for c in format!("{f:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// A field by its name and a value that it can have.
fn field(name: &str, v: Dynamic) -> Result<(Field, u128), String> {
    let Some(field) = Field::all().find(|f| field_name(*f) == name) else {
        let all: Vec<String> = Field::all().map(field_name).collect();
        let near = all.iter().min_by_key(|k| crate::module::distance(k, name));
        let near = near.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)"));
        return Err(format!("has no field '{name}'{near}"));
    };
    let value: u64 = within(v).map_err(|e| format!("{name}: {e}"))?;
    let value = u128::from(value);
    if value > field.full() {
        return Err(format!("{name}: {value} has more than {} bits", field.bits()));
    }
    Ok((field, value))
}

fn fields(m: Map) -> Result<Vec<(Field, u128)>, String> {
    m.into_iter().map(|(name, v)| field(&name, v)).collect()
}

/// A flow_mod; `in_port`: the switch's port behind the first data channel.
pub(super) fn flow_mod(m: Map, in_port: Port) -> Result<FlowMod, String> {
    let known = [
        "command",
        "flow",
        "matches",
        "priority",
        "to",
        "set",
        "cookie",
        "idle_timeout",
        "hard_timeout",
        "notify",
    ];
    let mut keys = Keys::new(m, &known)?;
    let command = match keys.take("command", text)?.as_deref() {
        None | Some("add") => FlowCommand::Add,
        Some("modify") => FlowCommand::Modify,
        Some("modify_strict") => FlowCommand::ModifyStrict,
        Some("delete") => FlowCommand::Delete,
        Some("delete_strict") => FlowCommand::DeleteStrict,
        Some(other) => {
            return Err(format!(
                "'command' is 'add', 'modify', 'modify_strict', 'delete' or 'delete_strict', not '{other}'"
            ));
        }
    };
    let headers = keys.take("flow", within::<u16>)?.map(flow);
    let matcher = match (keys.take("matches", Ok)?, headers) {
        (None, Some(h)) => own::by_destination(&h),
        (None, None) => Match::default(),
        (Some(v), h) if v.is_string() => match (v.into_string().unwrap_or_default().as_str(), h) {
            ("wildcard", Some(h)) => own::by_destination(&h),
            ("exact", Some(h)) => own::exact(&h, in_port),
            ("wildcard" | "exact", None) => return Err("'matches' needs a 'flow'".to_owned()),
            (other, _) => {
                return Err(format!(
                    "'matches' is 'wildcard', 'exact' or a map of fields, not '{other}'"
                ));
            }
        },
        (Some(v), _) => {
            let all = map(v).and_then(fields).map_err(|e| format!("'matches' {e}"))?;
            all.into_iter().fold(Match::default(), |m, (f, value)| m.with(f, value))
        }
    };
    let mut actions: Vec<Action> = Vec::new();
    let set = keys.take("set", |v| map(v).and_then(fields))?.unwrap_or_default();
    actions.extend(set.into_iter().map(|(f, value)| Action::SetField(f, value)));
    if let Some(port) = keys.take("to", within::<u32>)? {
        actions.push(match Port(port) {
            Port::CONTROLLER => own::to_controller(),
            port => own::output(port),
        });
    }
    let instructions =
        if actions.is_empty() { Vec::new() } else { vec![Instruction::Apply(actions)] };
    let notify = keys.take("notify", flag)?.unwrap_or(false);
    Ok(FlowMod {
        priority: keys.take("priority", within::<u16>)?.unwrap_or(1000),
        cookie: keys.take("cookie", within::<u64>)?.unwrap_or(0),
        idle_timeout: keys.take("idle_timeout", within::<u16>)?.unwrap_or(0),
        hard_timeout: keys.take("hard_timeout", within::<u16>)?.unwrap_or(0),
        flags: if notify { FlowFlags::SEND_FLOW_REM } else { FlowFlags(0) },
        matcher,
        instructions,
        ..FlowMod::new(command)
    })
}

/// Probes to send.
pub(super) fn load(m: Map) -> Result<Load, String> {
    let known = ["channel", "flows", "first", "frame", "fps", "mbps", "frames", "burst"];
    let mut keys = Keys::new(m, &known)?;
    let frame = usize::from(keys.take("frame", within::<u16>)?.unwrap_or(100));
    let fps = keys.take("fps", number)?;
    let mbps = keys.take("mbps", number)?;
    let fps = match (fps, mbps) {
        (Some(fps), None) => fps,
        (None, Some(mbps)) => Load::fps_of(mbps, frame),
        _ => return Err("give 'fps' or 'mbps'".to_owned()),
    };
    let first = keys.take("first", within::<u16>)?.unwrap_or(0);
    let flows = keys.take("flows", Ok)?.unwrap_or(Dynamic::ONE);
    let flows: Vec<u16> = match flows.try_cast_result::<Array>() {
        Ok(list) => list.into_iter().map(within::<u16>).collect::<Result<_, _>>(),
        Err(v) => within::<u16>(v).map(|n| (0..n).map(|i| first.wrapping_add(i)).collect()),
    }
    .map_err(|e| format!("'flows' {e}"))?;
    let channel = usize::from(keys.take("channel", within::<u8>)?.unwrap_or(0));
    let mut load = Load::new(channel, Headers::default(), frame, fps)
        .over(flows.into_iter().map(flow).collect());
    load.frames = keys.take("frames", within::<u64>)?;
    load.burst = keys.take("burst", within::<u64>)?.unwrap_or(1);
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhai::Engine;

    fn of(text: &str) -> Map {
        Engine::new().eval(&format!("#{{ {text} }}")).unwrap()
    }

    #[test]
    fn flow_mods() {
        let f = flow_mod(of("flow: 3, to: 2, priority: 7"), Port(1)).unwrap();
        assert_eq!(
            f,
            FlowMod { ..own::add(own::by_destination(&flow(3)), 7, vec![own::output(Port(2))]) }
        );
        let f = flow_mod(of("flow: 3, matches: \"exact\", command: \"delete_strict\""), Port(9))
            .unwrap();
        assert_eq!(
            (f.command, f.matcher),
            (FlowCommand::DeleteStrict, own::exact(&flow(3), Port(9)))
        );
        let f = flow_mod(
            of("matches: #{ eth_type: 0x800, ip_proto: 17 }, set: #{ ipv4_dst: 1 }, notify: true"),
            Port(1),
        )
        .unwrap();
        assert_eq!(
            f.matcher,
            Match::default().with(Field::EthType, 0x800).with(Field::IpProto, 17)
        );
        assert_eq!(f.instructions, [Instruction::Apply(vec![Action::SetField(Field::Ipv4Dst, 1)])]);
        assert_eq!(f.flags, FlowFlags::SEND_FLOW_REM);
        for (text, why) in [
            ("flwo: 3", "'flwo' is no key here (did you mean 'flow'?)"),
            ("flow: 65536", "'flow' can't be 65536"),
            ("matches: \"exact\"", "'matches' needs a 'flow'"),
            ("matches: #{ ipv4_dts: 1 }", "did you mean 'ipv4_dst'?"),
            ("matches: #{ ip_proto: 256 }", "more than 8 bits"),
            ("command: \"insert\"", "'command' is"),
            ("to: -1", "'to' can't be -1"),
            ("notify: 1", "'notify' must be true or false"),
        ] {
            let e = flow_mod(of(text), Port(1)).unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn loads() {
        let l = load(of("flows: 3, first: 5, mbps: 10, frames: 9")).unwrap();
        assert_eq!(
            (l.fps, l.frames, l.flows),
            (12_500.0, Some(9), vec![flow(5), flow(6), flow(7)])
        );
        assert_eq!(load(of("flows: [4], fps: 1.5")).unwrap().flows, [flow(4)]);
        for (text, why) in
            [("", "give 'fps' or 'mbps'"), ("fps: 1, flows: -1", "'flows' can't be -1")]
        {
            assert!(load(of(text)).unwrap_err().contains(why), "{text}");
        }
    }
}
