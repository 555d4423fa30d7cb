//! What must be there for a lab to hold, and the steps to it.
//!
//! Room: arithmetic; puts together what [`crate::wires`], [`crate::admission`] and [`crate::plan`] say.

use crate::admission::admit;
use crate::model::Lab;
use crate::observed::Observed;
use crate::plan::{Step, plan};
use crate::refusal::Refusal;
use crate::section::Wanted;
use crate::store::Places;
use crate::wires::{self, Before, Links, WantedPort, lay};

/// What must be there for a lab to hold.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// VDPs.
    pub wanted: Vec<Wanted>,
    /// Ports that are made for links.
    pub ports: Vec<WantedPort>,
    /// Where nodes and relays live.
    pub places: Places,
    /// Where links go.
    pub links: Links,
}

impl Goal {
    /// A lab's, from what is there and where things were before.
    ///
    /// # Errors
    /// The first thing that can't be.
    pub fn of(
        lab: &Lab,
        observed: &Observed,
        places: &Places,
        links: &Links,
        store: u64,
    ) -> Result<Self, Refusal> {
        let laid = lay(lab, observed, Before { places, links }, store)?;
        let (mut wanted, mut places) = admit(lab, observed, places, store)?;
        wanted.extend(laid.relays);
        places.extend(laid.places);
        Ok(Self { wanted, ports: laid.ports, places, links: laid.links })
    }

    /// Ports come before the VDPs that use them, and go after them.
    pub fn steps(&self, observed: &Observed, store: u64, known: &Places) -> Vec<Step> {
        let (first, last) = wires::steps(&self.ports, observed, store);
        let vdps = plan(&self.wanted, observed, store, known);
        first.into_iter().chain(vdps).chain(last).collect()
    }
}
