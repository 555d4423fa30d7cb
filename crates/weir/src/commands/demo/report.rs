//! What the demo found: the JSON's shape, and the judgement.

use serde::Serialize;
use std::collections::BTreeMap;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The input.
    pub capture: CaptureFacts,
    /// The capture through both paths.
    pub forwarding: Forwarding,
    /// Networks with a controller each.
    pub networks: Networks,
    /// Two tenants and a guest by a LAB file.
    pub shared: Shared,
    /// VDPs that moved under load.
    pub moving: Moving,
    /// More and more VDPs.
    pub growth: Growth,
    /// Two OpenFlow switches, measured.
    pub measuring: Measuring,
    /// Network functions, predicted and measured.
    pub predicting: Predicting,
    /// How long it all took.
    pub seconds: f64,
    /// What must not be. Empty when all is well.
    pub failures: Vec<String>,
}

/// The capture.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureFacts {
    /// Frames.
    pub frames: usize,
    /// Bytes, without FCS.
    pub bytes: usize,
    /// Hosts, each with a port.
    pub ports: usize,
    /// From the first frame to the last, when it was recorded.
    pub seconds: f64,
}

/// The capture through both paths.
#[derive(Debug, Serialize)]
pub struct Forwarding {
    /// The VDPs; the default one last.
    pub vdps: Vec<VdpReport>,
    /// What does not add up, path by path. Empty: conservation holds.
    pub imbalances: Vec<String>,
    /// Frames put in one by one, on each path.
    pub compared: usize,
    /// Numbers (from 1) of the frames that the paths treated differently; at most 10 are listed.
    pub different: Vec<usize>,
    /// Frames that the routing VDP forwarded.
    pub routed: usize,
    /// How many of them equal, byte for byte, one that the kernel's router sent.
    pub routed_as_kernel: usize,
}

/// One VDP.
#[derive(Debug, Serialize)]
pub struct VdpReport {
    /// Its id.
    pub vid: u16,
    /// Its name.
    pub name: String,
    /// How frames are told to be its own.
    pub mapped_by: &'static str,
    /// Its mapping rules.
    pub mapping: Vec<String>,
    /// Its action rules.
    pub rules: Vec<String>,
    /// Its slow-path program.
    pub program: Option<&'static str>,
    /// What became of its frames on the fast path.
    pub fast: Fate,
    /// What became of its frames on the slow path.
    pub slow: Fate,
}

/// What became of frames.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Fate {
    /// Mapped to the VDP.
    pub received: u64,
    /// Of these through the software stage.
    pub through_software: u64,
    /// Copies made.
    pub cloned: u64,
    /// Made by its program.
    pub generated: u64,
    /// Sent.
    pub forwarded: u64,
    /// Ended at its program.
    pub consumed: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Still inside.
    pub held: u64,
}

/// Networks with a controller each.
#[derive(Debug, Default, Serialize)]
pub struct Networks {
    /// Whose controllers they are.
    pub controllers: String,
    /// The networks, which all use the same addresses.
    pub networks: Vec<Network>,
    /// Pings for a host that no network has.
    pub strange_pings: u64,
    /// Answers to them.
    pub strange_answers: u64,
    /// Ports of the asking networks at which their questions were heard.
    pub heard_at_home: u64,
    /// Frames that hosts of the other networks got meanwhile.
    pub strange_frames: u64,
    /// What does not add up.
    pub imbalance: Option<String>,
    /// How long it took, the controllers' start included.
    pub seconds: f64,
}

/// One network.
#[derive(Debug, Serialize)]
pub struct Network {
    /// Its VDP.
    pub vid: u16,
    /// Its controller.
    pub controller: String,
    /// The version of OpenFlow that this speaks.
    pub version: String,
    /// Its hosts.
    pub hosts: usize,
    /// Pings sent between them.
    pub pings: usize,
    /// Pings answered.
    pub answered: usize,
    /// Half of the first pings took at most this, ARP and the controller's thinking included, in
    /// microseconds.
    pub first_us: f64,
    /// Half of the second ones.
    pub later_us: f64,
    /// Flows that the controller has installed by then.
    pub flows: usize,
}

/// Two tenants and a guest network on one data plane, by `weir apply` of a LAB file.
#[derive(Debug, Default, Serialize)]
pub struct Shared {
    /// The networks of the file.
    pub networks: Vec<String>,
    /// What it took to make them, step by step.
    pub steps: Vec<String>,
    /// From the file to networks that hold.
    pub applied_ms: f64,
    /// The proof of isolation: after the file was applied, under attack, and without the guest.
    pub proofs: Vec<Proof>,
    /// One tenant's moves to the slow path and back, under attack.
    pub moves_ms: Vec<f64>,
    /// Frames that the guest sent, as fast as they were taken.
    pub flooded: u64,
    /// Beside these, frames of its that say they are a tenant's.
    pub spoofed: u64,
    /// The guest's frames that came out.
    pub guest_arrived: u64,
    /// What each tenant noticed.
    pub tenants: Vec<Noticed>,
    /// Frames that came out where or as they must not.
    pub strange: u64,
    /// What does not add up.
    pub imbalance: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// What `weir net verify` says.
#[derive(Debug, Serialize)]
pub struct Proof {
    /// Whether isolation is proved.
    pub isolated: bool,
    /// Networks.
    pub networks: usize,
    /// Rules.
    pub rules: usize,
    /// How long that took.
    pub decided_us: u64,
}

/// What a tenant noticed.
#[derive(Debug, Default, Serialize)]
pub struct Noticed {
    /// Which.
    pub network: String,
    /// Frames sent, numbered.
    pub sent: u64,
    /// Frames that came out.
    pub arrived: u64,
    /// Never came out.
    pub lost: u64,
    /// Came out twice or behind a later one.
    pub again: u64,
}

/// VDPs that moved under load.
#[derive(Debug, Default, Serialize)]
pub struct Moving {
    /// VDPs with traffic, which took turns.
    pub vdps: usize,
    /// Flows.
    pub flows: usize,
    /// Moves to the slow path and back again.
    pub round_trips: u64,
    /// Attempts to come back that took too long and were made again.
    pub given_up: u64,
    /// Frames sent into the data plane.
    pub sent: u64,
    /// Frames that came out.
    pub arrived: u64,
    /// Of them through the software stage.
    pub through_software: u64,
    /// Never came out.
    pub lost: u64,
    /// Came out more than once.
    pub duplicated: u64,
    /// Came out behind a later one of their flow.
    pub reordered: u64,
    /// Came out as something else.
    pub damaged: u64,
    /// Frames held during a move: the most.
    pub most_held: u64,
    /// Frames held, all moves together.
    pub held: u64,
    /// Draining a channel: half of the times took at most this, in microseconds.
    pub drain_median_us: f64,
    /// The longest, in microseconds.
    pub drain_longest_us: f64,
    /// Frames per second while VDPs moved, in millions.
    pub mpps: f64,
    /// How long it took.
    pub seconds: f64,
    /// What does not add up.
    pub imbalance: Option<String>,
}

/// From few VDPs to many.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// Rules of each VDP.
    pub rules_per_vdp: usize,
    /// Bytes of a frame, with FCS.
    pub frame_bytes: usize,
    /// Measurements of each rate; the median counts.
    pub runs: usize,
    /// Length of one.
    pub run_seconds: f64,
    /// A step for each number of VDPs.
    pub steps: Vec<Step>,
}

/// One number of VDPs.
#[derive(Debug, Serialize)]
pub struct Step {
    /// VDPs.
    pub vdps: usize,
    /// Action rules in all.
    pub rules: usize,
    /// Making them all, rules included.
    pub created_ms: f64,
    /// Memory of their tables, in MiB.
    pub tables_mib: f64,
    /// Memory of the whole process then, in MiB.
    pub resident_mib: Option<f64>,
    /// Million frames per CPU-second of the worker: the median of the runs.
    pub mpps_per_cpu_s: f64,
    /// Its reverse.
    pub ns_per_frame: f64,
    /// Every run, in order.
    pub runs_mpps_per_cpu_s: Vec<f64>,
    /// Frames received in all runs.
    pub received: u64,
    /// Frames forwarded in all runs.
    pub forwarded: u64,
    /// What does not add up.
    pub imbalance: Option<String>,
    /// The TCAM then.
    pub tcam: TcamUse,
}

/// What the VDPs have of the TCAM, and what a lookup wakes.
#[derive(Clone, Debug, Serialize)]
pub struct TcamUse {
    /// Entries of the mapping part, used and in all.
    pub mapping_entries: [u32; 2],
    /// Entries of the action part, used and in all.
    pub action_entries: [u32; 2],
    /// Entries of a slice.
    pub slice_entries: u32,
    /// Blocks that hold slices.
    pub blocks_in_use: u32,
    /// Blocks that a lookup wakes: the mean over the VDPs.
    pub woken_mean: f64,
    /// And the most.
    pub woken_most: u32,
    /// All blocks.
    pub blocks: u32,
}

/// Two OpenFlow switches, measured side by side.
#[derive(Debug, Default, Serialize)]
pub struct Measuring {
    /// What the embedded one is called.
    pub embedded: String,
    /// Each module on each of them.
    pub all: Vec<Measured>,
    /// Faults that the other one was configured with.
    pub faults: usize,
    /// Of them, those that the instrument named.
    pub named: usize,
    /// Verdicts that hold though a fault was configured.
    pub missed: Vec<String>,
    /// What the embedded one promises and did not keep; measurements that ended early.
    pub broken: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// One module on one of them.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// The module.
    pub module: String,
    /// The switch.
    pub device: String,
    /// How long it took.
    pub seconds: f64,
    /// What follows.
    pub verdicts: Vec<Judged>,
}

/// A verdict.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The statement.
    pub verdict: String,
    /// `holds`, `fails` or `unclear`.
    pub outcome: &'static str,
    /// What was found.
    pub sentence: String,
}

/// Network functions of this data plane, predicted by a brief calibration and then measured. How far off
/// a prediction is depends on what else the machine does: it is told, not judged.
#[derive(Debug, Default, Serialize)]
pub struct Predicting {
    /// The clock that was found.
    pub clock_mhz: f64,
    /// Figures of the calibration.
    pub figures: usize,
    /// How long that took.
    pub calibration_seconds: f64,
    /// The functions.
    pub functions: Vec<Predicted>,
    /// How long it all took.
    pub seconds: f64,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct Predicted {
    /// Its name, which is its model's.
    pub function: &'static str,
    /// Entries of its table.
    pub entries: u32,
    /// Bytes of a frame, FCS included.
    pub frame_bytes: u32,
    /// Millions of frames per CPU-second, before any ran.
    pub predicted_mfps: f64,
    /// Between these, the estimator says.
    pub interval_mfps: [f64; 2],
    /// And measured.
    pub measured_mfps: f64,
    /// Predicted over measured rate, less one.
    pub error: f64,
}

impl Report {
    /// Writes down what must not be.
    pub fn judge(&mut self) {
        let mut f = Vec::new();
        let w = &self.forwarding;
        f.extend(w.imbalances.iter().cloned());
        if !w.different.is_empty() {
            f.push(format!("the paths differ on frame {}", w.different[0]));
        }
        if w.routed_as_kernel != w.routed {
            let n = w.routed - w.routed_as_kernel;
            f.push(format!("{n} routed frames differ from the kernel's"));
        }
        let t = &self.networks;
        f.extend(t.imbalance.iter().cloned());
        for n in t.networks.iter().filter(|n| n.answered != n.pings) {
            let lost = n.pings - n.answered;
            f.push(format!("network {}: {lost} of {} pings not answered", n.vid, n.pings));
        }
        if t.strange_frames + t.strange_answers > 0 {
            f.push(format!("{} frames came into another network", t.strange_frames));
        }
        let t = &self.shared;
        f.extend(t.imbalance.iter().cloned());
        if let Some(p) = t.proofs.iter().find(|p| !p.isolated) {
            f.push(format!("{} networks on one data plane are not isolated", p.networks));
        }
        for n in t.tenants.iter().filter(|n| n.lost + n.again > 0) {
            let (lost, again) = (n.lost, n.again);
            f.push(format!("network {}: {lost} frames lost, {again} twice or late", n.network));
        }
        if t.strange > 0 {
            f.push(format!("{} frames of the guest passed for others", t.strange));
        }
        let m = &self.moving;
        for (n, what) in [
            (m.lost, "lost"),
            (m.duplicated, "duplicated"),
            (m.reordered, "reordered"),
            (m.damaged, "damaged"),
        ] {
            if n > 0 {
                f.push(format!("{n} frames {what} while VDPs moved"));
            }
        }
        f.extend(m.imbalance.iter().cloned());
        for s in &self.growth.steps {
            f.extend(s.imbalance.iter().map(|i| format!("with {} VDPs: {i}", s.vdps)));
            if s.forwarded != s.received {
                let n = s.received.abs_diff(s.forwarded);
                f.push(format!("with {} VDPs: {n} frames not forwarded", s.vdps));
            }
        }
        let m = &self.measuring;
        f.extend(m.missed.iter().map(|id| format!("a configured fault was not found: {id} holds")));
        f.extend(m.broken.iter().cloned());
        self.failures = f;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Report {
        Report {
            capture: CaptureFacts { frames: 1, bytes: 60, ports: 1, seconds: 0.0 },
            forwarding: Forwarding {
                vdps: Vec::new(),
                imbalances: Vec::new(),
                compared: 1,
                different: Vec::new(),
                routed: 1,
                routed_as_kernel: 1,
            },
            networks: Networks::default(),
            shared: Shared::default(),
            moving: Moving::default(),
            growth: Growth {
                rules_per_vdp: 16,
                frame_bytes: 64,
                runs: 1,
                run_seconds: 0.1,
                steps: Vec::new(),
            },
            measuring: Measuring::default(),
            predicting: Predicting::default(),
            seconds: 0.0,
            failures: Vec::new(),
        }
    }

    #[test]
    fn what_must_not_be_is_found() {
        let judged = |spoil: &dyn Fn(&mut Report)| {
            let mut r = well();
            spoil(&mut r);
            r.judge();
            r.failures.join("; ")
        };
        assert_eq!(judged(&|_| {}), "");
        assert_eq!(
            judged(&|r| r.networks.strange_frames = 2),
            "2 frames came into another network"
        );
        assert_eq!(
            judged(&|r| r.measuring.missed = vec!["barrier-truthful".to_owned()]),
            "a configured fault was not found: barrier-truthful holds"
        );
        assert_eq!(judged(&|r| r.shared.strange = 1), "1 frames of the guest passed for others");
        let lost = || Noticed { network: "red".to_owned(), lost: 2, ..Noticed::default() };
        assert_eq!(
            judged(&|r| r.shared.tenants = vec![lost()]),
            "network red: 2 frames lost, 0 twice or late"
        );
        assert_eq!(judged(&|r| r.measuring.broken = vec!["x".to_owned()]), "x");
        assert_eq!(judged(&|r| r.moving.lost = 3), "3 frames lost while VDPs moved");
        assert_eq!(judged(&|r| r.moving.reordered = 1), "1 frames reordered while VDPs moved");
        assert_eq!(judged(&|r| r.moving.imbalance = Some("off".to_owned())), "off");
        assert_eq!(judged(&|r| r.forwarding.different = vec![7]), "the paths differ on frame 7");
        assert_eq!(
            judged(&|r| r.forwarding.routed = 3),
            "2 routed frames differ from the kernel's"
        );
        assert_eq!(judged(&|r| r.forwarding.imbalances = vec!["x".to_owned()]), "x");
    }
}
