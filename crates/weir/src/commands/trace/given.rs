//! The frame that is to be traced: from hex digits, or out of a capture.

use crate::fault::bad_input;
use anyhow::Result;
use std::path::Path;
use weir_io::capture_file::{LINKTYPE_ETHERNET, Reader};

/// The longest frame that is read, in bytes.
const LONGEST: usize = 65_535;

/// Reads hex digits; blanks, colons, dots and dashes between them are passed over.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let mut digits = Vec::new();
    for (i, c) in text.chars().enumerate() {
        match c.to_digit(16) {
            Some(d) => digits.push(d as u8),
            None if c.is_whitespace() || ":.-".contains(c) => {}
            None => {
                let at = i + 1;
                return Err(bad_input(format!("--frame: '{c}' at {at} is no hex digit")));
            }
        }
    }
    if digits.is_empty() || digits.len() % 2 != 0 {
        let n = digits.len();
        return Err(bad_input(format!("--frame: {n} hex digits: two make a byte")));
    }
    if digits.len() / 2 > LONGEST {
        return Err(bad_input(format!("--frame: longer than {LONGEST} bytes")));
    }
    Ok(digits.chunks(2).map(|d| d.iter().fold(0, |v, x| v << 4 | x)).collect())
}

/// `FILE` or `FILE:N`; a file that is called so wins.
fn split(text: &str) -> (&str, u64) {
    let numbered = text.rsplit_once(':').and_then(|(f, n)| Some((f, n.parse().ok()?)));
    match numbered {
        Some((file, n)) if !Path::new(text).exists() => (file, n),
        _ => (text, 1),
    }
}

/// The N-th frame of a capture, from 1.
pub fn from_capture(text: &str) -> Result<Vec<u8>> {
    let (file, wanted) = split(text);
    let mut reader = Reader::open(Path::new(file)).map_err(bad_input)?;
    loop {
        let record = reader.next_record().map_err(|e| bad_input(e.in_file(Path::new(file))))?;
        match record {
            Some(r) if r.link_type != LINKTYPE_ETHERNET => {
                let t = r.link_type;
                return Err(bad_input(format!("{file}: link type {t}: only Ethernet is traced")));
            }
            Some(r) => {
                let bytes = r.bytes.to_vec();
                if reader.frames() == wanted {
                    return Ok(bytes);
                }
            }
            None => {
                let n = reader.frames();
                return Err(bad_input(format!(
                    "{file}: no frame {wanted}: it has {n}, numbered from 1"
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_in_any_dress() {
        assert_eq!(from_hex("00 1a:2B.ff-7").ok(), None);
        assert_eq!(from_hex("00 1a:2B.ff-70\n").unwrap(), [0, 0x1a, 0x2b, 0xff, 0x70]);
        for bad in ["", " ", "0", "0g", "0x00"] {
            assert!(from_hex(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_number_behind_the_last_colon() {
        assert_eq!(split("a.pcap"), ("a.pcap", 1));
        assert_eq!(split("a.pcap:17"), ("a.pcap", 17));
        assert_eq!(split("c:dir/a.pcap"), ("c:dir/a.pcap", 1));
    }
}
