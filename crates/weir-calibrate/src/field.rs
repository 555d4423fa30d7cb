//! Memory to measure in: of pages of 4 KiB, or of huge ones.
//!
//! Room: mappings. The only file that knows `memmap2`; huge pages are asked for by madvise(2), and
//! whether they came is seen in `/proc/self/smaps`. Called by `chase`, `bandwidth` and `kernel`.

use memmap2::{Advice, MmapMut};

/// A word of a field, in the machine's byte order.
pub type Word = [u8; 8];
/// Bytes of a word.
pub const WORD: usize = 8;

/// What pages a field is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// As anybody gets them.
    Small,
    /// Huge ones, where the kernel has some.
    Huge,
}

/// Memory.
#[derive(Debug)]
pub struct Field {
    map: MmapMut,
    /// Bytes that are used: the rest of the mapping is what was left of the last page.
    bytes: usize,
    /// Whether it is of huge pages.
    huge: bool,
}

/// Bytes of a huge page, where the kernel does not say.
const HUGE: usize = 2 << 20;
/// Bytes of a small page.
pub const SMALL: usize = 4096;

impl Field {
    /// So many bytes, all of them touched.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let bytes = bytes.max(SMALL);
        let unit = if pages == Pages::Huge { HUGE } else { SMALL };
        let mut map = MmapMut::map_anon(bytes.next_multiple_of(unit))?;
        // A kernel without huge pages refuses: then pages are small, and `is_huge` says so.
        let advised = match pages {
            Pages::Huge => map.advise(Advice::HugePage),
            Pages::Small => map.advise(Advice::NoHugePage),
        };
        for page in map.chunks_mut(SMALL) {
            page[0] = 1;
        }
        let huge = pages == Pages::Huge && advised.is_ok() && is_huge(map.as_ptr() as usize);
        Ok(Self { map, bytes, huge })
    }

    /// Whether most of it is of huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// Its words.
    pub fn words(&mut self) -> &mut [Word] {
        let bytes = self.map.get_mut(..self.bytes).unwrap_or_default();
        bytes.as_chunks_mut().0
    }
}

/// Whether most of the mapping that begins at `address` is of huge pages.
fn is_huge(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    share_of_huge(&maps, address).is_some_and(|s| s > 0.5)
}

/// The part of the mapping with `address` that is of huge pages, by the text of `smaps`. Mappings that
/// follow each other are one there.
fn share_of_huge(smaps: &str, address: usize) -> Option<f64> {
    let (mut inside, mut resident) = (false, None);
    for line in smaps.lines() {
        if let Some((from, to)) = line.split(' ').next().and_then(|r| r.split_once('-')) {
            let hex = |t| usize::from_str_radix(t, 16).ok();
            if let (Some(from), Some(to)) = (hex(from), hex(to)) {
                inside = (from..to).contains(&address);
                continue;
            }
        }
        let kib = |name: &str| {
            let v = line.strip_prefix(name)?.trim().strip_suffix(" kB")?;
            v.trim().parse::<f64>().ok()
        };
        if inside {
            resident = kib("Rss:").or(resident);
            if let (Some(huge), Some(all)) = (kib("AnonHugePages:"), resident) {
                return Some(if all > 0.0 { huge / all } else { 0.0 });
            }
        }
    }
    None
}

/// A word as a number.
#[inline(always)]
pub fn get(word: &Word) -> u64 {
    u64::from_ne_bytes(*word)
}

/// A number into a word.
#[inline(always)]
pub fn put(word: &mut Word, value: u64) {
    *word = value.to_ne_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_words() {
        for pages in [Pages::Small, Pages::Huge] {
            let mut f = Field::new(1 << 20, pages).expect("memory");
            assert_eq!(f.words().len(), 1 << 17);
            put(&mut f.words()[77], 12345);
            assert_eq!(get(&f.words()[77]), 12345);
            assert!(pages == Pages::Huge || !f.is_huge());
        }
    }

    #[test]
    fn smaps_are_read() {
        let text = "1000-3000 rw-p 00000000 00:00 0\nSize: 8 kB\nRss:    8 kB\nAnonHugePages: 0 kB\n\
                    200000-600000 rw-p 00000000 00:00 0\nRss: 4096 kB\nAnonHugePages:   2048 kB\n";
        assert_eq!(share_of_huge(text, 0x1800), Some(0.0));
        assert_eq!(share_of_huge(text, 0x20_0000), Some(0.5));
        assert_eq!(share_of_huge(text, 0x10), None);
    }
}
