//! Placement: which host takes which function, and with how many cores; or which constraint fails, and
//! what would be enough.
//!
//! Room: estimates made demands on a host's resources (`demand`), and demands made an assignment
//! (`solve`). `request` reads what is asked. Called by `weir place`.

mod demand;
pub mod growth;
pub mod openstack;
pub mod request;
mod solve;

pub use demand::{Amounts, Need, RESOURCES};
pub use request::{Objective, Request};

use crate::fault::Fault;
use crate::model::Library;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It fits.
    Placed(Plan),
    /// It does not.
    Infeasible(Refusal),
}

/// Who goes where.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Each function or chain, in the request's order.
    pub places: Vec<Place>,
    /// Each host, in the request's order.
    pub hosts: Vec<HostUse>,
    /// What was sought, the less the better: hosts in use, the fullest host's part, or watts. As people read it, by
    /// [`Objective::told`].
    pub objective: f64,
    /// No assignment can be better than this; the objective itself where nothing better can be.
    pub bound: f64,
    /// Whether nothing better can be.
    pub optimal: bool,
    /// What whoever reads the plan should know.
    pub notes: Vec<String>,
}

/// A function's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The function or chain.
    pub name: String,
    /// The host.
    pub host: String,
    /// What it takes there.
    pub need: Need,
}

/// What a host carries.
#[derive(Clone, Debug, PartialEq)]
pub struct HostUse {
    /// The host.
    pub name: String,
    /// Its profile.
    pub profile: String,
    /// Used of each resource, what ran there before included; see [`RESOURCES`].
    pub used: Amounts,
    /// What there is of each; infinite where nothing limits it.
    pub whole: Amounts,
}

impl HostUse {
    /// The part of the scarcest resource that is free.
    pub fn headroom(&self) -> f64 {
        let parts = self.used.iter().zip(&self.whole).filter(|(_, w)| **w > 0.0);
        1.0 - parts.map(|(u, w)| u / w).fold(0.0, f64::max)
    }
}

/// Why a request can't be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The constraint that fails.
    pub constraint: String,
    /// What would be enough.
    pub enough: String,
}

/// Places what a request asks for. `profiles` are those that it names.
///
/// # Errors
/// A function or a profile that is not known, or does not fit the other; what an estimate says.
pub fn place(
    library: &Library,
    profiles: &BTreeMap<String, Profile>,
    request: &Request,
) -> Result<Answer, Fault> {
    let problem = demand::problem(library, profiles, request)?;
    Ok(solve::solve(&problem, request.objective))
}
