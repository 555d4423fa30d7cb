//! JSON merge patches (RFC 7396) of what is wanted.
//!
//! Room: values in, values out.

use super::problem::Problem;
use super::take::shaped;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// `old` with a patch.
///
/// # Errors
/// The patch is no object, or what comes of it can't be read.
pub fn merged<T: Serialize + DeserializeOwned>(old: &T, patch: &Value) -> Result<T, Problem> {
    if !patch.is_object() {
        return Err(Problem::refused("body: a merge patch is an object of what shall change"));
    }
    let mut value =
        serde_json::to_value(old).map_err(|e| Problem::refused(format_args!("body: {e}")))?;
    merge(&mut value, patch);
    let new: T = serde_json::from_value(value.clone())
        .map_err(|e| Problem::refused(format_args!("body: {e}")))?;
    shaped(&value, &new)?;
    Ok(new)
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(serde_json::Map::new());
    }
    let Value::Object(into) = into else { return };
    for (k, v) in patch {
        match v {
            Value::Null => drop(into.remove(k)),
            _ => merge(into.entry(k.clone()).or_insert(Value::Null), v),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn the_rfcs_examples() {
        for (mut target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            merge(&mut target, &patch);
            assert_eq!(target, result, "{patch}");
        }
    }
}
