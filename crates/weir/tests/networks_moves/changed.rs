//! Nodes that are changed while another host processes them: not where they stay there, and on their way home.

use super::*;

/// `PLAIN` with more keys of its node.
fn plain(more: &str) -> String {
    PLAIN.replacen("default =", &format!("{more}\ndefault ="), 1)
}

const OTHER: &str = "[[network]]\nname = 'other'\n[[network.node]]\nname = 's1'\nhost = 'west'\n\
                     ports = ['w1']\n";

#[test]
fn what_a_host_that_is_away_can_not_change_is_refused_before_it_is_begun() {
    let mut w = world();
    w.s.apply(&format!("{PLAIN}{OTHER}"));
    let load = w.load(Duration::from_millis(20));
    w.moved("west");
    let set = ["net", "set", "red", "s1", "cpu_permille=100"];
    for dry in [&["--dry-run"][..], &[]] {
        let told = w.s.refused(&[&set[..], dry].concat(), 2);
        let mend = "weir net migrate red s1 --to east";
        assert!(told.contains("host 'west'") && told.contains(mend), "{told}");
    }
    assert!(!w.s.ask(&["net", "recover"]).contains("steps"), "nothing was begun");
    w.s.ask(&["net", "set", "other", "s1", "cpu_permille=9"]);
    // Home and changed at once: home first.
    let file = w.s.lab(&format!("{}{OTHER}", plain("cpu_permille = 50")));
    let file = file.display().to_string();
    let told = w.s.ask(&["apply", "--dry-run", &file]);
    let at = |what: &str| told.find(what).unwrap_or_else(|| panic!("no '{what}' in {told}"));
    assert!(at("> red/s1: from west to east") < at("+ cpu_permille = 50"), "{told}");
    insists(&w.s, &["apply", &file]);
    let seen = w.at_east();
    assert_eq!((&seen["phase"], &seen["detail"]["cpu_permille"]), (&"fast".into(), &50.into()));
    w.is_home_beside(1);
    load.some();
    load.finish();
    w.end();
}

#[test]
fn a_change_on_the_way_that_is_killed_keeps_up_no_other_network() {
    let mut w = world();
    let gate = Gate::default();
    for (name, d) in [("east", &w.east), ("west", &w.west)] {
        let path = w.s.path(&format!("{name}.door"));
        gate.door(&path, d.socket());
        let from = w.s.hosts.find("api = '127.0.0.1").unwrap();
        let to = from + w.s.hosts[from..].find('\n').unwrap();
        w.s.hosts.replace_range(from..to, &format!("api = 'unix:{}'", path.display()));
    }
    w.s.apply(&format!("{PLAIN}{OTHER}"));
    let load = w.load(Duration::from_millis(20));
    let before = gate.passed();
    insists(&w.s, &["net", "migrate", "red", "s1", "--to", "west"]);
    let steps = gate.passed() - before;
    insists(&w.s, &["net", "migrate", "red", "s1", "--to", "east"]);
    let changed = format!("{}{OTHER}", plain("away = 'west'\ncpu_permille = 50"));
    let is = |away: bool, cpu: u32| {
        let seen = w.at_east();
        assert_eq!((seen["phase"] == "away", &seen["detail"]["cpu_permille"]), (away, &cpu.into()));
    };
    // The node is changed, and then it goes: undone, it comes back before it is changed back.
    for n in [steps - 1, steps, steps + 1] {
        let file = w.s.lab(&changed).display().to_string();
        if !gate.run(w.s.command(&["apply", &file]), n, What::KillAfter) {
            insists(&w.s, &["net", "recover", "--back"]);
        } else {
            w.s.apply(&format!("{PLAIN}{OTHER}"));
        }
        is(false, 0);
        // Finished, by a change of another network.
        let whole = gate.run(w.s.command(&["apply", &file]), n, What::KillAfter);
        let told = insists(&w.s, &["net", "set", "other", "s1", &format!("cpu_permille={n}")]);
        let told = String::from_utf8_lossy(&told).into_owned();
        assert_eq!(told.contains("a change that was interrupted is finished"), !whole, "{told}");
        is(true, 50);
        w.s.apply(&format!("{PLAIN}{OTHER}"));
        is(false, 0);
    }
    w.is_home_beside(1);
    load.some();
    load.finish();
    w.end();
}
