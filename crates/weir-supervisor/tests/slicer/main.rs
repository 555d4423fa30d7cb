//! The slicer between a switch and controllers that the tests play.

mod attacks;
mod bench;
mod covered;
mod numbers;
mod ordinary;
mod replan;
mod resume;
mod tags;
