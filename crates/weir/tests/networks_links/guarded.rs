//! Guards that the daemon watches: told, and done, on its stream of events.

use super::super::serve::{event, spawn, token};
use super::{Tenant, frame, substrate};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the stream says of the first guard that applies while a node is flooded.
fn flooded(red: &mut Tenant, mut events: impl Iterator<Item = std::io::Result<String>>) -> Value {
    let told = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !told.load(Ordering::Relaxed) {
                n += 1;
                red.send(1, 1, &frame("red", n, 60));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let heard = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            event(&mut events, "guard").1
        }));
        told.store(true, Ordering::Relaxed);
        heard.unwrap()
    })
}

#[test]
fn the_daemon_tells_of_a_flood_and_acts_where_it_shall() {
    let (daemons, s) = substrate("east");
    let mut red = Tenant::new("red");
    let guard = "[[guard]]\nname = 'flood'\nnetwork = 'red'\nnode = 's2'\nrate = 'received-frames'\nabove = 1\nfor_s = 1\n";
    s.apply(&(red.network("east east", "") + guard));
    red.accept(2);
    let op = token(&s, &["--role", "operator"]);
    let cut =
        || daemons[0].json(&["show", "--vdp", "red.s2"])["vdps"][0]["detail"]["isolated"] == true;
    let api = spawn(&s, "guards = 'tell'");
    let told = flooded(&mut red, api.events(&op));
    assert_eq!(told["networks"], json!(["red"]));
    let g = &told["guard"];
    assert_eq!((&g["guard"], &g["node"]), (&"flood".into(), &"s2".into()));
    assert_eq!((&g["act"], &g["outcome"]), (&"isolate".into(), &"dry-run".into()));
    assert!(g["per_s"].as_u64() > Some(1) && !cut(), "{told}");
    drop(api);
    let api = spawn(&s, "guards = 'act'\nverify = true");
    let told = flooded(&mut red, api.events(&op));
    assert_eq!((&told["guard"]["outcome"], &told["revision"]), (&"done".into(), &2.into()));
    assert!(cut());
    drop(api);
    // It is a change like any other, and taken back like one.
    s.ask(&["net", "set", "red", "s2", "isolated="]);
    assert!(!cut());
    daemons.into_iter().for_each(|d| drop(d.stop()));
}
