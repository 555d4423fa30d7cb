//! Interface that execute.rs uses; its body is being written (replace this file whole, keep these names).
use weir_packet::Nanos;
#[derive(Clone, Debug)]
pub struct Meter;
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    Pass,
    Drop,
    Remark(u8),
}
impl Meter {
    pub fn pass(&mut self, _n: Nanos, _l: usize) -> Verdict {
        Verdict::Pass
    }
}
