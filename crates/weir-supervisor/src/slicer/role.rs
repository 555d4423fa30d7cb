//! Which of a slice's controllers may do what, and is told what (1.3 §6.3.4 to §6.3.6).
//!
//! Room: one controller's role and wishes; `requests` changes them, `switch` asks.

use weir_openflow::model::{AsyncConfig, ErrorCode, Role, RoleMsg};

/// Something that a switch tells unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiding {
    /// A packet, for this reason (OFPR).
    PacketIn(u32),
    /// A port changed (OFPPR).
    PortStatus(u32),
    /// A flow is gone (OFPRR).
    FlowRemoved(u32),
}

/// What a controller is told until it says otherwise: a slave of ports alone.
pub const USUAL: AsyncConfig =
    AsyncConfig { packet_in: [7, 0], port_status: [7, 7], flow_removed: [15, 0] };

/// Whether a controller in this role that wants this is told that.
pub fn is_told(role: Role, wants: &AsyncConfig, what: Tiding) -> bool {
    let of = usize::from(role == Role::Slave);
    let (wanted, reason) = match what {
        Tiding::PacketIn(r) => (wants.packet_in, r),
        Tiding::PortStatus(r) => (wants.port_status, r),
        Tiding::FlowRemoved(r) => (wants.flow_removed, r),
    };
    wanted.get(of).is_some_and(|bits| bits >> reason & 1 == 1)
}

/// Judges a request for a role; `last` is the highest generation that the slice has seen.
///
/// # Errors
/// ROLE_REQUEST_FAILED, STALE.
pub fn admit(asked: &RoleMsg, last: &mut Option<u64>) -> Result<(), ErrorCode> {
    if !matches!(asked.role, Role::Master | Role::Slave) {
        return Ok(());
    }
    // 1.3 §6.3.4: a distance in a circle.
    if last.is_some_and(|l| (asked.generation.wrapping_sub(l) as i64) < 0) {
        return Err(ErrorCode::RoleStale);
    }
    *last = Some(asked.generation);
    Ok(())
}
