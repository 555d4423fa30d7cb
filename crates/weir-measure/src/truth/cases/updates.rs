//! A case for each fault of changes of the table, and of barriers.
//!
//! Data. Part of `cases`.

use super::{CONSISTENCY, INSERT, INSERT_EXACT, MODIFY, case, near};
use crate::truth::{Case, Must};

pub(super) fn of_updates() -> Vec<Case> {
    let u = |text: &str| format!("[update]\n{text}");
    vec![
        case(
            "update.start_us",
            "flow-insert",
            // Both sizes are seen by probes of the last entry: every 8 µs.
            INSERT_EXACT,
            &u("start_us = 800\ninsert_us = 1000"),
            Must::Tell("entries-work", "before the first entry", near(800.0, 120.0)),
        ),
        case(
            "update.insert_us",
            "flow-insert",
            INSERT_EXACT,
            &u("insert_us = 1000"),
            Must::Tell("entries-work", "each entry", near(1000.0, 20.0)),
        ),
        case(
            "update.insert_past",
            "flow-insert",
            INSERT,
            &u("insert_us = 1000\ninsert_past = { entries = 10, us = 5000 }"),
            Must::Fail(&["entries-cost-alike"], "Each of 40 entries"),
        ),
        case(
            "update.modify_us",
            "flow-modify",
            MODIFY,
            &u("insert_us = 1000\nmodify_us = 3000\ndelete_us = 1000"),
            Must::FailBy(
                &["modification-as-cheap"],
                "each of the most, median",
                near(3000.0, 100.0),
            ),
        ),
        case(
            "update.delete_us",
            "flow-modify",
            MODIFY,
            &u("insert_us = 1000\nmodify_us = 1000\ndelete_us = 4000"),
            Must::FailBy(&["deletion-as-cheap"], "each of the most, median", near(4000.0, 150.0)),
        ),
        case(
            "update.modify_past",
            "flow-modify",
            MODIFY,
            &u("insert_us = 1000\nmodify_us = 1000\nmodify_past = { entries = 20, us = 4000 }"),
            Must::Fail(&["modification-as-cheap"], "from 40 entries on"),
        ),
        case(
            "update.shift",
            "flow-modify",
            MODIFY,
            &u("insert_us = 100\nshift = { us = 30, dear = \"descending\" }"),
            Must::Fail(&["priorities-cost-nothing"], "falling priorities"),
        ),
        case(
            "update.modify_gap_us",
            "consistency",
            CONSISTENCY,
            &u("modify_us = 6000\nmodify_gap_us = 5000"),
            Must::Fail(&["one-rule-or-the-other"], "neither the old rule nor the new one"),
        ),
        case(
            "update.reorder_window",
            "consistency",
            CONSISTENCY,
            &u("insert_us = 500\nreorder_window = 16"),
            Must::Fail(&["changes-in-order"], "before one that was sent earlier"),
        ),
    ]
}

pub(super) fn of_barriers() -> Vec<Case> {
    let b = |text: &str| {
        format!("[update]\ninsert_us = 1000\nmodify_us = 1000\ndelete_us = 1000\n[barrier]\n{text}")
    };
    vec![
        case(
            "barrier.reply.early",
            "flow-insert",
            INSERT,
            &b("reply = \"early\""),
            Must::Fail(&["barrier-truthful"], "answered before the entries worked"),
        ),
        case(
            "barrier.reply.unsupported",
            "flow-insert",
            INSERT,
            &b("reply = \"unsupported\""),
            Must::Say("barrier-truthful", "The switch has no barrier."),
        ),
        case(
            "barrier.reply.never",
            "flow-insert",
            INSERT,
            &b("reply = \"never\""),
            Must::Fail(&["barrier-truthful"], "did not answer a barrier request within"),
        ),
        case(
            "barrier.delay_us",
            "flow-insert",
            INSERT_EXACT,
            "[barrier]\ndelay_us = 20000",
            Must::FailBy(&["barrier-prompt"], "late, median", near(20.0, 0.0)),
        ),
    ]
}
