//! Requests to an SNMP agent: time-outs, retries, and values that are ours.
//!
//! Touches one UDP socket. An attempt that fails is repeated on a new socket, so that a late answer to
//! the one before is nobody's. What an agent says is bounded: rows of a table, octets of a text.

use super::target::{Access, AuthProtocol, PrivacyProtocol, Target};
use snmp2::{Oid, Pdu, SyncSession, v3};
use std::time::Duration;
use thiserror::Error;

/// Objects in one request: fits a frame.
const AT_ONCE: usize = 16;
/// Rows that are read of a table.
const ROWS: usize = 4096;
/// Octets that are kept of a text.
const TEXT: usize = 1024;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SnmpError {
    /// The socket.
    #[error("SNMP agent {address}: {what}")]
    Socket {
        /// Which agent.
        address: String,
        /// The system's word.
        what: String,
    },
    /// Silence.
    #[error(
        "SNMP agent {address} does not answer ({tries} tries of {wait_ms} ms): is it there, and the \
         community or user right?"
    )]
    NoAnswer {
        /// Which agent.
        address: String,
        /// How often it was asked.
        tries: u32,
        /// How long each time.
        wait_ms: u128,
    },
    /// An answer that is none, or that says no.
    #[error("SNMP agent {address}: {what}")]
    Answer {
        /// Which agent.
        address: String,
        /// What it was.
        what: String,
    },
    /// Not an object identifier.
    #[error("{0:?} is not an object identifier: numbers with dots between")]
    Oid(String),
    /// CPU time from `/proc`.
    #[error("{0}")]
    Process(String),
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `INTEGER`, signed.
    Integer(i64),
    /// `Counter32`, which wraps.
    Counter32(u32),
    /// `Counter64`.
    Counter64(u64),
    /// `Gauge32`, `TimeTicks`.
    Unsigned(u32),
    /// `OCTET STRING`.
    Octets(Vec<u8>),
    /// `OBJECT IDENTIFIER`, as numbers with dots between.
    Oid(String),
    /// Of a type that nothing here needs.
    Other,
}

impl Value {
    /// As a number that is not negative.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Integer(n) => u64::try_from(*n).ok(),
            Self::Counter32(n) | Self::Unsigned(n) => Some(u64::from(*n)),
            Self::Counter64(n) => Some(*n),
            _ => None,
        }
    }

    /// As text, what is not UTF-8 replaced.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Octets(o) => Some(String::from_utf8_lossy(o).into_owned()),
            _ => None,
        }
    }
}

/// Objects and their values, as an agent answers; `None` where it has no such object.
pub type Answers = Vec<(String, Option<Value>)>;

/// The answers in a message; also what a fuzzer asks.
///
/// # Errors
/// Not a message, or of an error: in words.
pub fn decode(message: &[u8]) -> Result<Answers, String> {
    answers(&Pdu::from_bytes(message).map_err(|e| e.to_string())?)
}

fn answers(pdu: &Pdu<'_>) -> Result<Answers, String> {
    if pdu.error_status != 0 {
        // RFC 3416 §3.
        let name = match pdu.error_status {
            1 => "tooBig",
            2 => "noSuchName",
            5 => "genErr",
            6 => "noAccess",
            16 => "authorizationError",
            _ => "error",
        };
        return Err(format!("{name} ({}) for object {}", pdu.error_status, pdu.error_index));
    }
    let one = |(oid, value): (Oid<'_>, snmp2::Value<'_>)| (oid.to_id_string(), ours(&value));
    Ok(pdu.varbinds.clone().take(ROWS).map(one).collect())
}

fn ours(value: &snmp2::Value<'_>) -> Option<Value> {
    use snmp2::Value as V;
    Some(match value {
        V::Integer(n) => Value::Integer(*n),
        V::Counter32(n) => Value::Counter32(*n),
        V::Counter64(n) => Value::Counter64(*n),
        V::Unsigned32(n) | V::Timeticks(n) => Value::Unsigned(*n),
        V::OctetString(o) => Value::Octets(o.iter().copied().take(TEXT).collect()),
        V::ObjectIdentifier(o) => Value::Oid(o.to_id_string()),
        V::NoSuchObject | V::NoSuchInstance | V::EndOfMibView | V::Null => return None,
        _ => Value::Other,
    })
}

/// Reads `1.3.6.1`.
///
/// # Errors
/// [`SnmpError::Oid`].
pub fn oid(text: &str) -> Result<Oid<'static>, SnmpError> {
    let bad = || SnmpError::Oid(text.chars().take(80).collect());
    let numbers: Vec<u64> = text
        .split('.')
        .map(|n| n.parse::<u32>().map(u64::from))
        .collect::<Result<_, _>>()
        .map_err(|_| bad())?;
    // The first two numbers share an octet (X.690 §8.19).
    let fits = matches!(numbers.as_slice(), [0..=1, 0..=39, _, ..] | [2, 0..=47, _, ..]);
    if !fits || numbers.len() > 128 {
        return Err(bad());
    }
    Oid::from(&numbers).map_err(|_| bad())
}

/// A conversation with an agent.
pub struct Client {
    target: Target,
    wait: Duration,
    tries: u32,
    // Boxed: it has a receive buffer of 64 KiB inside.
    session: Option<Box<SyncSession>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Client {
    /// With an agent; nothing is sent yet. An attempt waits for `wait`, and there are `tries`.
    pub fn new(target: Target, wait: Duration, tries: u32) -> Self {
        // A socket takes no time-out of zero.
        Self {
            target,
            wait: wait.max(Duration::from_millis(1)),
            tries: tries.max(1),
            session: None,
        }
    }

    /// The agent's address.
    pub fn address(&self) -> &str {
        &self.target.address
    }

    /// The values of objects, in their order; `None` where the agent has no such object.
    ///
    /// # Errors
    /// [`SnmpError`]: after all tries.
    pub fn get(&mut self, oids: &[Oid<'_>]) -> Result<Vec<Option<Value>>, SnmpError> {
        let mut values = Vec::new();
        for some in oids.chunks(AT_ONCE) {
            let refs: Vec<&Oid<'_>> = some.iter().collect();
            let answers = self.ask(|s| answers_of(s.get_many(&refs)))?;
            // An agent may answer in another order, or leave out.
            values.extend(some.iter().map(|oid| {
                let name = oid.to_id_string();
                answers.iter().find(|a| a.0 == name).and_then(|a| a.1.clone())
            }));
        }
        Ok(values)
    }

    /// The rows of a column: what follows the column in each object's identifier, and its value.
    ///
    /// # Errors
    /// [`SnmpError`], also when the agent goes round in circles or has more than 4096 rows.
    pub fn column(&mut self, column: &Oid<'_>) -> Result<Vec<(String, Value)>, SnmpError> {
        let prefix = format!("{}.", column.to_id_string());
        let mut rows: Vec<(String, Value)> = Vec::new();
        let mut from = column.to_owned();
        loop {
            let answers = self.ask(|s| answers_of(s.getbulk(&[&from], 0, AT_ONCE as u32)))?;
            let before = rows.len();
            for (name, value) in answers {
                let (Some(index), Some(value)) = (name.strip_prefix(&prefix), value) else {
                    return Ok(rows);
                };
                if rows.iter().any(|r| r.0 == index) {
                    return Err(self.answer("its table goes round in circles".into()));
                }
                rows.push((index.to_owned(), value));
            }
            if rows.len() > ROWS {
                return Err(self.answer(format!("more than {ROWS} rows in one table")));
            }
            match rows.last() {
                Some((index, _)) if rows.len() > before => from = oid(&format!("{prefix}{index}"))?,
                _ => return Ok(rows),
            }
        }
    }

    fn answer(&self, what: String) -> SnmpError {
        SnmpError::Answer { address: self.target.address.clone(), what }
    }

    fn ask<T>(
        &mut self,
        request: impl Fn(&mut SyncSession) -> Result<T, Failure>,
    ) -> Result<T, SnmpError> {
        let address = self.target.address.clone();
        let mut heard = None;
        for _ in 0..self.tries {
            let session = match self.session.take() {
                Some(s) => Ok(s),
                None => self.open()?,
            };
            let asked = session.and_then(|mut s| {
                let first = request(&mut s);
                // The agent has told its clock (RFC 3414 §2.3): the same again is understood.
                let answer = match first {
                    Err(Failure(snmp2::Error::AuthUpdated, _)) => request(&mut s),
                    other => other,
                };
                answer.map(|a| (a, s))
            });
            match asked {
                Ok((answer, s)) => {
                    self.session = Some(s);
                    return Ok(answer);
                }
                Err(Failure(snmp2::Error::Receive | snmp2::Error::Send, _)) => (),
                Err(Failure(_, words)) => heard = Some(words),
            }
        }
        match heard {
            Some(what) => Err(SnmpError::Answer { address, what }),
            None => {
                let wait_ms = self.wait.as_millis();
                Err(SnmpError::NoAnswer { address, tries: self.tries, wait_ms })
            }
        }
    }

    /// A session; with v3 the agent's engine is asked for first (RFC 3414 §4).
    fn open(&self) -> Result<Result<Box<SyncSession>, Failure>, SnmpError> {
        let t = &self.target;
        let failed = |e: std::io::Error| SnmpError::Socket {
            address: t.address.clone(),
            what: e.to_string(),
        };
        let wait = Some(self.wait);
        // Where numbers begin says nothing, since each session has a socket of its own.
        let first = 1;
        let opened = match &t.access {
            Access::Community(c) => {
                SyncSession::new_v2c(t.address.as_str(), c.as_bytes(), wait, first)
            }
            user => SyncSession::new_v3(t.address.as_str(), wait, first, security(user)),
        };
        let mut session = Box::new(opened.map_err(failed)?);
        Ok(session.init().map(|()| session).map_err(Failure::of))
    }
}

/// Why an attempt failed, and in words.
struct Failure(snmp2::Error, String);

impl Failure {
    fn of(e: snmp2::Error) -> Self {
        let words = e.to_string();
        Self(e, words)
    }
}

fn answers_of(pdu: Result<Pdu<'_>, snmp2::Error>) -> Result<Answers, Failure> {
    let pdu = pdu.map_err(Failure::of)?;
    answers(&pdu).map_err(|words| Failure(snmp2::Error::AsnWrongType, words))
}

fn security(access: &Access) -> v3::Security {
    let Access::User { name, auth, privacy } = access else { return v3::Security::new(b"", b"") };
    let password = auth.as_ref().map_or(&b""[..], |a| a.password.as_bytes());
    let mut s = v3::Security::new(name.as_bytes(), password);
    if let Some(a) = auth {
        s = s.with_auth_protocol(match a.protocol {
            AuthProtocol::Md5 => v3::AuthProtocol::Md5,
            AuthProtocol::Sha1 => v3::AuthProtocol::Sha1,
            AuthProtocol::Sha256 => v3::AuthProtocol::Sha256,
            AuthProtocol::Sha384 => v3::AuthProtocol::Sha384,
            AuthProtocol::Sha512 => v3::AuthProtocol::Sha512,
        });
    }
    s.with_auth(match (auth, privacy) {
        (None, _) => v3::Auth::NoAuthNoPriv,
        (_, None) => v3::Auth::AuthNoPriv,
        (_, Some(p)) => v3::Auth::AuthPriv {
            cipher: match p.protocol {
                PrivacyProtocol::Des => v3::Cipher::Des,
                PrivacyProtocol::Aes128 => v3::Cipher::Aes128,
            },
            privacy_password: p.password.as_bytes().to_vec(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::UdpSocket;

    #[test]
    fn object_identifiers() {
        assert_eq!(oid("1.3.6.1.2.1.1.1.0").unwrap().to_id_string(), "1.3.6.1.2.1.1.1.0");
        assert!(oid("1.3.4294967295").is_ok());
        for bad in ["", "1", "1.3", "1.3.x", "1..3", "3.1.1", "1.40.1", "1.3.4294967296", "1.3.-1"]
        {
            assert!(oid(bad).is_err(), "{bad}");
        }
        assert!(oid(&"1.".repeat(200)).is_err());
    }

    /// A response of v2c: sysDescr.0 = "x", and an object that there is not.
    const RESPONSE: &[u8] = &[
        0x30, 0x36, 0x02, 0x01, 0x01, 0x04, 0x06, b'p', b'u', b'b', b'l', b'i', b'c', 0xa2, 0x29,
        0x02, 0x01, 0x01, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00, 0x30, 0x1e, 0x30, 0x0d, 0x06, 0x08,
        0x2b, 0x06, 0x01, 0x02, 0x01, 0x01, 0x01, 0x00, 0x04, 0x01, b'x', 0x30, 0x0d, 0x06, 0x09,
        0x2b, 0x06, 0x01, 0x02, 0x01, 0x01, 0x63, 0x00, 0x00, 0x80, 0x00,
    ];

    #[test]
    fn a_response() {
        let a = decode(RESPONSE).unwrap();
        assert_eq!(a[0], ("1.3.6.1.2.1.1.1.0".into(), Some(Value::Octets(b"x".to_vec()))));
        assert_eq!((a.len(), &a[1].1), (2, &None));
        let mut error = RESPONSE.to_vec();
        error[20] = 5;
        assert_eq!(decode(&error).unwrap_err(), "genErr (5) for object 0");
    }

    #[test]
    fn silence_and_garbage_end_in_one_line() {
        let agent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = agent.local_addr().unwrap().to_string();
        let client = |text: &str, tries| {
            Client::new(text.parse().unwrap(), Duration::from_millis(30), tries)
        };
        let name = oid("1.3.6.1.2.1.1.1.0").unwrap();
        let silence = client(&address, 2).get(std::slice::from_ref(&name)).unwrap_err();
        let text = silence.to_string();
        assert!(text.contains("does not answer (2 tries of 30 ms)"), "{text}");

        let answering = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            for _ in 0..4 {
                let (_, from) = agent.recv_from(&mut buffer).unwrap();
                agent.send_to(b"\x30\x03garbage", from).unwrap();
            }
        });
        // The two requests of before, which nobody read, are answered first, to sockets that are gone.
        let mut c = Client::new(address.parse().unwrap(), Duration::from_secs(10), 2);
        let garbage = c.get(&[name]).unwrap_err().to_string();
        assert!(garbage.contains(&address) && !garbage.contains('\n'), "{garbage}");
        answering.join().unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn any_change_of_a_response_is_survived(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = RESPONSE.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = decode(&bytes);
        }

        #[test]
        fn any_text_is_an_oid_or_not(text in "[0-9.x]{0,40}") {
            if let Ok(o) = oid(&text) {
                prop_assert_eq!(oid(&o.to_id_string()).unwrap(), o);
            }
        }
    }
}
