//! Fields that a VDP defines itself (003, §3.2), so that a protocol nobody foresaw can be matched.
//!
//! Room: the mapping stage calls [`UserFields::extract`] after [`crate::extract`], and whoever
//! changes a frame calls it again with the key. Definitions come from configuration and are checked
//! there, once. Any bytes are allowed.
//!
//! A field is a run of at most 32 bits at a fixed place behind the beginning of a layer. A frame
//! *has* the field when the layer is there and every byte of the field lies inside it; then its
//! bits are in `Field::User0` (or 1, 2, 3) and its bit in `Field::UserPresent` is set. Otherwise
//! both are zero. Rules read from text demand the presence bit with the value
//! ([`UserFields::demand`] does the same for rules made otherwise), so a frame too short for the
//! field never matches, not even a rule that asks for zero.

use crate::packet::{Layers, Net};
use thiserror::Error;
use weir_classify::{Field, FlowKey, FlowMask, Match, ones};

/// How many fields of its own a VDP can have.
pub const USER_FIELDS: usize = 4;

const SLOTS: [Field; USER_FIELDS] = [Field::User0, Field::User1, Field::User2, Field::User3];

/// From where a field's offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The frame's first byte. Always there.
    Ethernet,
    /// The byte behind Ethernet header and VLAN tags, whatever follows. Ends with the datagram
    /// where it is IPv4 or IPv6, with the frame elsewhere. Always there.
    Network,
    /// The byte behind IPv4's header with its options, or IPv6's with its extension headers,
    /// whatever the protocol. Not there in later fragments, nor behind ESP.
    Transport,
    /// The byte behind the header of TCP (with options), UDP (8 bytes), SCTP (12) or ICMP and
    /// ICMPv6 (8). Not there behind other protocols.
    Payload,
}

impl Layer {
    /// The layer called `name`: `ethernet`, `network`, `transport` or `payload`.
    pub fn by_name(name: &str) -> Option<Layer> {
        [Layer::Ethernet, Layer::Network, Layer::Transport, Layer::Payload]
            .into_iter()
            .find(|l| l.name() == name)
    }
    /// Its name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Ethernet => "ethernet",
            Layer::Network => "network",
            Layer::Transport => "transport",
            Layer::Payload => "payload",
        }
    }
}

/// One field of a VDP's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserField {
    name: String,
    layer: Layer,
    offset_bytes: u16,
    skip_bits: u8,
    width_bits: u8,
    mask: u32,
}

/// A definition that makes no field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UserFieldError {
    /// The name is not one that the flow syntax can read.
    #[error(
        "user field '{name}': a name is 1 to 32 letters, digits and '_', with a letter in front"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The name means something else already.
    #[error("user field '{name}': the name is taken; choose another")]
    Taken {
        /// The name.
        name: String,
    },
    /// Not 1 to 32 bits.
    #[error("user field '{name}': a width of {width_bits} bits; it is 1 to 32")]
    Width {
        /// The name.
        name: String,
        /// The width asked for.
        width_bits: u8,
    },
    /// More bits are skipped than a byte has.
    #[error(
        "user field '{name}': {skip_bits} bits are skipped; skip 0 to 7, and whole bytes by the \
         offset"
    )]
    Skip {
        /// The name.
        name: String,
        /// The number asked for.
        skip_bits: u8,
    },
    /// The mask is zero or has bits that the field has not.
    #[error("user field '{name}': a mask of {mask:#x} for {width_bits} bits")]
    Mask {
        /// The name.
        name: String,
        /// The mask asked for.
        mask: u32,
        /// The field's width.
        width_bits: u8,
    },
    /// A fifth field.
    #[error("user field '{name}': a VDP has at most {USER_FIELDS} fields of its own")]
    TooMany {
        /// The name of the first that is too many.
        name: String,
    },
}

impl UserField {
    /// A field of `width_bits` bits that begins `skip_bits` behind the most significant bit of the
    /// byte `offset_bytes` of `layer`. Its value is those bits, right-aligned, under `mask`
    /// (`None`: all of them).
    ///
    /// # Errors
    /// [`UserFieldError`] naming the field and what is wrong.
    pub fn new(
        name: &str,
        layer: Layer,
        offset_bytes: u16,
        skip_bits: u8,
        width_bits: u8,
        mask: Option<u32>,
    ) -> Result<Self, UserFieldError> {
        let named = || name.to_owned();
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        if !plain || !begins || name.len() > 32 {
            return Err(UserFieldError::Name { name: named() });
        }
        if !(1..=32).contains(&width_bits) {
            return Err(UserFieldError::Width { name: named(), width_bits });
        }
        if skip_bits > 7 {
            return Err(UserFieldError::Skip { name: named(), skip_bits });
        }
        let all = ones(width_bits.into()) as u32;
        let mask = mask.unwrap_or(all);
        if mask == 0 || mask & !all != 0 {
            return Err(UserFieldError::Mask { name: named(), mask, width_bits });
        }
        Ok(Self { name: named(), layer, offset_bytes, skip_bits, width_bits, mask })
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The layer it counts from.
    pub fn layer(&self) -> Layer {
        self.layer
    }
    /// Bytes between the layer's first and the field's first.
    pub fn offset_bytes(&self) -> u16 {
        self.offset_bytes
    }
    /// Bits of its first byte in front of it.
    pub fn skip_bits(&self) -> u8 {
        self.skip_bits
    }
    /// Its width.
    pub fn width_bits(&self) -> u8 {
        self.width_bits
    }
    /// Which of its bits count.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The value in `layer`'s bytes, if it lies wholly inside.
    #[inline]
    fn read(&self, layer: &[u8]) -> Option<u32> {
        let bits = usize::from(self.skip_bits) + usize::from(self.width_bits);
        let from = usize::from(self.offset_bytes);
        let bytes = layer.get(from..from + bits.div_ceil(8))?;
        // At most 39 bits, so five bytes.
        let all = bytes.iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
        let value = all >> (bytes.len() * 8 - bits);
        Some(value as u32 & ones(self.width_bits.into()) as u32 & self.mask)
    }
}

/// The fields of one VDP, at most [`USER_FIELDS`], in the order of `Field::User0` and on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFields(Vec<UserField>);

impl UserFields {
    /// No fields.
    pub fn none() -> &'static UserFields {
        static NONE: UserFields = UserFields(Vec::new());
        &NONE
    }
    /// These fields.
    ///
    /// # Errors
    /// [`UserFieldError::TooMany`], or [`UserFieldError::Taken`] for a name given twice or one that
    /// the flow syntax has already.
    pub fn new(fields: Vec<UserField>) -> Result<Self, UserFieldError> {
        if let Some(f) = fields.get(USER_FIELDS) {
            return Err(UserFieldError::TooMany { name: f.name.clone() });
        }
        for (i, f) in fields.iter().enumerate() {
            let twice = fields.iter().take(i).any(|g| g.name == f.name);
            if twice || crate::flowtext::is_reserved(&f.name) {
                return Err(UserFieldError::Taken { name: f.name.clone() });
            }
        }
        Ok(Self(fields))
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The fields with the key's field that holds each.
    pub fn iter(&self) -> impl Iterator<Item = (Field, &UserField)> {
        SLOTS.into_iter().zip(&self.0)
    }
    /// The field called `name`.
    pub fn by_name(&self, name: &str) -> Option<(Field, &UserField)> {
        self.iter().find(|(_, f)| f.name == name)
    }
    /// The definition behind one of the key's fields.
    pub fn get(&self, slot: Field) -> Option<&UserField> {
        self.iter().find(|(s, _)| *s == slot).map(|(_, f)| f)
    }

    /// Whether a rule with this mask looks at any VDP's own field.
    pub fn looked_at(mask: &FlowMask) -> bool {
        mask.looks_at(Field::UserPresent) || SLOTS.iter().any(|s| mask.looks_at(*s))
    }
    /// `matcher`, demanding also that the frame has the field in `slot` and that it equals `value`
    /// under `mask`. Other key fields than `User0` to `User3` are demanded as they are.
    #[must_use]
    pub fn demand(matcher: Match, slot: Field, value: u32, mask: u32) -> Match {
        let matcher = matcher.with_masked(slot, value.into(), mask.into());
        let Some(i) = SLOTS.iter().position(|s| *s == slot) else { return matcher };
        let there = 1u128 << i;
        let (v, m) = (matcher.value(), matcher.mask());
        let (v, m) = (v.get(Field::UserPresent) | there, m.get(Field::UserPresent) | there);
        matcher.with_masked(Field::UserPresent, v, m)
    }

    /// Writes the values and the presence bits of all fields into `key`. `layers` is what
    /// [`crate::extract`] says of `bytes`.
    #[inline]
    pub fn extract(&self, bytes: &[u8], layers: &Layers, key: &mut FlowKey) {
        if self.0.is_empty() {
            return;
        }
        let (transport, payload) = deeper(bytes, layers);
        let mut present = 0;
        for (i, (slot, field)) in self.iter().enumerate() {
            let layer = match field.layer {
                Layer::Ethernet => Some(bytes),
                Layer::Network => network(bytes, layers),
                Layer::Transport => transport,
                Layer::Payload => payload,
            };
            let value = layer.and_then(|l| field.read(l));
            present |= u128::from(value.is_some()) << i;
            key.set(slot, value.unwrap_or(0).into());
        }
        key.set(Field::UserPresent, present);
    }
}

/// The network layer, without the padding behind an IP datagram.
fn network<'a>(bytes: &'a [u8], layers: &Layers) -> Option<&'a [u8]> {
    let net = bytes.get(usize::from(layers.l3)..)?;
    let length = match layers.net {
        Net::Ipv4 => usize::from(be16(net, 2)?),
        Net::Ipv6 => 40 + usize::from(be16(net, 4)?),
        Net::Other | Net::Arp | Net::Mpls => net.len(),
    };
    Some(net.get(..length).unwrap_or(net))
}

/// The transport layer and the payload, where they are.
fn deeper<'a>(bytes: &'a [u8], layers: &Layers) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let Some(net) = network(bytes, layers) else { return (None, None) };
    let begin = match layers.net {
        Net::Ipv4 => ipv4_header(net),
        Net::Ipv6 => ipv6_headers(net),
        Net::Other | Net::Arp | Net::Mpls => None,
    };
    let Some(transport) = begin.and_then(|n| net.get(n..)) else { return (None, None) };
    // `l4` is zero where the header is cut short: then nothing can lie behind it.
    let header = match layers.proto {
        _ if layers.l4 == 0 => None,
        6 => transport.get(12).map(|b| usize::from(b >> 4) * 4).filter(|n| *n >= 20),
        17 | 1 | 58 => Some(8),
        132 => Some(12),
        _ => None,
    };
    (Some(transport), header.and_then(|n| transport.get(n..)))
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

/// Length of an IPv4 header, unless the datagram is a later fragment.
fn ipv4_header(net: &[u8]) -> Option<usize> {
    let first = be16(net, 6)? & 0x1fff == 0;
    first.then_some(usize::from(net.first()? & 15) * 4)
}

/// Length of an IPv6 header with its extension headers (RFC 8200, §4), unless the datagram is a
/// later fragment or encrypted. Each turn moves on by at least 8 bytes.
fn ipv6_headers(net: &[u8]) -> Option<usize> {
    let (mut next, mut at) = (*net.get(6)?, 40);
    loop {
        let size = match next {
            0 | 43 | 60 => (usize::from(*net.get(at + 1)?) + 1) * 8,
            51 => (usize::from(*net.get(at + 1)?) + 2) * 4,
            44 if be16(net, at + 2)? & 0xfff8 != 0 => return None,
            44 => 8,
            50 | 59 => return None,
            _ => return Some(at),
        };
        next = *net.get(at)?;
        at += size;
    }
}
