//! The wire before the measurement: over interfaces that the user has wired to each other, or else over a
//! pair of veths made for this.
//!
//! Room: a namespace of its own, gone afterwards. The measuring is `weir_measure::engine::floor`'s.

use super::held::Held;
use super::target::Target;
use crate::fault::bad_input;
use crate::left;
use crate::namespace::{Namespace, QUIET};
use anyhow::{Result, bail};
use std::sync::atomic::AtomicBool;
use weir_io::stamped::Stamps;
use weir_measure::document::{Document, WireFloor};
use weir_measure::engine::floor::{FloorSettings, measure};
use weir_measure::engine::wire::{self, Channel};
use weir_measure::module::{About, On};

/// What the result says of a pair made here.
const OWN: &str =
    "a pair of veths of this machine: the floor of its stamps, not of the device's wires";

/// Notes the floor of the wire in the document; of a result with fewer than two data channels there is none.
/// That a pair can't be made is noted too.
///
/// # Errors
/// The interfaces that the user names can't be used.
pub fn note(
    document: &mut Document,
    given: &[String],
    about: &About,
    target: &Target,
    stop: &AtomicBool,
) -> Result<()> {
    if about.on == On::Wire {
        // It is what the module measures; where stamps are taken is known here.
        let stamps = target.held.first().map_or(Stamps::Software.words(), Held::stamps);
        document.wire = Some(WireFloor { stamps: stamps.to_owned(), ..WireFloor::default() });
        return Ok(());
    }
    if target.channels.len() < 2 {
        return Ok(());
    }
    let mut settings = FloorSettings::default();
    if document.quick {
        settings.frames /= 10;
    }
    let found = match given {
        [] => own(settings, stop),
        [from, to] => {
            let path = format!("a direct wire, '{from}' to '{to}'");
            let (held, mut from) = Held::new(from, "--wire")?;
            let (other, mut to) = Held::new(to, "--wire")?;
            held.note(document);
            other.note(document);
            let floor = over(&mut from, &mut to, settings, (&path, held.stamps()), stop);
            Ok(floor.map_err(|e| bad_input(format!("--wire {}: {e}", given.join(","))))?)
        }
        _ => return Err(bad_input("--wire: give two interfaces that are wired to each other")),
    };
    match found {
        Ok(floor) => document.wire = Some(floor),
        Err(why) => document
            .note(format!("How long frames take without the device was not measured: {why:#}.")),
    }
    Ok(())
}

fn own(settings: FloorSettings, stop: &AtomicBool) -> Result<WireFloor> {
    if !rustix::process::geteuid().is_root() {
        bail!("a pair of veths takes root");
    }
    let place = Namespace::new(left::WIRE, "w")?;
    place.set(QUIET)?;
    place.ip("link add name w1 type veth peer name w2\nlink set w1 up\nlink set w2 up\n")?;
    let open = || Ok((wire::interface("w1")?, wire::interface("w2")?));
    let (mut from, mut to) = place.within(open)?;
    over(&mut from, &mut to, settings, (OWN, Stamps::Software.words()), stop)
}

fn over(
    from: &mut Channel,
    to: &mut Channel,
    settings: FloorSettings,
    (path, stamps): (&str, &str),
    stop: &AtomicBool,
) -> Result<WireFloor> {
    measure(from.outlet.as_mut(), to.inlet.as_mut(), settings, path, stamps, stop)
        .map_err(anyhow::Error::msg)
}
