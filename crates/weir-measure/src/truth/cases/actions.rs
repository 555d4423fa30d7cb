//! A case for each fault of actions: what a modification is done to, wrongly, slowly or not at all.
//!
//! Data. Part of `cases`.

use super::{ACTIONS, ACTIONS_LONG, ACTIONS_RATE, KINDS, SUMMED, case, near};
use crate::dut::profile::ActionKind;
use crate::truth::{Case, Must};

pub(super) fn of_actions() -> Vec<Case> {
    let mut all = Vec::new();
    let list = |key: &str, kind: ActionKind| format!("[actions]\n{key} = [\"{}\"]", kind.word());
    for (kind, row) in KINDS {
        for (key, fails) in [
            ("discards", &["modifications-complete"]),
            ("ignores", &["modifications-right"]),
            ("refuses", &["modifications-accepted"]),
            ("writes_wrong", &["modifications-right"]),
        ] {
            let fault = format!("actions.{key}.{}", kind.word());
            all.push(case(&fault, "actions", ACTIONS, &list(key, kind), Must::Fail(fails, row)));
        }
        if SUMMED.contains(&kind) {
            let fault = format!("actions.wrong_checksum.{}", kind.word());
            let must = Must::Fail(&["modifications-right"], row);
            all.push(case(&fault, "actions", ACTIONS, &list("wrong_checksum", kind), must));
        }
        let cpu = format!("[actions.cpu]\ndoes = [\"{}\"]\ndelay_us = 500", kind.word());
        let fault = format!("actions.cpu.{}", kind.word());
        all.push(case(
            &fault,
            "actions",
            ACTIONS,
            &cpu,
            Must::Fail(&["modifications-as-fast"], row),
        ));
    }
    for key in ["discards", "refuses"] {
        let fault = format!("actions.{key}.forward");
        let must = Must::Refuse("nothing that the switch sends arrives");
        all.push(case(&fault, "actions", ACTIONS, &list(key, ActionKind::Forward), must));
    }
    let cpu = |text: &str| format!("[actions.cpu]\ndoes = [\"l4-port\"]\n{text}");
    all.extend([
        case(
            "actions.cpu.forward",
            "actions",
            ACTIONS,
            "[actions.cpu]\ndoes = [\"forward\"]\ndelay_us = 500",
            Must::Tell("modifications-as-fast", "forwarding, median", near(500.0, 20.0)),
        ),
        case(
            "actions.cpu.loss_percent",
            "actions",
            ACTIONS,
            &cpu("loss_percent = 88"),
            Must::FailBy(&["modifications-complete"], "worst loss", near(88.0, 1.0)),
        ),
        // 2000 frames a second come; those that it does have waited.
        case(
            "actions.cpu.per_second",
            "actions",
            ACTIONS_RATE,
            &cpu("per_second = 500\nqueue = 1"),
            Must::FailBy(
                &["modifications-complete", "modifications-as-fast"],
                "worst loss",
                near(75.0, 1.0),
            ),
        ),
        case(
            "actions.cpu.delay_us",
            "actions",
            ACTIONS,
            &cpu("delay_us = 302"),
            Must::FailBy(&["modifications-as-fast"], "slowest, median", near(302.0, 20.0)),
        ),
        case(
            "actions.cpu.sd_us",
            "actions",
            ACTIONS_LONG,
            &cpu("delay_us = 2000\nsd_us = 300"),
            Must::FailBy(
                &["modifications-as-fast"],
                "slowest, standard deviation",
                near(300.0, 60.0),
            ),
        ),
    ]);
    all
}
