//! What a script says of itself, from the map that its `about` returns.
//!
//! Pure. Unknown keys are errors with the nearest right one.

use super::rules::{Keys, text};
use crate::module::{About, Kind, Param, Table};
use rhai::{Array, Dynamic, Map};

/// Parameters of one script.
const PARAMS: usize = 64;
/// Data channels that a script may ask for.
const CHANNELS: i64 = 16;

/// Reads it.
///
/// # Errors
/// Which key, and what it must be.
pub(super) fn read(map: Map) -> Result<About, String> {
    let mut keys = Keys::new(map, &["name", "asks", "paper", "channels", "table", "params"])?;
    let name = keys.needed("name", text)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 40 || !name.chars().all(fits) {
        return Err("'name' must be 1 to 40 letters, digits, '-' and '_'".to_owned());
    }
    let asks = keys.needed("asks", text)?;
    let mut about = About::new(&name, asks.trim_end_matches(['?', '.']));
    about.paper = keys.take("paper", text)?;
    let channels = keys.take("channels", whole)?.unwrap_or(2);
    if !(0..=CHANNELS).contains(&channels) {
        return Err(format!("'channels' must be 0 to {CHANNELS}"));
    }
    about.channels = channels as usize;
    about.table = match keys.take("table", text)?.as_deref() {
        None if channels == 0 => Table::Untouched,
        None | Some("own") => Table::Own,
        Some("untouched") => Table::Untouched,
        Some(other) => return Err(format!("'table' is 'own' or 'untouched', not '{other}'")),
    };
    let params = keys.take("params", array)?.unwrap_or_default();
    if params.len() > PARAMS {
        return Err(format!("more than {PARAMS} parameters"));
    }
    for (n, p) in params.into_iter().enumerate() {
        let map = p.try_cast::<Map>().ok_or_else(|| format!("params[{n}] must be a map"))?;
        let p = param(map).map_err(|e| format!("params[{n}]: {e}"))?;
        if about.params.iter().any(|q| q.name == p.name) {
            return Err(format!("params[{n}]: '{}' is there already", p.name));
        }
        about.params.push(p);
    }
    Ok(about)
}

fn param(map: Map) -> Result<Param, String> {
    let known = ["name", "unit", "about", "kind", "min", "max", "words", "value", "quick"];
    let mut keys = Keys::new(map, &known)?;
    let name = keys.needed("name", text)?;
    let kind = keys.needed("kind", text)?;
    let (min, max) = (keys.take("min", number)?, keys.take("max", number)?);
    let (lo, hi) = (min.unwrap_or(0.0), max.unwrap_or(1e9));
    // The casts saturate.
    let (from, to) = (lo as u64, hi as u64);
    let kind = match kind.as_str() {
        "count" => Kind::Count(from, to),
        "counts" => Kind::Counts(from, to),
        "number" => Kind::Number(lo, hi),
        "numbers" => Kind::Numbers(lo, hi),
        "word" => {
            let words = keys.needed("words", array)?;
            Kind::Word(words.into_iter().map(text).collect::<Result<_, _>>()?)
        }
        other => {
            return Err(format!(
                "'kind' is 'count', 'counts', 'number', 'numbers' or 'word', not '{other}'"
            ));
        }
    };
    Ok(Param {
        name,
        unit: keys.take("unit", text)?.unwrap_or_default(),
        about: keys.take("about", text)?.unwrap_or_default(),
        kind,
        default: keys.needed("value", plain)?,
        quick: keys.take("quick", plain)?,
    })
}

fn whole(v: Dynamic) -> Result<i64, String> {
    v.as_int().map_err(|_| "must be a whole number".to_owned())
}

fn number(v: Dynamic) -> Result<f64, String> {
    super::rules::number(v)
}

fn array(v: Dynamic) -> Result<Array, String> {
    v.try_cast().ok_or_else(|| "must be a list: [ … ]".to_owned())
}

/// A value as `--set` takes it.
fn plain(v: Dynamic) -> Result<String, String> {
    match v.try_cast_result::<Array>() {
        Ok(all) => {
            let parts: Result<Vec<_>, _> = all.into_iter().map(plain).collect();
            Ok(parts?.join(","))
        }
        Err(v) if v.is_string() || v.is_int() || v.is_float() => Ok(v.to_string()),
        Err(_) => Err("must be a number, a text, or a list of them".to_owned()),
    }
}
