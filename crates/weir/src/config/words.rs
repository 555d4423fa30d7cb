//! Values that may be written in more than one way: a word or a table, a text or a list.
//!
//! Room: serde visitors, called by TOML's reader for `schema.rs`. Each reads what it is given at its
//! place, so that errors keep their line and column (serde's untagged enums would lose them).

use super::schema::ProgramSection;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use toml::Spanned;

/// One of two forms: text makes `S`, a table makes `T`.
#[derive(Debug)]
pub enum TextOr<S, T> {
    /// Written as a text.
    Short(S),
    /// Written as a table.
    Table(T),
}

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for TextOr<S, T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<S, T>(PhantomData<(S, T)>);
        impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for V<S, T> {
            type Value = TextOr<S, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a table")
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Self::Value, E> {
                S::deserialize(StrDeserializer::new(v)).map(TextOr::Short)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Table)
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}

/// A program: its name, or a table with its options.
pub type Program = TextOr<String, Box<ProgramSection>>;

/// A match in the flow syntax: one text, or a table of fields
/// (`{ ip = true, nw_dst = "10.0.0.0/8" }`).
#[derive(Clone, Debug, Default)]
pub struct MatchText(pub String);

impl<'de> Deserialize<'de> for MatchText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = MatchText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a match as text, as in \"ip,nw_dst=10.0.0.0/8\", or a table of fields")
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<MatchText, E> {
                Ok(MatchText(v.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MatchText, A::Error> {
                // Keywords first: what they presuppose is there before the fields that need it.
                let (mut words, mut fields) = (Vec::new(), Vec::new());
                while let Some(name) = map.next_key::<String>()? {
                    if name.contains([',', '=', ' ']) {
                        let what = format!("'{name}' is no field's name");
                        return Err(A::Error::custom(what));
                    }
                    match map.next_value::<Scalar>()? {
                        Scalar::Bool(true) => words.push(name),
                        Scalar::Bool(false) => {
                            let what = format!("'{name} = false' says nothing: leave it out");
                            return Err(A::Error::custom(what));
                        }
                        Scalar::Text(v) => fields.push(format!("{name}={v}")),
                    }
                }
                words.append(&mut fields);
                Ok(MatchText(words.join(",")))
            }
        }
        d.deserialize_any(V)
    }
}

/// A field's value in a table.
enum Scalar {
    Bool(bool),
    Text(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text, or true")
            }
            fn visit_bool<E: Error>(self, v: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(v))
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<Scalar, E> {
                Ok(Scalar::Text(v.to_string()))
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<Scalar, E> {
                Ok(Scalar::Text(v.to_string()))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(v.to_owned()))
            }
        }
        d.deserialize_any(V)
    }
}

/// Actions in the flow syntax: one text, or a list of texts.
#[derive(Clone, Debug)]
pub struct ActionsText(pub String);

impl<'de> Deserialize<'de> for ActionsText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = ActionsText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("actions as text, as in \"dec_ttl,output:2\", or a list of them")
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<ActionsText, E> {
                Ok(ActionsText(v.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ActionsText, A::Error> {
                let mut all = Vec::new();
                while let Some(a) = seq.next_element::<String>()? {
                    all.push(a);
                }
                Ok(ActionsText(all.join(",")))
            }
        }
        d.deserialize_any(V)
    }
}

/// A VDP's number, as a file may give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VdpNumber(pub u16);

impl<'de> Deserialize<'de> for VdpNumber {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = VdpNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a VDP's number, 1 to 65534, or 0 for the default VDP")
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<VdpNumber, E> {
                let vid = u16::try_from(v).ok().filter(|vid| *vid != u16::MAX);
                vid.map(VdpNumber).ok_or_else(|| {
                    E::custom(format!("vid = {v}: 1 to 65534, or 0 for the default VDP"))
                })
            }
        }
        d.deserialize_any(V)
    }
}

/// A port of a VDP: by its number in the VDP, or by its name.
#[derive(Clone, Debug)]
pub enum PortRef {
    /// The VDP's number.
    Number(u32),
    /// The port's name.
    Name(String),
}

impl<'de> Deserialize<'de> for PortRef {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = PortRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port's name, or its number in the VDP")
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<PortRef, E> {
                u32::try_from(v).map(PortRef::Number).map_err(|_| E::custom("no port's number"))
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<PortRef, E> {
                u32::try_from(v).map(PortRef::Number).map_err(|_| E::custom("no port's number"))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<PortRef, E> {
                Ok(PortRef::Name(v.to_owned()))
            }
        }
        d.deserialize_any(V)
    }
}

/// A VDP's ports: a list of names, numbered from 1 as they stand there; or a table from name to
/// number.
#[derive(Debug)]
pub struct Ports(pub Vec<(String, u32)>);

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Ports;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of port names, or a table as in { lan = 1, wan = 2 }")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ports, A::Error> {
                let mut all = Vec::new();
                while let Some(name) = seq.next_element::<String>()? {
                    all.push((name, all.len() as u32 + 1));
                }
                Ok(Ports(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ports, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = map.next_entry::<String, u32>()? {
                    all.push(one);
                }
                all.sort_by_key(|(_, no)| *no);
                Ok(Ports(all))
            }
        }
        d.deserialize_any(V)
    }
}

/// Who serves the channels: `"worker"`, or `{ threads = 2 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The worker itself.
    Worker,
    /// So many threads.
    Threads(usize),
}

impl<'de> Deserialize<'de> for Serving {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Serving;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"worker\" or { threads = N }")
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Serving, E> {
                if v == "worker" {
                    return Ok(Serving::Worker);
                }
                Err(E::custom(format!("serving is \"worker\" or {{ threads = N }}, not \"{v}\"")))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Serving, A::Error> {
                let mut threads = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "threads" {
                        threads = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        return Err(A::Error::unknown_field(&key, &["threads"]));
                    }
                }
                let n: Spanned<usize> =
                    threads.ok_or_else(|| A::Error::missing_field("threads"))?;
                if *n.get_ref() == 0 {
                    return Err(A::Error::custom(
                        "threads = 0: at least 1, or serving = \"worker\"",
                    ));
                }
                Ok(Serving::Threads(n.into_inner()))
            }
        }
        d.deserialize_any(V)
    }
}

/// A datapath id: a number, or 16 hexadecimal digits as controllers show it, with or without colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatapathId(pub u64);

impl<'de> Deserialize<'de> for DatapathId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = DatapathId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a datapath id, as in \"0000000000000001\" or 1")
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<DatapathId, E> {
                u64::try_from(v).map(DatapathId).map_err(|_| E::custom("no datapath id"))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<DatapathId, E> {
                let digits: String = match v.strip_prefix("0x") {
                    Some(hex) => format!("{:0>16}", hex),
                    None => v.chars().filter(|c| *c != ':').collect(),
                };
                let hex = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                let id = u64::from_str_radix(&digits, 16).ok().filter(|_| hex);
                id.map(DatapathId).ok_or_else(|| {
                    let shown: String = v.chars().take(32).collect();
                    E::custom(format!(
                        "datapath_id '{shown}': 16 hexadecimal digits, as in 0000000000000001"
                    ))
                })
            }
        }
        d.deserialize_any(V)
    }
}
