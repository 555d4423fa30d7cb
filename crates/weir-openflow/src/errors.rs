//! Errors by number: each version's type and code for every [`ErrorCode`], in one table.
//!
//! Room: the message floor. Called by the codec. Sources: 1.0 §5.4.4, 1.3.5 §7.4.4.

use crate::model::ErrorCode::{self, *};
use crate::model::Version;

/// How a version says an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// By this type and code.
    Is(u16, u16),
    /// Not at all; this one comes nearest.
    Near(ErrorCode),
}
use Wire::{Is, Near};

/// Error, 1.0's number, 1.3's number.
const TABLE: &[(ErrorCode, Wire, Wire)] = &[
    (HelloIncompatible, Is(0, 0), Is(0, 0)),
    (HelloEperm, Is(0, 1), Is(0, 1)),
    (BadVersion, Is(1, 0), Is(1, 0)),
    (BadType, Is(1, 1), Is(1, 1)),
    (BadMultipart, Is(1, 2), Is(1, 2)),
    (BadExperimenter, Is(1, 3), Is(1, 3)),
    (BadExperimenterType, Is(1, 4), Is(1, 4)),
    (RequestEperm, Is(1, 5), Is(1, 5)),
    (BadLen, Is(1, 6), Is(1, 6)),
    (BufferEmpty, Is(1, 7), Is(1, 7)),
    (BufferUnknown, Is(1, 8), Is(1, 8)),
    (BadTableId, Near(RequestEperm), Is(1, 9)),
    (IsSlave, Near(RequestEperm), Is(1, 10)),
    (BadPort, Near(RequestEperm), Is(1, 11)),
    (BadPacket, Near(BadLen), Is(1, 12)),
    (MultipartBufferOverflow, Near(BadMultipart), Is(1, 13)),
    (ActionBadType, Is(2, 0), Is(2, 0)),
    (ActionBadLen, Is(2, 1), Is(2, 1)),
    (ActionBadExperimenter, Is(2, 2), Is(2, 2)),
    (ActionBadExperimenterType, Is(2, 3), Is(2, 3)),
    (ActionBadOutPort, Is(2, 4), Is(2, 4)),
    (ActionBadArgument, Is(2, 5), Is(2, 5)),
    (ActionEperm, Is(2, 6), Is(2, 6)),
    (ActionTooMany, Is(2, 7), Is(2, 7)),
    (ActionBadQueue, Is(2, 8), Is(2, 8)),
    (ActionBadOutGroup, Near(ActionBadArgument), Is(2, 9)),
    (ActionMatchInconsistent, Near(ActionBadArgument), Is(2, 10)),
    (ActionUnsupportedOrder, Near(FlowUnsupported), Is(2, 11)),
    (ActionBadTag, Near(ActionBadArgument), Is(2, 12)),
    (ActionBadSetType, Near(ActionBadType), Is(2, 13)),
    (ActionBadSetLen, Near(ActionBadLen), Is(2, 14)),
    (ActionBadSetArgument, Near(ActionBadArgument), Is(2, 15)),
    (InstUnknown, Near(ActionBadType), Is(3, 0)),
    (InstUnsupported, Near(FlowUnsupported), Is(3, 1)),
    (InstBadTableId, Near(FlowUnsupported), Is(3, 2)),
    (InstUnsupMetadata, Near(FlowUnsupported), Is(3, 3)),
    (InstUnsupMetadataMask, Near(FlowUnsupported), Is(3, 4)),
    (InstBadExperimenter, Near(ActionBadExperimenter), Is(3, 5)),
    (InstBadExperimenterType, Near(ActionBadExperimenterType), Is(3, 6)),
    (InstBadLen, Near(BadLen), Is(3, 7)),
    (InstEperm, Near(FlowEperm), Is(3, 8)),
    (MatchBadType, Near(FlowUnsupported), Is(4, 0)),
    (MatchBadLen, Near(BadLen), Is(4, 1)),
    (MatchBadTag, Near(FlowUnsupported), Is(4, 2)),
    (MatchBadDlAddrMask, Near(FlowUnsupported), Is(4, 3)),
    (MatchBadNwAddrMask, Near(FlowUnsupported), Is(4, 4)),
    (MatchBadWildcards, Near(FlowUnsupported), Is(4, 5)),
    (MatchBadField, Near(FlowUnsupported), Is(4, 6)),
    (MatchBadValue, Near(FlowUnsupported), Is(4, 7)),
    (MatchBadMask, Near(FlowUnsupported), Is(4, 8)),
    (MatchBadPrereq, Near(FlowUnsupported), Is(4, 9)),
    (MatchDupField, Near(FlowUnsupported), Is(4, 10)),
    (MatchEperm, Near(FlowEperm), Is(4, 11)),
    (FlowUnknown, Near(FlowUnsupported), Is(5, 0)),
    (FlowTableFull, Is(3, 0), Is(5, 1)),
    (FlowBadTableId, Near(FlowEperm), Is(5, 2)),
    (FlowOverlap, Is(3, 1), Is(5, 3)),
    (FlowEperm, Is(3, 2), Is(5, 4)),
    (FlowBadTimeout, Is(3, 3), Is(5, 5)),
    (FlowBadCommand, Is(3, 4), Is(5, 6)),
    (FlowBadFlags, Near(FlowUnsupported), Is(5, 7)),
    (FlowUnsupported, Is(3, 5), Near(FlowUnknown)),
    (GroupExists, Near(BadType), Is(6, 0)),
    (GroupInvalid, Near(BadType), Is(6, 1)),
    (GroupWeightUnsupported, Near(BadType), Is(6, 2)),
    (GroupOutOfGroups, Near(BadType), Is(6, 3)),
    (GroupOutOfBuckets, Near(BadType), Is(6, 4)),
    (GroupChainingUnsupported, Near(BadType), Is(6, 5)),
    (GroupWatchUnsupported, Near(BadType), Is(6, 6)),
    (GroupLoop, Near(BadType), Is(6, 7)),
    (GroupUnknown, Near(BadType), Is(6, 8)),
    (GroupChained, Near(BadType), Is(6, 9)),
    (GroupBadType, Near(BadType), Is(6, 10)),
    (GroupBadCommand, Near(BadType), Is(6, 11)),
    (GroupBadBucket, Near(BadType), Is(6, 12)),
    (GroupBadWatch, Near(BadType), Is(6, 13)),
    (GroupEperm, Near(BadType), Is(6, 14)),
    (PortBadPort, Is(4, 0), Is(7, 0)),
    (PortBadHwAddr, Is(4, 1), Is(7, 1)),
    (PortBadConfig, Near(RequestEperm), Is(7, 2)),
    (PortBadAdvertise, Near(RequestEperm), Is(7, 3)),
    (PortEperm, Near(RequestEperm), Is(7, 4)),
    (TableBadTable, Near(BadType), Is(8, 0)),
    (TableBadConfig, Near(BadType), Is(8, 1)),
    (TableEperm, Near(RequestEperm), Is(8, 2)),
    (QueueBadPort, Is(5, 0), Is(9, 0)),
    (QueueBadQueue, Is(5, 1), Is(9, 1)),
    (QueueEperm, Is(5, 2), Is(9, 2)),
    (ConfigBadFlags, Near(RequestEperm), Is(10, 0)),
    (ConfigBadLen, Near(RequestEperm), Is(10, 1)),
    (ConfigEperm, Near(RequestEperm), Is(10, 2)),
    (RoleStale, Near(RequestEperm), Is(11, 0)),
    (RoleUnsupported, Near(RequestEperm), Is(11, 1)),
    (RoleBadRole, Near(RequestEperm), Is(11, 2)),
    (MeterUnknown, Near(BadType), Is(12, 0)),
    (MeterExists, Near(BadType), Is(12, 1)),
    (MeterInvalid, Near(BadType), Is(12, 2)),
    (MeterUnknownMeter, Near(BadType), Is(12, 3)),
    (MeterBadCommand, Near(BadType), Is(12, 4)),
    (MeterBadFlags, Near(BadType), Is(12, 5)),
    (MeterBadRate, Near(BadType), Is(12, 6)),
    (MeterBadBurst, Near(BadType), Is(12, 7)),
    (MeterBadBand, Near(BadType), Is(12, 8)),
    (MeterBadBandValue, Near(BadType), Is(12, 9)),
    (MeterOutOfMeters, Near(BadType), Is(12, 10)),
    (MeterOutOfBands, Near(BadType), Is(12, 11)),
    (TableFeaturesBadTable, Near(BadType), Is(13, 0)),
    (TableFeaturesBadMetadata, Near(BadType), Is(13, 1)),
    (TableFeaturesBadType, Near(BadType), Is(13, 2)),
    (TableFeaturesBadLen, Near(BadType), Is(13, 3)),
    (TableFeaturesBadArgument, Near(BadType), Is(13, 4)),
    (TableFeaturesEperm, Near(BadType), Is(13, 5)),
];

const fn of(row: &(ErrorCode, Wire, Wire), version: Version) -> Wire {
    match version {
        Version::V10 => row.1,
        Version::V13 => row.2,
    }
}

/// Every error that has a name.
pub fn all() -> impl Iterator<Item = ErrorCode> {
    TABLE.iter().map(|row| row.0)
}

/// Type and code of an error in a version, or of what comes nearest there.
pub fn to_wire(version: Version, code: ErrorCode) -> (u16, u16) {
    if let Other(kind, code) = code {
        return (kind, code);
    }
    match TABLE.iter().find(|row| row.0 == code).map(|row| of(row, version)) {
        Some(Is(kind, code)) => (kind, code),
        // Nearest ones have a number themselves (tested), so this is one step deep.
        Some(Near(other)) if other != code => to_wire(version, other),
        _ => (1, 1),
    }
}

/// The error that a type and code mean in a version; [`Other`] where it has no name here.
pub fn from_wire(version: Version, kind: u16, code: u16) -> ErrorCode {
    TABLE
        .iter()
        .find(|row| of(row, version) == Is(kind, code))
        .map_or(Other(kind, code), |row| row.0)
}
