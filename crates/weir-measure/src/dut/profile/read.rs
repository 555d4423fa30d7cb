//! Text to profile: what is wrong is said with its line and, for a name, the nearest that is right.
//!
//! Room: text only; part of `profile`. Files are read by whoever calls.

use super::{ActionKind, Actions, BUILTIN, Profile};
use thiserror::Error;

/// A profile that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No profile has this name.
    #[error("no profile is called '{name}'{}: there are {}; or give a file's path", asked(.nearest), names())]
    Unknown {
        /// What was asked for.
        name: String,
        /// The name that is most like it.
        nearest: Option<&'static str>,
    },
    /// A text that is no profile.
    #[error("{file}{}: {text}", place(.line))]
    Text {
        /// Where it comes from.
        file: String,
        /// Line, from 1; unknown for what concerns the whole.
        line: Option<usize>,
        /// What is wrong, and how to mend it.
        text: String,
    },
}

fn asked(nearest: &Option<&str>) -> String {
    nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default()
}

fn names() -> String {
    BUILTIN.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ")
}

fn place(line: &Option<usize>) -> String {
    line.map(|l| format!(":{l}")).unwrap_or_default()
}

/// Entries that a table may have: what the slow, obvious table behind it can bear.
const ENTRIES_MAX: usize = 1_000_000;
/// Frames or changes that a profile may let wait.
const QUEUE_MAX: usize = 65_536;

impl Profile {
    /// The profile of this name that comes along.
    ///
    /// # Errors
    /// None has this name.
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        match BUILTIN.iter().find(|(n, _)| *n == name) {
            Some((n, text)) => Self::read(n, text),
            None => Err(ProfileError::Unknown {
                name: name.chars().take(64).collect(),
                nearest: nearest(name, BUILTIN.iter().map(|(n, _)| *n)),
            }),
        }
    }

    /// Reads a profile's text; `file` is what errors call it.
    ///
    /// # Errors
    /// [`ProfileError::Text`].
    pub fn read(file: &str, text: &str) -> Result<Self, ProfileError> {
        let wrong = |line, text| ProfileError::Text { file: file.to_owned(), line, text };
        let profile: Profile = toml::from_str(text).map_err(|e| {
            let line = e.span().and_then(|s| text.get(..s.start));
            let line = line.map(|before| before.bytes().filter(|b| *b == b'\n').count() + 1);
            let said = e.message().replace('\n', " ");
            wrong(line, unknown_word(&said).unwrap_or(said))
        })?;
        match profile.contradiction() {
            None => Ok(profile),
            Some(what) => Err(wrong(None, what)),
        }
    }

    /// What can't be, though each part of it can.
    fn contradiction(&self) -> Option<String> {
        let t = &self.table;
        if t.entries == 0 || t.entries > ENTRIES_MAX {
            return Some(format!("table.entries = {}: 1 to {ENTRIES_MAX}", t.entries));
        }
        let cpu = self.actions.cpu.as_ref();
        let waits = [
            ("update.reorder_window", self.update.reorder_window),
            ("packet_in.queue", self.packet_in.queue),
            ("actions.cpu.queue", cpu.map_or(0, |c| c.queue)),
        ];
        if let Some((key, n)) = waits.into_iter().find(|(_, n)| *n > QUEUE_MAX) {
            return Some(format!("{key} = {n}: {QUEUE_MAX} at most"));
        }
        let u = &self.update;
        let costs = [u.start_us, u.insert_us, u.modify_us, u.delete_us];
        if u.reorder_window > 1 && costs.iter().all(|c| c.is_zero()) {
            return Some(
                "update.reorder_window needs changes that take time, or none ever waits: set \
                 update.insert_us"
                    .to_owned(),
            );
        }
        if cpu.is_some_and(|c| c.does.is_empty()) {
            return Some("actions.cpu.does is empty: list what the processor does".to_owned());
        }
        self.actions.without_effect()
    }
}

/// Kinds that change what a checksum is of.
const SUMMED: [ActionKind; 4] =
    [ActionKind::Ip, ActionKind::Tos, ActionKind::L4Port, ActionKind::Ttl];

impl Actions {
    /// A kind in a list where it would do nothing: nobody could find such a fault.
    fn without_effect(&self) -> Option<String> {
        if let Some(kind) = self.wrong_checksum.iter().find(|k| !SUMMED.contains(k)) {
            let known = SUMMED.map(ActionKind::word).join(", ");
            return Some(format!(
                "actions.wrong_checksum: '{}' changes nothing that a checksum is of; there are {known}",
                kind.word()
            ));
        }
        let lists = [("ignores", &self.ignores), ("writes_wrong", &self.writes_wrong)];
        let (key, _) = lists.iter().find(|(_, list)| list.contains(&ActionKind::Forward))?;
        Some(format!(
            "actions.{key}: 'forward' writes nothing; a frame that is not forwarded is one of actions.discards"
        ))
    }
}

/// serde's words for an unknown key or word, said so that it can be mended.
fn unknown_word(message: &str) -> Option<String> {
    let kinds = [("unknown field `", "key"), ("unknown variant `", "word")];
    let (rest, what) =
        kinds.iter().find_map(|(begin, what)| Some((message.strip_prefix(begin)?, what)))?;
    let (word, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let word: String = word.chars().take(64).collect();
    let near = nearest(&word, known.iter().copied());
    let near = near.map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
    Some(format!("unknown {what} '{word}': {near}Known here: {}", known.join(", ")))
}

/// The word most like `word`, where one is like it at all.
fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.chars().count() / 2).max(2);
    let by = known.map(|k| (strsim::levenshtein(word, k), k)).min_by_key(|(d, _)| *d);
    by.filter(|(d, _)| *d <= limit).map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_along_is_right() {
        for (name, text) in BUILTIN {
            let p = Profile::read(name, text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(p.name, *name);
            assert!(!p.about.is_empty() && p.about.len() <= 100, "{name}: {}", p.about);
        }
        assert_eq!(BUILTIN[0].0, "honest");
    }

    #[test]
    fn errors_say_where_what_and_the_nearest() {
        let e = |text: &str| Profile::read("p.toml", text).unwrap_err().to_string();
        let head = "name = \"x\"\nabout = \"y\"\n";
        for (text, said) in [
            (
                "[barier]\nreply = \"early\"",
                "p.toml:3: unknown key 'barier': did you mean 'barrier'?",
            ),
            ("[barrier]\nreply = \"erly\"", "p.toml:4: unknown word 'erly': did you mean 'early'?"),
            ("[update]\ninsert_ms = 1", "unknown key 'insert_ms': did you mean 'insert_us'?"),
            ("[update]\ninsert_us = -1", "p.toml:4: -1 µs: a time from 0"),
            ("[update]\ninsert_us = nan", "NaN µs"),
            ("[actions]\ndiscards = [\"l4\"]", "unknown word 'l4'"),
            ("[table]\nentries = 0", "p.toml: table.entries = 0: 1 to"),
            ("[update]\nreorder_window = 4", "update.reorder_window needs changes that take time"),
            ("[actions.cpu]\ndoes = []", "actions.cpu.does is empty"),
            ("[actions]\nrefuses = [\"other\"]", "unknown word 'other'"),
            (
                "[actions]\nwrong_checksum = [\"mac\"]",
                "'mac' changes nothing that a checksum is of",
            ),
            ("[actions]\nignores = [\"forward\"]", "actions.ignores: 'forward' writes nothing"),
            ("[forwarding]\nlose_percent = 101", "101 %"),
        ] {
            let told = e(&format!("{head}{text}"));
            assert!(told.contains(said), "{text}: {told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
        assert!(e("about = \"y\"").contains("missing field `name`"));
        let told = Profile::builtin("honst").unwrap_err().to_string();
        assert!(told.contains("did you mean 'honest'?"), "{told}");
    }

    #[test]
    fn a_profile_that_says_nothing_is_honest_and_has_no_fault() {
        let p = Profile::read("x", "name = \"x\"\nabout = \"y\"").unwrap();
        assert_eq!(p.faults(), []);
        let honest = Profile::builtin("honest").unwrap();
        assert_eq!(Profile { name: p.name.clone(), about: p.about.clone(), ..honest }, p);
    }
}
