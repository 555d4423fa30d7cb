//! A user's description of data traffic, for the loads of any module: when frames leave, of what sizes, with
//! which headers.
//!
//! Pure but for the capture that it may name. Text in (TOML), validated; put on each [`Load`] that a module
//! begins. A module whose question depends on sizes or headers leaves less to the user: [`super::Leaves`] in its
//! [`About`], held against the description before anything is measured. Read by the binary; `docs/guide/measure.md` has the keys.

use super::About;
use super::load::{Leaves, Load, Recording, Shape};
use crate::probe::{FCS_BYTES, Headers};
use crate::schedule::Random;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use weir_io::capture_file::{LINKTYPE_ETHERNET, Reader};
use weir_wire::{MacAddr, VlanRepr};

/// The longest sequence of sizes, and the most flows.
const MOST: usize = 65_536;
/// The most frames and bytes of a capture that are played.
const MOST_FRAMES: usize = 1 << 22;
const MOST_BYTES: usize = 1 << 30;

/// Why a description can't be followed: one line, what and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("traffic: {0}")]
pub struct BadTraffic(String);

fn bad<T>(why: impl Into<String>) -> Result<T, BadTraffic> {
    Err(BadTraffic(why.into()))
}

/// When frames leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Times {
    #[default]
    Even,
    Poisson,
    Bursts,
    Replay,
}

/// What of a capture is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    /// Probes, at its times and of its sizes.
    #[default]
    Probes,
    /// Its frames as they are, which nothing recognises afterwards.
    Captured,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "sizes in bytes, \"imix\", or letters of RFC 6985")]
enum Sizes {
    List(Vec<usize>),
    Word(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a number or a text")]
enum Value {
    Number(u64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vary {
    field: Field,
    /// The first value of a range.
    from: Option<Value>,
    #[serde(default)]
    step: Option<u64>,
    values: Option<Vec<Value>>,
    /// Of random values.
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Field {
    EthSrc,
    EthDst,
    VlanVid,
    VlanPcp,
    Ipv4Src,
    Ipv4Dst,
    UdpSrc,
    UdpDst,
    Ttl,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    times: Times,
    seed: u64,
    burst: Option<u64>,
    catch_up: Option<u64>,
    capture: Option<String>,
    speed: Option<f64>,
    content: Content,
    sizes: Option<Sizes>,
    flows: Option<usize>,
    vary: Vec<Vary>,
}

/// A description.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    file: File,
    text: String,
    sizes: Vec<usize>,
    recording: Option<Arc<Recording>>,
    /// Frames a second of the recording, as fast as it is to be played.
    fps: Option<f64>,
    /// Frames of which the capture holds a part only.
    cut: usize,
}

impl Traffic {
    /// From a TOML text.
    ///
    /// # Errors
    /// A key or a value that can't be, with its line; a capture that can't be read.
    pub fn read(text: &str) -> Result<Self, BadTraffic> {
        let file: File = toml::from_str(text).map_err(|e| {
            let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            BadTraffic(format!("line {line}: {}", e.message().replace('\n', " ")))
        })?;
        let mut this = Self {
            sizes: Vec::new(),
            recording: None,
            fps: None,
            cut: 0,
            text: text.trim().replace('\n', "; "),
            file,
        };
        this.check()?;
        if let Some(path) = this.file.capture.clone() {
            this.record(Path::new(&path))?;
        }
        Ok(this)
    }

    /// As it was given, in one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn check(&mut self) -> Result<(), BadTraffic> {
        let f = &self.file;
        self.sizes = match &f.sizes {
            None => Vec::new(),
            Some(Sizes::List(all)) => all.clone(),
            Some(Sizes::Word(w)) if w == "imix" => imix(),
            Some(Sizes::Word(w)) => genome(w)?,
        };
        if f.sizes.is_some() && self.sizes.is_empty() || self.sizes.len() > MOST {
            return bad("'sizes' must be 1 to 65536 sizes");
        }
        if let Some(size) = self.sizes.iter().find(|s| !(64..=1518).contains(*s)) {
            return bad(format!(
                "a size of {size} bytes: give 64 to 1518, check sequence included"
            ));
        }
        match (f.times, f.capture.is_some()) {
            (Times::Replay, false) => {
                return bad("times = \"replay\" needs 'capture': a pcap file");
            }
            (Times::Replay, true) => {}
            (_, true) => return bad("'capture' is played with times = \"replay\" only"),
            (_, false) => {}
        }
        if f.times != Times::Replay && (f.speed.is_some() || f.content == Content::Captured) {
            return bad("'speed' and 'content' are for times = \"replay\" only");
        }
        if f.speed.is_some_and(|s| !(1e-6..=1e6).contains(&s)) {
            return bad("'speed' must be 0.000001 to 1000000");
        }
        match (f.times, f.burst) {
            (Times::Bursts, Some(2..=1_000_000)) | (Times::Even | Times::Poisson, None) => {}
            (Times::Replay, None) => {}
            (Times::Bursts, _) => {
                return bad(
                    "times = \"bursts\" needs 'burst': 2 to 1000000 frames that leave together",
                );
            }
            _ => return bad("'burst' is for times = \"bursts\" only"),
        }
        if f.catch_up.is_some_and(|n| !(1..=1_000_000).contains(&n)) {
            return bad("'catch_up' must be 1 to 1000000 frames");
        }
        if f.flows.is_some_and(|n| !(1..=MOST).contains(&n)) {
            return bad("'flows' must be 1 to 65536");
        }
        if f.content == Content::Captured && (f.sizes.is_some() || !f.vary.is_empty()) {
            return bad(
                "captured frames have their own sizes and headers: leave out 'sizes' and 'vary'",
            );
        }
        for v in &f.vary {
            v.check()?;
        }
        // That each value can be.
        self.flows(&Headers::default()).map(drop)
    }

    fn record(&mut self, path: &Path) -> Result<(), BadTraffic> {
        let at = |e: &dyn std::fmt::Display| BadTraffic(format!("{}: {e}", path.display()));
        let mut reader = Reader::open(path).map_err(|e| at(&e))?;
        let (mut times, mut frames, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut sizes = Vec::new();
        let mut first = None;
        while let Some(packet) = reader.next_record().map_err(|e| at(&e))? {
            if packet.link_type != LINKTYPE_ETHERNET {
                return Err(at(&"it holds other frames than Ethernet's"));
            }
            bytes += packet.bytes.len();
            self.cut += usize::from(packet.is_cut());
            if times.len() >= MOST_FRAMES || bytes > MOST_BYTES {
                return Err(at(&"more than 4 million frames or a gigabyte: play a part of it"));
            }
            let stamp = packet.stamp.map_or(0, |s| s.0);
            let since = stamp.saturating_sub(*first.get_or_insert(stamp));
            // A capture's clock may go back; a schedule can't.
            times.push(since.max(times.last().copied().unwrap_or(0)));
            sizes.push((packet.original_len as usize).saturating_add(FCS_BYTES).clamp(64, 1518));
            frames.push(packet.bytes.to_vec());
        }
        if times.is_empty() {
            return Err(at(&"no frame in it"));
        }
        let speed = self.file.speed.unwrap_or(1.0);
        times.iter_mut().for_each(|t| *t = (*t as f64 / speed) as u64);
        let last = times.last().copied().unwrap_or(0).max(1);
        self.fps = Some((times.len().max(2) - 1) as f64 * 1e9 / last as f64);
        if self.file.content == Content::Probes {
            // As many in turn as a load takes.
            sizes.truncate(MOST);
            if self.sizes.is_empty() {
                self.sizes = sizes;
            }
            frames.clear();
        }
        self.recording = Some(Arc::new(Recording { times: times.into(), frames }));
        Ok(())
    }

    /// What of a load it speaks of.
    fn speaks_of(&self) -> Leaves {
        let f = &self.file;
        match (f.content, f.vary.is_empty(), &f.sizes) {
            (Content::Captured, ..) => Leaves::All,
            (_, false, _) => Leaves::Headers,
            (_, _, Some(_)) => Leaves::Sizes,
            _ => Leaves::Times,
        }
    }

    /// Whether a module's loads can be so.
    ///
    /// # Errors
    /// It speaks of what the module does not leave to it.
    pub fn suits(&self, about: &About) -> Result<(), BadTraffic> {
        if self.speaks_of() <= about.leaves {
            return Ok(());
        }
        let all = [("sizes", Leaves::Sizes), ("vary", Leaves::Headers), ("content", Leaves::All)];
        let given = |of| match of {
            Leaves::Sizes => self.file.sizes.is_some(),
            Leaves::Headers => !self.file.vary.is_empty(),
            _ => self.file.content == Content::Captured,
        };
        let over = all.iter().filter(|(_, of)| *of > about.leaves && given(*of));
        let names: Vec<_> = over.map(|(name, _)| format!("'{name}'")).collect();
        bad(format!(
            "of {}'s loads a description may change {}: leave out {}",
            about.name,
            about.leaves.words(),
            names.join(" and ")
        ))
    }

    /// Sizes that frames have one after the other; none: the module's own.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Frames a second of a capture that is played.
    pub fn pace(&self) -> Option<f64> {
        self.fps
    }

    /// Whether frames are sent as they were captured.
    fn is_captured(&self) -> bool {
        self.file.content == Content::Captured
    }

    /// What whoever reads a result must know of frames that are sent as they were captured.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Some(recording) = self.recording.as_ref().filter(|_| self.is_captured()) else {
            return Vec::new();
        };
        let mut all = vec![
            "Frames were sent as they were captured, and no module recognises such: none of them counts as received. With content = \"probes\" probes go at the capture's times and of its sizes.".to_owned(),
        ];
        if self.cut > 0 {
            all.push(format!(
                "{} of {} frames of the capture were cut when they were captured (snaplen), and were sent shortened.",
                self.cut,
                recording.times.len()
            ));
        }
        all
    }

    /// Puts it on a load of a module that leaves so much to it.
    ///
    /// # Errors
    /// Its headers can't be.
    pub fn put_on(&self, load: &mut Load, leaves: Leaves) -> Result<(), BadTraffic> {
        let f = &self.file;
        match f.times {
            Times::Even => {}
            Times::Poisson => load.shape = Shape::Poisson(f.seed),
            Times::Bursts => load.burst = f.burst.unwrap_or(1),
            Times::Replay => {
                if let (Some(r), Some(fps)) = (&self.recording, self.fps) {
                    load.shape = Shape::Recorded(Arc::clone(r));
                    load.fps = fps;
                }
            }
        }
        if let Some(frames) = f.catch_up {
            (load.backlog, load.owed) = (frames, Duration::ZERO);
        }
        if leaves >= Leaves::Sizes && !self.sizes.is_empty() {
            load.sizes.clone_from(&self.sizes);
        }
        if leaves >= Leaves::Headers
            && let (false, Some(base)) = (f.vary.is_empty(), load.flows.first())
        {
            load.flows = self.flows(base)?;
        }
        Ok(())
    }

    fn flows(&self, base: &Headers) -> Result<Vec<Headers>, BadTraffic> {
        let longest = self.file.vary.iter().filter_map(|v| Some(v.values.as_ref()?.len())).max();
        let count = self.file.flows.or(longest).unwrap_or(1).clamp(1, MOST);
        (0..count as u64)
            .map(|n| {
                let mut h = *base;
                for v in &self.file.vary {
                    v.put_on(&mut h, n)?;
                }
                Ok(h)
            })
            .collect()
    }
}

/// Seven of 64, four of 594, one of 1518 bytes, spread: what most call IMIX.
fn imix() -> Vec<usize> {
    vec![64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 64, 594]
}

/// RFC 6985: a letter for each frame.
fn genome(letters: &str) -> Result<Vec<usize>, BadTraffic> {
    let size = |c| match c {
        'a' => Ok(64),
        'b' => Ok(128),
        'c' => Ok(256),
        'd' => Ok(512),
        'e' => Ok(1024),
        'f' => Ok(1280),
        'g' => Ok(1518),
        other => {
            bad(format!("'{other}' is no frame size of RFC 6985: give letters a to g, or \"imix\""))
        }
    };
    letters.chars().take(MOST + 1).map(size).collect()
}

impl Vary {
    fn check(&self) -> Result<(), BadTraffic> {
        let field = self.field;
        let ways = [self.from.is_some(), self.values.is_some(), self.seed.is_some()];
        if ways.iter().filter(|w| **w).count() != 1 {
            return bad(format!("{field:?} varies by one of 'from', 'values' and 'seed'"));
        }
        if self.step.is_some() && self.from.is_none() {
            return bad(format!("{field:?}: 'step' goes with 'from'"));
        }
        if self.values.as_ref().is_some_and(|v| v.is_empty() || v.len() > MOST) {
            return bad(format!("{field:?}: give 1 to 65536 'values'"));
        }
        Ok(())
    }

    /// The field's value in the n-th flow.
    fn put_on(&self, h: &mut Headers, n: u64) -> Result<(), BadTraffic> {
        let bits = self.field.bits();
        let mask = u64::MAX >> (64 - bits);
        let value = if let Some(from) = &self.from {
            let step = self.step.unwrap_or(1);
            self.field.number(from)?.wrapping_add(n.wrapping_mul(step)) & mask
        } else if let Some(all) = &self.values {
            match all.get((n % all.len().max(1) as u64) as usize) {
                Some(v) => self.field.number(v)?,
                None => return Ok(()),
            }
        } else {
            // The n-th of a sequence, without going through it.
            let seed = self.seed.unwrap_or(0);
            Random::new(seed ^ n.wrapping_mul(0x2545_f491_4f6c_dd1d)).next_u64() & mask
        };
        self.field.set(h, value);
        Ok(())
    }
}

impl Field {
    fn bits(self) -> u32 {
        match self {
            Self::EthSrc | Self::EthDst => 48,
            Self::VlanVid => 12,
            Self::VlanPcp => 3,
            Self::Ipv4Src | Self::Ipv4Dst => 32,
            Self::UdpSrc | Self::UdpDst => 16,
            Self::Ttl => 8,
        }
    }

    /// A value as a number: as it is, or in the field's own notation.
    fn number(self, v: &Value) -> Result<u64, BadTraffic> {
        let n = match v {
            Value::Number(n) => Some(*n),
            Value::Text(t) => match self {
                Self::EthSrc | Self::EthDst => mac(t),
                Self::Ipv4Src | Self::Ipv4Dst => {
                    t.parse::<Ipv4Addr>().ok().map(|a| u64::from(a.to_bits()))
                }
                _ => t.parse().ok(),
            },
        };
        n.filter(|n| n >> self.bits() == 0)
            .map_or_else(|| bad(format!("{self:?} can't be {v:?}")), Ok)
    }

    fn set(self, h: &mut Headers, v: u64) {
        let [.., a, b, c, d, e, f] = v.to_be_bytes();
        let mac = MacAddr([a, b, c, d, e, f]);
        let address = |s: &mut SocketAddrV4| s.set_ip(Ipv4Addr::from_bits(v as u32));
        let tag = h.vlan.unwrap_or(VlanRepr::dot1q(1));
        match self {
            // Neither a group's nor broadcast: no device learns or forwards such a source.
            Self::EthSrc => h.src_mac = MacAddr([a & 0xfe, b, c, d, e, f]),
            Self::EthDst => h.dst_mac = mac,
            Self::VlanVid => h.vlan = Some(VlanRepr { vid: v as u16, ..tag }),
            Self::VlanPcp => h.vlan = Some(VlanRepr { pcp: v as u8, ..tag }),
            Self::Ipv4Src => address(&mut h.src),
            Self::Ipv4Dst => address(&mut h.dst),
            Self::UdpSrc => h.src.set_port(v as u16),
            Self::UdpDst => h.dst.set_port(v as u16),
            Self::Ttl => h.ttl = v as u8,
        }
    }
}

fn mac(text: &str) -> Option<u64> {
    let parts: Vec<_> = text.split(':').collect();
    let byte = |n: u64, p: &&str| {
        (p.len() == 2).then_some(())?;
        Some(n << 8 | u64::from(u8::from_str_radix(p, 16).ok()?))
    };
    (parts.len() == 6).then(|| parts.iter().try_fold(0, byte)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn free(text: &str) -> Load {
        let t = Traffic::read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut load = Load::new(0, Headers::default(), 100, 1e4);
        t.put_on(&mut load, Leaves::All).unwrap();
        load
    }

    #[test]
    fn descriptions_are_put_on_loads() {
        assert_eq!(free("times = \"poisson\"\nseed = 4").shape, Shape::Poisson(4));
        assert_eq!(free("times = \"bursts\"\nburst = 40").burst, 40);
        assert_eq!(free("catch_up = 3").backlog, 3);
        let imix = free("sizes = \"imix\"").sizes;
        let of = |n| imix.iter().filter(|s| **s == n).count();
        assert_eq!((of(64), of(594), of(1518), imix.len()), (7, 4, 1, 12));
        assert_eq!(free("sizes = \"aag\"").sizes, [64, 64, 1518]);
        assert_eq!(free("sizes = [64, 100]").sizes, [64, 100]);
    }

    #[test]
    fn headers_vary_by_range_list_and_seed() {
        let l = free(
            "flows = 300\n[[vary]]\nfield = \"ipv4_src\"\nfrom = \"10.0.0.250\"\nstep = 2\n\
             [[vary]]\nfield = \"udp_dst\"\nvalues = [1, 2, 3]\n\
             [[vary]]\nfield = \"eth_src\"\nseed = 9\n\
             [[vary]]\nfield = \"vlan_vid\"\nfrom = 4095\n",
        );
        assert_eq!(l.flows.len(), 300);
        assert_eq!(l.flows[3].src.ip(), &Ipv4Addr::new(10, 0, 1, 0));
        assert_eq!(l.flows.iter().take(4).map(|h| h.dst.port()).collect::<Vec<_>>(), [1, 2, 3, 1]);
        let macs: std::collections::BTreeSet<_> = l.flows.iter().map(|h| h.src_mac.0).collect();
        assert_eq!(macs.len(), 300);
        assert!(macs.iter().all(|m| m[0] & 1 == 0));
        assert_eq!((l.flows[0].vlan.unwrap().vid, l.flows[1].vlan.unwrap().vid), (4095, 0));
        let list = free("[[vary]]\nfield = \"eth_dst\"\nvalues = [\"02:00:00:00:00:0a\", 11]");
        assert_eq!(list.flows.len(), 2);
        assert_eq!(list.flows[1].dst_mac.0, [0, 0, 0, 0, 0, 11]);
    }

    #[test]
    fn a_capture_gives_times_sizes_or_frames() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.pcap");
        // Written as by hand: little endian, microseconds, Ethernet.
        let mut b = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
            b.extend(word.to_le_bytes());
        }
        for (us, len, was) in [(10u32, 60usize, 60), (30, 200, 1_000), (110, 60, 60)] {
            for word in [7, us, len as u32, was] {
                b.extend(word.to_le_bytes());
            }
            b.extend(vec![len as u8; len]);
        }
        std::fs::write(&path, b).unwrap();
        let text =
            |more: &str| format!("times = \"replay\"\ncapture = \"{}\"\n{more}", path.display());
        let l = free(&text("speed = 2.0"));
        let Shape::Recorded(r) = &l.shape else { panic!("{:?}", l.shape) };
        assert_eq!((&r.times[..], r.frames.len()), (&[0u64, 10_000, 50_000][..], 0));
        assert_eq!(l.sizes, [64, 1_004, 64]);
        assert_eq!(Traffic::read(&text("")).unwrap().warnings(), [""; 0]);
        // Two gaps in 50 µs.
        assert!((l.fps - 40_000.0).abs() < 1.0, "{}", l.fps);
        let l = free(&text("content = \"captured\""));
        let Shape::Recorded(r) = &l.shape else { panic!("{:?}", l.shape) };
        assert_eq!((r.times[2], r.frames[1].len()), (100_000, 200));
        let warnings = Traffic::read(&text("content = \"captured\"")).unwrap().warnings();
        assert!(warnings[0].contains("no module recognises such"), "{warnings:?}");
        assert!(warnings[1].starts_with("1 of 3 frames of the capture were cut"), "{warnings:?}");
    }

    #[test]
    fn what_can_not_be_is_told_in_a_line() {
        for (text, says) in [
            ("tims = 1", "tims"),
            ("times = \"sometimes\"", "sometimes"),
            ("times = \"bursts\"", "needs 'burst'"),
            ("burst = 4", "only"),
            ("times = \"replay\"", "needs 'capture'"),
            ("times = \"replay\"\ncapture = \"/nowhere.pcap\"", "/nowhere.pcap"),
            ("capture = \"x\"", "only"),
            ("speed = 2.0", "only"),
            ("sizes = []", "1 to 65536"),
            ("sizes = [63]", "63 bytes"),
            ("sizes = \"aax\"", "'x'"),
            ("flows = 0", "'flows'"),
            ("[[vary]]\nfield = \"ttl\"", "one of"),
            ("[[vary]]\nfield = \"ttl\"\nfrom = 256", "Ttl can't be"),
            ("[[vary]]\nfield = \"ipv4_dst\"\nvalues = [\"1.2.3\"]", "Ipv4Dst can't be"),
            ("[[vary]]\nfield = \"eth_dst\"\nvalues = [\"2:0:0:0:0:0\"]", "EthDst can't be"),
            ("[[vary]]\nfield = \"ttl\"\nstep = 2\nseed = 1", "'step'"),
        ] {
            let e = Traffic::read(text).unwrap_err().to_string();
            assert!(e.contains(says) && !e.contains('\n'), "{text}: {e}");
        }
    }

    #[test]
    fn a_module_takes_what_it_leaves_and_no_more() {
        let (times, sizes) = ("times = \"poisson\"", "sizes = \"imix\"");
        let both = format!("{sizes}\n[[vary]]\nfield = \"ttl\"\nfrom = 9");
        for (text, leaves, without) in [
            (times, Leaves::Times, None),
            (sizes, Leaves::Times, Some("'sizes'")),
            (sizes, Leaves::Sizes, None),
            (&*both, Leaves::Times, Some("'sizes' and 'vary'")),
            (&*both, Leaves::Sizes, Some("'vary'")),
            (&*both, Leaves::Headers, None),
        ] {
            let about = About::new("m", "").leaving(leaves);
            let e = Traffic::read(text).unwrap().suits(&about).err().map(|e| e.to_string());
            let words = leaves.words();
            let want = without.map(|w| {
                format!("traffic: of m's loads a description may change {words}: leave out {w}")
            });
            assert_eq!(e, want, "{text}");
        }
        // What is not left is not put on, also of a capture's sizes.
        let mut load = Load::new(0, Headers::default(), 100, 1e4);
        Traffic::read(&both).unwrap().put_on(&mut load, Leaves::Sizes).unwrap();
        assert_eq!((load.sizes.len(), load.flows.len(), load.flows[0].ttl), (12, 1, 64));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,80}") {
            let _ = Traffic::read(&text);
        }
    }
}
