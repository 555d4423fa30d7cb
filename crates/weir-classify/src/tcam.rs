//! Interface that weir-dataplane/src/control.rs uses; its body is being written (replace this file whole, keep these names).
use thiserror::Error;
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TcamConfig { pub x: usize }
#[derive(Clone, Copy, Debug)]
pub enum Part { Mapping, Action }
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("full")]
pub struct TcamError;
#[derive(Debug)]
pub struct Tcam;
impl Tcam {
 pub fn new(_c: TcamConfig) -> Result<Self, TcamError> { Ok(Tcam) }
 pub fn reserve(&mut self, _p: Part, _o: u16, _n: usize) -> Result<(), TcamError> { Ok(()) }
 pub fn charge(&mut self, _p: Part, _o: u16, _n: usize) -> Result<(), TcamError> { Ok(()) }
 pub fn uncharge(&mut self, _p: Part, _o: u16, _n: usize) {}
 pub fn release(&mut self, _o: u16) {}
}
