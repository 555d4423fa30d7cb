//! HTML being written, where markup is ours and everything else is escaped.
//!
//! Pure. [`Html::raw`] takes only text that is in this program; what comes from documents, and so
//! perhaps from a switch, goes through [`Html::text`], [`Html::json`] or [`attribute`]. The page's
//! content security policy ([`policy`]) allows this program's script and style by their hashes and
//! nothing else, so that a mistake here would still not let a device's words run.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Markup.
#[derive(Debug, Default)]
pub struct Html(String);

impl Html {
    /// Adds markup of ours.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds anybody's text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(shown(c)),
            }
        }
        self
    }

    /// Adds an element with text: `<h2>text</h2>`.
    pub fn element(&mut self, name: &'static str, text: &str) -> &mut Self {
        self.raw("<").raw(name).raw(">").text(text).raw("</").raw(name).raw(">")
    }

    /// Adds ` name="value"`.
    pub fn attribute(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// Adds data for the script to find, as JSON that can't end its element.
    pub fn json(&mut self, data: &impl Serialize) -> &mut Self {
        // Our own plain types: none has a key that is no text.
        let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        self.data(&json)
    }

    /// Adds text of JSON, likewise.
    pub fn data(&mut self, json: &str) -> &mut Self {
        // Within JSON these stand in strings only, where an escape means the same.
        for c in json.chars() {
            if matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') || shown(c) != c {
                // All of these are in the first plane.
                self.0.push_str(&format!("\\u{:04x}", u32::from(c)));
            } else {
                self.0.push(c);
            }
        }
        self
    }

    /// What was written.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// What stands for a character that would be seen as nothing, or turn round what stands beside it:
/// controls, and Unicode's directional overrides (UAX #9 §2).
pub fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// A content security policy (CSP level 3) that lets one style and one script in, by their hashes,
/// and nothing from anywhere.
pub fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| base64(&Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        hash(style),
        hash(script)
    )
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut h = Html::default();
        h.raw("<p")
            .attribute("title", "a\" onclick='x'")
            .raw(">")
            .text("</p><script>&\u{202e}\u{1b}[");
        assert_eq!(
            h.into_string(),
            "<p title=\"a&quot; onclick=&#39;x&#39;\">&lt;/p&gt;&lt;script&gt;&amp;\u{fffd}\u{fffd}["
        );
        let mut h = Html::default();
        h.json(&["</script><!--", "\u{2028}&"]);
        let json = h.into_string();
        assert_eq!(json, r#"["\u003c/script\u003e\u003c!--","\u2028\u0026"]"#);
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, ["</script><!--", "\u{2028}&"]);
    }

    #[test]
    fn base64_as_rfc_4648_has_it() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        // printf %s '' | openssl dgst -sha256 -binary | base64
        let empty = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert!(policy("", "").contains(empty));
    }
}
