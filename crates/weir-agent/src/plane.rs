//! The way to the data plane: closures that run alone with it, between two bursts.
//!
//! Room: the only thing an agent knows of threads, which is nothing: a running data plane answers
//! through its [`Handle`], a test's is called where it stands. Called by every other file here.

use thiserror::Error;
use weir_dataplane::{DataPlane, Handle};

/// The data plane has ended; nothing more can be asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the data plane has ended")]
pub struct PlaneGone;

/// Something that runs closures on a data plane.
pub trait Plane {
    /// Runs `f` between two bursts and gives its answer when it has happened: what it changed
    /// holds for every frame received afterwards.
    ///
    /// # Errors
    /// [`PlaneGone`].
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, PlaneGone>;
}

impl Plane for Handle {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, PlaneGone> {
        self.call(f).map_err(|_| PlaneGone)
    }
}

impl Plane for DataPlane {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, PlaneGone> {
        Ok(f(self))
    }
}
