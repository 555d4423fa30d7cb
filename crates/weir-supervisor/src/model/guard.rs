//! Rules that act (003 §2.1, functionality 4): a node that goes beyond a rate for a while is cut off or deleted.
//!
//! Room: plain data and its own checks. [`crate::guard`] says when one applies.

use crate::refusal::{Refusal, Way};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A rule that acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// What it is called.
    pub name: String,
    /// The network that it watches; without it every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The node of that network; without it every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is counted.
    pub rate: Rate,
    /// How many a second are too many.
    pub above: u64,
    /// For how many seconds on end, 1 to 3600.
    #[serde(default = "usual")]
    pub for_s: u32,
    /// What is done then.
    #[serde(default)]
    pub act: Act,
}

fn usual() -> u32 {
    3
}

/// What of a node is counted, a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// Frames that came for it.
    ReceivedFrames,
    /// Bytes of these.
    ReceivedBytes,
    /// Frames that it sent.
    ForwardedFrames,
    /// Frames of its that were dropped.
    DroppedFrames,
    /// Frames that took the software stage.
    SlowFrames,
}

impl Rate {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReceivedFrames => "received-frames",
            Self::ReceivedBytes => "received-bytes",
            Self::ForwardedFrames => "forwarded-frames",
            Self::DroppedFrames => "dropped-frames",
            Self::SlowFrames => "slow-frames",
        }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// The node is cut off: nothing comes in, nothing leaves.
    #[default]
    Isolate,
    /// Its network is deleted.
    Delete,
}

impl Act {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Isolate => "isolate",
            Self::Delete => "delete",
        }
    }
}

/// Guards that are as they must be; whether their networks are there is not asked: those may come and go.
pub(super) fn check(g: &Guard, at: &Way) -> Result<(), Refusal> {
    let refuse = |key, text: &str| Err(Refusal::new(at.key(key), text));
    if !(1..=3600).contains(&g.for_s) {
        return refuse("for_s", &format!("for_s = {}: 1 to 3600 seconds", g.for_s));
    }
    if g.node.is_some() && g.network.is_none() {
        return refuse("node", "a node is one of a network: say of which in 'network'");
    }
    if g.act == Act::Delete && g.network.is_none() {
        let text =
            "act = \"delete\" for whatever network there is: name it in 'network', or isolate";
        return refuse("act", text);
    }
    Ok(())
}
