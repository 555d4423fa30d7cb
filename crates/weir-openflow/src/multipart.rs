//! Joins multipart requests that span several messages (1.3 §7.3.5, OFPMPF_REQ_MORE).
//!
//! Room: the framing floor, but over decoded messages: no object is cut in two, so that each part
//! decodes alone. Called by the channel, one [`Joiner`] a connection.
//!
//! Bounded: so many requests at once, so many bytes of them together.

use crate::model::{ErrorCode, Part, StatsRequest};

/// Requests that may be unfinished at once on a connection.
const REQUESTS_MAX: usize = 4;
/// Bytes of messages that unfinished requests may have brought together.
const BYTES_MAX: usize = 512 * 1024;

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
}

impl Joiner {
    /// With nothing unfinished.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a part, whose message had `bytes` bytes; gives the whole request with the last one.
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
    ) -> Result<Option<StatsRequest>, ErrorCode> {
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
            None => Open { xid, bytes: 0, body },
        };
        if more == Part::Last {
            return Ok(Some(open.body));
        }
        open.bytes += bytes;
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
