//! Bandwidth: lines read one after the other, by one core or by all at once.
//!
//! Room: loads in fields, threads of its own. Called by `levels`.

use crate::field::{Field, Pages, Word, get};
use crate::meter::Run;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Reads a field's words, again and again; an operation is a line.
pub fn reader(field: &Rc<RefCell<Field>>, line_bytes: usize) -> Run {
    let field = Rc::clone(field);
    let line_words = line_bytes / crate::field::WORD;
    let mut at = 0;
    Box::new(move |operations| {
        let mut field = field.borrow_mut();
        let words: &[Word] = field.words();
        let mut sum = 0;
        let mut left = (operations as usize).saturating_mul(line_words);
        while left > 0 {
            let end = words.len().min(at + left);
            sum ^= xor(words.get(at..end).unwrap_or_default());
            left -= (end - at).max(1).min(left);
            at = if end >= words.len() { 0 } else { end };
        }
        sum
    })
}

/// Four sums that don't wait for each other, written out: how fast it is must not depend on what the
/// compiler makes of a loop within the loop.
fn xor(words: &[Word]) -> u64 {
    let (eights, rest) = words.as_chunks::<8>();
    let (mut a, mut b, mut c, mut d) = (0, 0, 0, 0);
    for w in eights {
        a ^= get(&w[0]) ^ get(&w[4]);
        b ^= get(&w[1]) ^ get(&w[5]);
        c ^= get(&w[2]) ^ get(&w[6]);
        d ^= get(&w[3]) ^ get(&w[7]);
    }
    rest.iter().fold(a ^ b ^ c ^ d, |x, w| x ^ get(w))
}

/// Bytes per second that a thread on each of these CPUs reads, together, each from a field of its own;
/// the best of `rounds`, since whatever disturbs one takes from it.
///
/// # Errors
/// Those of mmap(2).
pub fn together(
    cpus: &[usize],
    bytes: usize,
    time: Duration,
    rounds: usize,
) -> std::io::Result<f64> {
    let begin = &Barrier::new(cpus.len());
    let best = std::thread::scope(|scope| {
        let one = |cpu: usize| -> std::io::Result<Vec<f64>> {
            crate::cpus::pin(cpu);
            let field = Field::new(bytes, Pages::Huge);
            // A thread without memory must not keep the others waiting.
            let mut rates = Vec::new();
            let mut field = match field {
                Ok(f) => f,
                Err(e) => {
                    for _ in 0..rounds {
                        begin.wait();
                    }
                    return Err(e);
                }
            };
            for _ in 0..rounds {
                begin.wait();
                let start = Instant::now();
                let mut passes = 0u64;
                while passes == 0 || start.elapsed() < time {
                    std::hint::black_box(xor(field.words()));
                    passes += 1;
                }
                let read = passes as f64 * bytes as f64;
                rates.push(read / start.elapsed().as_secs_f64());
            }
            Ok(rates)
        };
        let all: Vec<_> = cpus.iter().map(|c| scope.spawn(move || one(*c))).collect();
        let mut sums = vec![0.0; rounds];
        for thread in all {
            // A thread that panicked has said why; its rates are missed.
            let rates = thread.join().map_err(|_| std::io::Error::other("a thread panicked"))??;
            for (s, r) in sums.iter_mut().zip(rates) {
                *s += r;
            }
        }
        Ok::<f64, std::io::Error>(sums.into_iter().fold(0.0, f64::max))
    })?;
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_read_everything() {
        let mut field = Field::new(1 << 14, Pages::Small).expect("memory");
        let words = field.words();
        for (i, w) in words.iter_mut().enumerate() {
            crate::field::put(w, i as u64 * i as u64);
        }
        let expected = words.iter().fold(0, |x, w| x ^ get(w));
        let mut run = reader(&Rc::new(RefCell::new(field)), 64);
        assert_eq!(run(256), expected);
        // In parts that end where they like.
        let (a, b) = (run(100), run(156));
        assert_eq!(a ^ b, expected);
        let (a, b) = (run(200), run(312));
        assert_eq!(a ^ b, 0);
    }

    #[test]
    fn threads_read_together() {
        let rate = together(&crate::cpus::allowed(), 1 << 16, Duration::from_millis(1), 2)
            .expect("a rate");
        assert!(rate > 0.0);
    }
}
