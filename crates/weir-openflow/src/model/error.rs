//! Errors (1.0 §5.4.4; 1.3 §7.4.4): one name for each, whatever its number in a version.

/// What is wrong, by the specification's names. The encodings know type and code; one that a version
/// has not is sent as its nearest there (each encoding's table says which).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is named as in the specification")]
pub enum ErrorCode {
    // HELLO_FAILED
    HelloIncompatible,
    HelloEperm,
    // BAD_REQUEST
    BadVersion,
    BadType,
    /// BAD_STAT in 1.0.
    BadMultipart,
    /// BAD_VENDOR in 1.0.
    BadExperimenter,
    /// BAD_SUBTYPE in 1.0.
    BadExperimenterType,
    RequestEperm,
    BadLen,
    BufferEmpty,
    BufferUnknown,
    BadTableId,
    IsSlave,
    BadPort,
    BadPacket,
    MultipartBufferOverflow,
    // BAD_ACTION
    ActionBadType,
    ActionBadLen,
    ActionBadExperimenter,
    ActionBadExperimenterType,
    ActionBadOutPort,
    ActionBadArgument,
    ActionEperm,
    ActionTooMany,
    ActionBadQueue,
    ActionBadOutGroup,
    ActionMatchInconsistent,
    ActionUnsupportedOrder,
    ActionBadTag,
    ActionBadSetType,
    ActionBadSetLen,
    ActionBadSetArgument,
    // BAD_INSTRUCTION
    InstUnknown,
    InstUnsupported,
    InstBadTableId,
    InstUnsupMetadata,
    InstUnsupMetadataMask,
    InstBadExperimenter,
    InstBadExperimenterType,
    InstBadLen,
    InstEperm,
    // BAD_MATCH
    MatchBadType,
    MatchBadLen,
    MatchBadTag,
    MatchBadDlAddrMask,
    MatchBadNwAddrMask,
    MatchBadWildcards,
    MatchBadField,
    MatchBadValue,
    MatchBadMask,
    MatchBadPrereq,
    MatchDupField,
    MatchEperm,
    // FLOW_MOD_FAILED
    FlowUnknown,
    /// ALL_TABLES_FULL in 1.0.
    FlowTableFull,
    FlowBadTableId,
    FlowOverlap,
    FlowEperm,
    /// BAD_EMERG_TIMEOUT in 1.0.
    FlowBadTimeout,
    FlowBadCommand,
    FlowBadFlags,
    /// 1.0 only: UNSUPPORTED (an action list that can't be carried out in this order).
    FlowUnsupported,
    // GROUP_MOD_FAILED
    GroupExists,
    GroupInvalid,
    GroupWeightUnsupported,
    GroupOutOfGroups,
    GroupOutOfBuckets,
    GroupChainingUnsupported,
    GroupWatchUnsupported,
    GroupLoop,
    GroupUnknown,
    GroupChained,
    GroupBadType,
    GroupBadCommand,
    GroupBadBucket,
    GroupBadWatch,
    GroupEperm,
    // PORT_MOD_FAILED
    PortBadPort,
    PortBadHwAddr,
    PortBadConfig,
    PortBadAdvertise,
    PortEperm,
    // TABLE_MOD_FAILED
    TableBadTable,
    TableBadConfig,
    TableEperm,
    // QUEUE_OP_FAILED
    QueueBadPort,
    QueueBadQueue,
    QueueEperm,
    // SWITCH_CONFIG_FAILED
    ConfigBadFlags,
    ConfigBadLen,
    ConfigEperm,
    // ROLE_REQUEST_FAILED
    RoleStale,
    RoleUnsupported,
    RoleBadRole,
    // METER_MOD_FAILED
    MeterUnknown,
    MeterExists,
    MeterInvalid,
    MeterUnknownMeter,
    MeterBadCommand,
    MeterBadFlags,
    MeterBadRate,
    MeterBadBurst,
    MeterBadBand,
    MeterBadBandValue,
    MeterOutOfMeters,
    MeterOutOfBands,
    // TABLE_FEATURES_FAILED
    TableFeaturesBadTable,
    TableFeaturesBadMetadata,
    TableFeaturesBadType,
    TableFeaturesBadLen,
    TableFeaturesBadArgument,
    TableFeaturesEperm,
    /// A type and code that this list has no name for; received, never sent.
    Other(u16, u16),
}

/// OFPT_ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMsg {
    /// What is wrong.
    pub code: ErrorCode,
    /// At least 64 bytes of the offending message, all of it where it is shorter; for a failed
    /// hello, a line of text.
    pub data: Vec<u8>,
}
