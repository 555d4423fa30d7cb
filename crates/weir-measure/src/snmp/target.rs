//! Where an SNMP agent is, and as whom it is asked.
//!
//! Pure. Read from the command line (v2c) or from TOML (v2c and v3: passwords don't belong on a command
//! line, where every user of the machine sees them).

use serde::Deserialize;
use std::str::FromStr;
use thiserror::Error;

/// The port of agents (RFC 3430).
pub const PORT: u16 = 161;

/// The shortest password of USM (RFC 3414 §11.2).
const SHORTEST: usize = 8;

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub struct Target {
    /// Host and port.
    pub address: String,
    /// As whom.
    pub access: Access,
}

/// As whom an agent is asked.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// SNMP v2c.
    Community(String),
    /// SNMP v3, user-based (RFC 3414).
    User {
        /// Its name.
        name: String,
        /// How messages are signed; `None`: not at all.
        auth: Option<Secret<AuthProtocol>>,
        /// How they are encrypted; only when signed.
        privacy: Option<Secret<PrivacyProtocol>>,
    },
}

/// A protocol and its password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret<P> {
    /// The protocol.
    pub protocol: P,
    /// The password.
    pub password: String,
}

/// How messages are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthProtocol {
    /// HMAC-MD5-96 (RFC 3414).
    Md5,
    /// HMAC-SHA-96 (RFC 3414).
    Sha1,
    /// HMAC-SHA-256-192 (RFC 7860).
    Sha256,
    /// HMAC-SHA-384-256 (RFC 7860).
    Sha384,
    /// HMAC-SHA-512-384 (RFC 7860).
    Sha512,
}

/// How messages are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrivacyProtocol {
    /// CBC-DES (RFC 3414).
    Des,
    /// CFB128-AES-128 (RFC 3826).
    Aes128,
}

// A target may be printed; a password may not.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Community(_) => f.write_str("Community(…)"),
            Self::User { name, auth, privacy } => f
                .debug_struct("User")
                .field("name", name)
                .field("auth", &auth.as_ref().map(|a| a.protocol))
                .field("privacy", &privacy.as_ref().map(|p| p.protocol))
                .finish(),
        }
    }
}

/// What is wrong with a target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("SNMP target: {0}")]
pub struct BadTarget(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    address: String,
    version: Option<String>,
    community: Option<String>,
    user: Option<String>,
    auth: Option<Secret<AuthProtocol>>,
    privacy: Option<Secret<PrivacyProtocol>>,
}

impl TryFrom<Table> for Target {
    type Error = BadTarget;

    fn try_from(t: Table) -> Result<Self, BadTarget> {
        let bad = |text: &str| Err(BadTarget(text.to_owned()));
        let address = with_port(&t.address)?;
        let three = match t.version.as_deref() {
            None => t.user.is_some(),
            Some("2c") => false,
            Some("3") => true,
            Some(v) => return Err(BadTarget(format!("version {v:?} is not \"2c\" or \"3\""))),
        };
        if !three {
            if t.user.is_some() || t.auth.is_some() || t.privacy.is_some() {
                return bad("user, auth and privacy are version 3's");
            }
            let community = t.community.unwrap_or_else(|| "public".to_owned());
            return Ok(Self { address, access: Access::Community(community) });
        }
        if t.community.is_some() {
            return bad("community is version 2c's");
        }
        let Some(name) = t.user else { return bad("version 3 needs a user") };
        if t.privacy.is_some() && t.auth.is_none() {
            return bad("privacy needs auth, too");
        }
        let auth = t.auth.as_ref().map(|a| &a.password);
        if auth
            .into_iter()
            .chain(t.privacy.as_ref().map(|p| &p.password))
            .any(|p| p.len() < SHORTEST)
        {
            return Err(BadTarget(format!("a password has {SHORTEST} characters or more")));
        }
        Ok(Self { address, access: Access::User { name, auth: t.auth, privacy: t.privacy } })
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    /// `[COMMUNITY@]HOST[:PORT]`: version 2c, `public` unless said.
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let (community, host) = text.rsplit_once('@').unwrap_or(("public", text));
        let address = with_port(host)?;
        Ok(Self { address, access: Access::Community(community.to_owned()) })
    }
}

fn with_port(host: &str) -> Result<String, BadTarget> {
    let bad = || BadTarget(format!("{host:?} is not HOST or HOST:PORT"));
    let bare =
        |h: &str| !h.is_empty() && !h.contains([' ', '/', '@']) && !h.contains(char::is_control);
    if !bare(host) {
        return Err(bad());
    }
    // An IPv6 address stands in brackets when a port follows.
    if let Some(rest) = host.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((_, "")) => Ok(format!("{host}:{PORT}")),
            Some((_, port)) if port.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok()) => {
                Ok(host.to_owned())
            }
            _ => Err(bad()),
        };
    }
    match host.matches(':').count() {
        0 => Ok(format!("{host}:{PORT}")),
        1 => match host.rsplit_once(':') {
            Some((h, p)) if !h.is_empty() && p.parse::<u16>().is_ok() => Ok(host.to_owned()),
            _ => Err(bad()),
        },
        _ => Ok(format!("[{host}]:{PORT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_a_command_line() {
        let address = |t: &str| t.parse::<Target>().map(|t| t.address).ok();
        assert_eq!(address("192.0.2.1").as_deref(), Some("192.0.2.1:161"));
        assert_eq!(address("sw1:1161").as_deref(), Some("sw1:1161"));
        assert_eq!(address("2001:db8::1").as_deref(), Some("[2001:db8::1]:161"));
        assert_eq!(address("[2001:db8::1]:99").as_deref(), Some("[2001:db8::1]:99"));
        for bad in ["", "a b", ":1", "h:x", "h:99999", "[::1", "[::1]x", "c@"] {
            assert_eq!(address(bad), None, "{bad}");
        }
        let t: Target = "se@cret@192.0.2.1".parse().unwrap();
        assert_eq!(t.access, Access::Community("se@cret".into()));
        assert!(!format!("{t:?}").contains("cret"), "{t:?}");
    }

    #[test]
    fn from_toml() {
        let read = |text: &str| toml::from_str::<Target>(text).map_err(|e| e.to_string());
        let full = "address = 'sw'\nuser = 'u'\nauth = { protocol = 'sha256', password = 'longenough' }\n\
                    privacy = { protocol = 'aes128', password = 'longenough' }";
        let t = read(full).unwrap();
        assert!(matches!(&t.access, Access::User { privacy: Some(_), .. }), "{t:?}");
        assert!(!format!("{t:?}").contains("longenough"));
        for (text, why) in [
            ("address = 'sw'\nversion = '1'", "is not \"2c\" or \"3\""),
            ("address = 'sw'\nversion = '3'", "version 3 needs a user"),
            ("address = 'sw'\nversion = '2c'\nuser = 'u'", "are version 3's"),
            ("address = 'sw'\nuser = 'u'\ncommunity = 'c'", "community is version 2c's"),
            (
                "address = 'sw'\nuser = 'u'\nprivacy = { protocol = 'des', password = 'longenough' }",
                "needs auth",
            ),
            (
                "address = 'sw'\nuser = 'u'\nauth = { protocol = 'md5', password = 'short' }",
                "8 characters",
            ),
            (
                "address = 'sw'\nuser = 'u'\nauth = { protocol = 'sha0', password = 'x' }",
                "unknown variant",
            ),
            ("address = 'sw'\ncomunity = 'c'", "unknown field `comunity`"),
        ] {
            let e = read(text).unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
