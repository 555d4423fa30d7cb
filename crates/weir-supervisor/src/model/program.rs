//! A node's slow-path program as a lab has it: its name, or a table with its name and options.
//!
//! Room: data. What options mean is the data plane's to say: they are passed on as they are. Part of [`super::Node`].

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// A slow-path program: its name and its options, none of which is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    name: String,
    options: Map<String, Value>,
}

const NAME: &str = "name";

impl Program {
    /// One without options.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), options: Map::new() }
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Whether it has any.
    pub fn has_options(&self) -> bool {
        !self.options.is_empty()
    }
    /// Whether it has options that are more than numbers and truths: they may name ports.
    pub fn is_told_more_than_numbers(&self) -> bool {
        self.options.values().any(|v| !matches!(v, Value::Number(_) | Value::Bool(_)))
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.options.is_empty() {
            return to.serialize_str(&self.name);
        }
        to.collect_map(
            std::iter::once((NAME, &Value::from(self.name.as_str())))
                .chain(self.options.iter().map(|(key, v)| (key.as_str(), v))),
        )
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Program;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a program's name, or a table with its 'name' and its options")
    }
    fn visit_str<E: Error>(self, name: &str) -> Result<Program, E> {
        Ok(Program::named(name))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Program, A::Error> {
        let (mut name, mut options) = (None, Map::new());
        while let Some(key) = all.next_key::<String>()? {
            if key == NAME {
                name = Some(all.next_value()?);
                continue;
            }
            let value: Value = all.next_value()?;
            if let Some(what) = unsayable(&value) {
                let key: String = key.chars().take(64).collect();
                return Err(A::Error::custom(format!("{key}: {what}")));
            }
            options.insert(key, value);
        }
        let name = name.ok_or_else(|| A::Error::custom("a program's table has a 'name'"))?;
        Ok(Program { name, options })
    }
}

/// What a data plane's file has no word for.
fn unsayable(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => Some("null is no option: leave it out"),
        Value::Number(n) if n.as_i64().is_none() && !n.is_f64() => Some("at most 2^63 - 1"),
        Value::Array(all) => all.iter().find_map(unsayable),
        Value::Object(all) => all.values().find_map(unsayable),
        _ => None,
    }
}

impl PartialSchema for Program {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let told = ObjectBuilder::new()
            .property(NAME, text())
            .required(NAME)
            .additional_properties(Some(AdditionalProperties::FreeForm(true)));
        OneOfBuilder::new()
            .item(text())
            .item(told)
            .description(Some("A slow-path program: its name, or its name and options"))
            .into()
    }
}

impl ToSchema for Program {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        program: Program,
    }

    #[test]
    fn a_name_is_a_text_and_options_are_a_table() {
        let read = |text: &str| toml::from_str::<Holder>(text);
        let short = read("program = 'learning'").unwrap();
        assert_eq!(short.program, Program::named("learning"));
        assert_eq!(toml::to_string(&short).unwrap(), "program = \"learning\"\n");
        let long = "[program]\nname = 'router'\n[[program.interface]]\nport = 1\nmac = 'm'\naddresses = ['a']\n";
        let long = read(long).unwrap();
        assert_eq!(long.program.name(), "router");
        // What a host is told, and what a store keeps, is what was read.
        assert_eq!(read(&toml::to_string(&long).unwrap()).unwrap(), long);
        let kept = serde_json::to_string(&long).unwrap();
        assert_eq!(serde_json::from_str::<Holder>(&kept).unwrap(), long);
        assert!(long.program.is_told_more_than_numbers());
        let numbers = read("program = { name = 'learning', ageing_s = 5 }").unwrap();
        assert!(!numbers.program.is_told_more_than_numbers());
        assert!(read("program = 7").unwrap_err().message().contains("a program's name"));
        assert!(read("program = { ageing_s = 5 }").unwrap_err().message().contains("'name'"));
    }

    #[test]
    fn what_a_file_can_not_say_is_refused() {
        for (json, says) in [
            ("null", "null"),
            ("[{\"a\": null}]", "null"),
            ("1e3", ""),
            ("18446744073709551615", "at most"),
        ] {
            let text = format!("{{\"program\": {{\"name\": \"nat\", \"x\": {json}}}}}");
            let read = serde_json::from_str::<Holder>(&text);
            match says {
                "" => assert!(toml::to_string(&read.unwrap()).unwrap().contains("x = 1000.0")),
                says => assert!(read.unwrap_err().to_string().contains(says), "{json}"),
            }
        }
    }
}
