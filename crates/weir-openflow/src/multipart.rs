//! Joins multipart requests that span several messages (1.3 §7.3.5, OFPMPF_REQ_MORE).
//!
//! Room: the framing floor, but over decoded messages: no object is cut in two, so that each part
//! decodes alone. Called by the channel, one [`Joiner`] a connection.
//!
//! Bounded: so many requests at once, so many bytes of them together, and each for a while: the rest of
//! one whose end never comes is not waited for. (Open vSwitch gives a request a second; the error for
//! it, MULTIPART_REQUEST_TIMEOUT, is of 1.4.)

use crate::model::{ErrorCode, Part, StatsRequest};
use core::time::Duration;

/// Requests that may be unfinished at once on a connection.
const REQUESTS_MAX: usize = 4;
/// Bytes of messages that unfinished requests may have brought together.
const BYTES_MAX: usize = 512 * 1024;

/// For how long a request may be unfinished without another part.
const PATIENCE: Duration = Duration::from_secs(10);

/// The unfinished requests of a connection.
#[derive(Debug, Default)]
pub struct Joiner {
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    xid: u32,
    bytes: usize,
    body: StatsRequest,
    /// When its latest part came.
    at: Duration,
}

impl Joiner {
    /// With nothing unfinished.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a part, whose message had `bytes` bytes, at a time since any fixed moment; gives the whole request with the last one.
    ///
    /// # Errors
    /// MULTIPART_BUFFER_OVERFLOW where too much is unfinished, BAD_MULTIPART where parts of one
    /// request differ in type. The request is forgotten then.
    pub fn join(
        &mut self,
        xid: u32,
        more: Part,
        body: StatsRequest,
        bytes: usize,
        now: Duration,
    ) -> Result<Option<StatsRequest>, ErrorCode> {
        self.open.retain(|o| o.xid == xid || now.saturating_sub(o.at) < PATIENCE);
        let found = self.open.iter().position(|o| o.xid == xid);
        if found.is_none() && more == Part::Last {
            return Ok(Some(body));
        }
        let mut open = match found {
            Some(at) => {
                let mut open = self.open.swap_remove(at);
                append(&mut open.body, body)?;
                open
            }
            None => Open { xid, bytes: 0, body, at: now },
        };
        if more == Part::Last {
            return Ok(Some(open.body));
        }
        open.bytes += bytes;
        open.at = now;
        let all: usize = self.open.iter().map(|o| o.bytes).sum::<usize>() + open.bytes;
        if self.open.len() == REQUESTS_MAX || all > BYTES_MAX {
            return Err(ErrorCode::MultipartBufferOverflow);
        }
        self.open.push(open);
        Ok(None)
    }
}

fn append(whole: &mut StatsRequest, part: StatsRequest) -> Result<(), ErrorCode> {
    use StatsRequest::{Experimenter, TableFeatures};
    match (whole, part) {
        (TableFeatures(all), TableFeatures(more)) => all.extend(more),
        (
            Experimenter { experimenter, kind, data },
            Experimenter { experimenter: e, kind: k, data: more },
        ) if *experimenter == e && *kind == k => data.extend(more),
        // Requests with a body of fixed size: the parts behind the first say the same again.
        (whole, part) if *whole == part => {}
        _ => return Err(ErrorCode::BadMultipart),
    }
    Ok(())
}
