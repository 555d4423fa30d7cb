//! `weir serve` with real sockets, on real `weir run`s.

mod fvctl;

use super::{BLUE, RED, Supervisor, TRUNK, has, names, two};
use crate::certificates::Authority;
use crate::run_daemon::{Daemon, LIMIT, weir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// A `weir serve` of a supervisor's store.
pub struct Serving {
    child: Child,
    at: String,
    /// What it has said before it served.
    begins: Vec<String>,
    /// What it says.
    said: Mutex<Receiver<String>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
    /// The body of an answer of this status.
    fn of(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.json()
    }
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|l| l.split_once(": "));
        lines.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }
}

pub fn spawn(s: &Supervisor, config: &str) -> Serving {
    std::fs::write(
        s.path("serve.toml"),
        format!("store = 'net.redb'\ntokens = 'tokens'\n{config}"),
    )
    .unwrap();
    let mut child = weir()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .arg(s.path("serve.toml"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut begins = Vec::new();
    let at = loop {
        let line = lines.next().expect("it has ended").unwrap();
        if let Some((_, at)) = line.split_once("://") {
            break at.to_owned();
        }
        begins.push(line);
    };
    let (say, said) = channel();
    // What it says later may be nobody's, but must find room.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|l| drop(say.send(l))));
    Serving { child, at, begins, said: Mutex::new(said) }
}

pub fn token(s: &Supervisor, arguments: &[&str]) -> String {
    let mut c = weir();
    c.args(["token", "add"]).args(arguments).arg("--tokens").arg(s.path("tokens"));
    let o = c.output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).unwrap().trim().to_owned()
}

fn read(mut stream: impl Read) -> Answer {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let all = String::from_utf8(all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn request(method: &str, path: &str, token: &str, more: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    )
}

impl Serving {
    fn connect(&self) -> TcpStream {
        let tcp = TcpStream::connect(&self.at).unwrap();
        tcp.set_read_timeout(Some(LIMIT)).unwrap();
        tcp
    }
    /// The stream of events, from now on.
    pub fn events(&self, token: &str) -> impl Iterator<Item = std::io::Result<String>> + use<> {
        let mut tcp = self.connect();
        tcp.write_all(request("GET", "/v1/events", token, "", "").as_bytes()).unwrap();
        let mut lines = BufReader::new(tcp).lines();
        // Whoever hears this is heard.
        assert!(lines.any(|l| l.unwrap() == ": weir"));
        lines
    }
    fn ask_with(&self, token: &str, method: &str, path: &str, more: &str, body: &str) -> Answer {
        let mut tcp = self.connect();
        tcp.write_all(request(method, path, token, more, body).as_bytes()).unwrap();
        read(tcp)
    }
    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask_with(token, method, path, "", &body)
    }
    fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(token, "GET", path, &Value::Null)
    }
    /// Ends it, as asked.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// The lab of a supervisor with these networks, as the API takes it.
fn lab(s: &Supervisor, networks: &str) -> Value {
    let text = std::fs::read_to_string(s.lab(networks)).unwrap();
    let mut lab: Value = toml::from_str(&text).unwrap();
    for file in ["certificate", "key", "ca"] {
        let path = s.path(lab["tls"][file].as_str().unwrap());
        lab["tls"][file] = path.display().to_string().into();
    }
    lab
}

fn network(text: &str) -> Value {
    let file: Value = toml::from_str(text).unwrap();
    file["network"][0].clone()
}

#[test]
fn the_primitives_over_http_are_those_of_the_command_line() {
    let (east, west, s) = two();
    let before = (has(&east), has(&west));
    let api = spawn(&s, "");
    let op = token(&s, &["--role", "operator"]);
    let dry = api.ask(&op, "PUT", "/v1/lab?dry_run=true", &lab(&s, TRUNK)).of(200);
    assert_eq!((&dry["made"], &dry["revision"]), (&false.into(), &0.into()));
    let applied = api.ask(&op, "PUT", "/v1/lab", &lab(&s, TRUNK)).of(200);
    assert_eq!((&applied["made"], &applied["revision"]), (&true.into(), &1.into()));

    // Instantiate: worked out, made, there already.
    let red = network(RED);
    let dry = api.ask(&op, "POST", "/v1/networks?dry_run=true", &red).of(200);
    assert_eq!(dry["steps"][0]["step"], "+ east: VDP 1 red.s1");
    assert!(
        dry["steps"][0]["added"]
            .as_array()
            .unwrap()
            .contains(&"ports = [\"e1\", \"trunk\"]".into())
    );
    assert_eq!((has(&east), has(&west)), before);
    let made = api.ask(&op, "POST", "/v1/networks", &red);
    assert_eq!(made.header("location"), Some("/v1/networks/red"));
    let tag = made.header("etag").unwrap().to_owned();
    assert_eq!(made.of(201)["revision"], 2);
    assert_eq!(names(&east), ["red.s1"]);
    assert_eq!(api.ask(&op, "POST", "/v1/networks", &red).of(409)["code"], "exists");
    let shown = api.get(&op, "/v1/networks/red");
    assert_eq!(shown.header("etag"), Some(&*tag));
    assert_eq!(shown.of(200)["places"][1]["host"], "west");
    // The same for who asks otherwise.
    assert!(s.ask(&["net", "list"]).contains("red"));

    // Set, only if it is as it was read; migrate; put.
    let node = "/v1/networks/red/nodes/s1";
    let set = json!({ "cpu_permille": 250 });
    api.ask(&op, "PATCH", node, &set).of(200);
    let vdp = |field: &str| east.json(&["show", "--vdp", "red.s1"])["vdps"][0][field].clone();
    assert_eq!(vdp("detail")["cpu_permille"], 250);
    let stale = format!("If-Match: {tag}\r\n");
    let patch = "{\"flow_space\":[\"dl_vlan=11\"]}";
    let late = api.ask_with(&op, "PATCH", "/v1/networks/red", &stale, patch);
    assert_eq!(late.of(412)["code"], "changed");
    let now = api.get(&op, "/v1/networks/red");
    let fresh = format!("If-Match: {}\r\n", now.header("etag").unwrap());
    api.ask_with(&op, "PATCH", "/v1/networks/red", &fresh, patch).of(200);
    let held = api.get(&op, "/v1/networks/red");
    let new =
        api.ask_with(&op, "PUT", "/v1/networks/red", "If-None-Match: *\r\n", &red.to_string());
    assert_eq!(new.of(412)["code"], "exists");
    assert_eq!(api.get(&op, "/v1/networks/red").header("etag"), held.header("etag"));
    api.ask(&op, "POST", &format!("{node}/migrate"), &json!({ "path": "slow" })).of(200);
    assert_eq!(vdp("phase"), "slow");
    let again = api.ask(&op, "PUT", "/v1/networks/red", &red).of(200);
    assert_eq!(again["made"], true);
    assert_eq!(api.ask(&op, "PUT", "/v1/networks/red", &red).of(200)["made"], false);
    assert_eq!(vdp("phase"), "fast");

    // Monitor, verify, what held, metrics.
    let counters = api.get(&op, "/v1/networks/red/counters").of(200);
    assert_eq!(
        (&counters["nodes"][0]["there"], &counters["nodes"][0]["dropped_frames"]),
        (&true.into(), &0.into())
    );
    let proof = api.ask(&op, "POST", "/v1/verify", &Value::Null).of(200);
    assert_eq!((&proof["isolated"], proof["hosts"].as_array().unwrap().len()), (&true.into(), 2));
    assert_eq!(api.get(&op, "/v1/revisions/1").of(200)["lab"]["network"], json!([]));
    let metrics = api.get(&op, "/metrics").body;
    assert!(
        metrics.contains("weir_node_up{network=\"red\",node=\"s1\",host=\"east\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("weir_host_up{host=\"west\"} 1"), "{metrics}");
    // In the older text for who asks for that; of a host that does not answer only that it doesn't, whatever it counted before.
    west.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(300));
    let accept = "Accept: text/plain;version=0.0.4\r\n";
    let metrics = api.ask_with(&op, "GET", "/metrics", accept, "");
    west.signal(Signal::CONT);
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let of = |host: &str| {
        let label = format!("host=\"{host}\"}} ");
        let lines = metrics.body.lines().filter(|l| l.contains(&label));
        lines
            .map(|l| (l.split('{').next().unwrap(), l.rsplit(' ').next().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("west"), [("weir_node_up", "0"), ("weir_host_up", "0")], "{}", metrics.body);
    assert!(of("east").contains(&("weir_node_up", "1")) && of("east").len() > 15);
    assert!(metrics.body.contains("# TYPE weir_node_rules gauge\n"), "{}", metrics.body);
    assert!(metrics.body.contains("# TYPE weir_node_slow_frames_total counter\n"));
    let none = api.ask(&op, "POST", "/v1/recover", &json!({ "way": "on" })).of(200);
    assert_eq!(none["interrupted"], false);

    // What can't be is refused whole, in a line.
    let kept = (has(&east), has(&west));
    let mut bad = network(BLUE);
    bad["node"][0]["ports"] = json!(["e9"]);
    let told = api.ask(&op, "POST", "/v1/networks", &bad).of(422);
    assert!(
        told["detail"].as_str().unwrap().contains("no port 'e9': did you mean 'e1'?"),
        "{told}"
    );
    let mut clash = network(BLUE);
    clash["flow_space"] = json!(["dl_vlan=10"]);
    let told = api.ask(&op, "POST", "/v1/networks", &clash).of(422);
    assert!(told["detail"].as_str().unwrap().contains("red.s1's"), "{told}");
    assert_eq!((has(&east), has(&west)), kept);

    api.ask(&op, "DELETE", "/v1/networks/red", &Value::Null).of(200);
    assert_eq!((has(&east), has(&west)), before);
    assert_eq!(
        api.ask(&op, "DELETE", "/v1/networks/red", &Value::Null).of(404)["code"],
        "no-network"
    );
    api.stop();
    east.stop();
    west.stop();
}

#[test]
fn a_tenant_sees_his_own_and_another_s_is_as_if_it_were_not() {
    let (east, west, s) = two();
    let blue = BLUE.replace("name = 'blue'\n", "name = 'blue'\nowner = 'bob'\n");
    s.apply(&format!("{TRUNK}{RED}{blue}"));
    let api = spawn(&s, "");
    let op = token(&s, &["--role", "operator"]);
    let reader = token(&s, &["--role", "reader"]);
    let alice = token(&s, &["--role", "owner", "--owner", "alice"]);
    let all = |t: &str| {
        let v = api.get(t, "/v1/networks").of(200);
        let names = v["networks"].as_array().unwrap().iter();
        names.map(|n| n["network"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(all(&reader), ["red", "blue"]);
    assert_eq!(all(&alice), ["red"]);

    // Whatever is asked of another's is answered as of one that does not exist, to the byte.
    let new = network(RED);
    for (method, end, body) in [
        ("GET", "", Value::Null),
        ("PUT", "", new.clone()),
        ("PATCH", "", json!({ "owner": "alice" })),
        ("DELETE", "", Value::Null),
        ("DELETE", "?dry_run=true", Value::Null),
        ("GET", "/counters", Value::Null),
        ("GET", "/nodes/s1", Value::Null),
        ("PATCH", "/nodes/s1", json!({ "path": "slow" })),
        ("POST", "/nodes/s1/migrate", json!({ "path": "slow" })),
    ] {
        let of = |name: &str| {
            let mut body = body.clone();
            if body.get("name").is_some() {
                body["name"] = name.into();
            }
            let a = api.ask(&alice, method, &format!("/v1/networks/{name}{end}"), &body);
            let head =
                a.head.lines().filter(|l| !l.starts_with("x-request-id") && !l.starts_with("date"));
            (a.status, head.collect::<Vec<_>>().join("\n"), a.body.replace(name, "NAME"))
        };
        let (theirs, nobodys) = (of("blue"), of("grey"));
        assert_eq!(theirs.0, 404, "{method} {end}: {}", theirs.2);
        assert_eq!(theirs, nobodys, "{method} {end}");
    }

    // What is his to change he changes; what was granted to him he does not.
    api.ask(&alice, "POST", "/v1/networks/red/nodes/s1/migrate", &json!({ "path": "slow" }))
        .of(200);
    api.ask(&alice, "PATCH", "/v1/networks/red/nodes/s1", &json!({ "program": "sink" })).of(200);
    let told =
        api.ask(&alice, "PATCH", "/v1/networks/red/nodes/s1", &json!({ "cpu_permille": 900 }));
    assert!(told.of(403)["detail"].as_str().unwrap().contains("cpu_permille"));
    for (method, path, body) in [
        ("POST", "/v1/networks", new),
        ("GET", "/v1/lab", Value::Null),
        ("PUT", "/v1/lab", json!({})),
        ("POST", "/v1/verify", Value::Null),
        ("GET", "/v1/revisions/1", Value::Null),
        ("GET", "/metrics", Value::Null),
        ("POST", "/v1/recover", json!({ "way": "back" })),
    ] {
        assert_eq!(api.ask(&alice, method, path, &body).of(403)["code"], "forbidden", "{path}");
    }
    for (method, path, body) in [
        ("DELETE", "/v1/networks/red", Value::Null),
        ("PATCH", "/v1/networks/red", json!({})),
        ("PUT", "/v1/networks/red", network(RED)),
        ("PUT", "/v1/networks/grey", json!({ "name": "grey", "node": [] })),
        ("POST", "/v1/recover", json!({ "way": "on" })),
    ] {
        assert_eq!(api.ask(&reader, method, path, &body).of(403)["code"], "forbidden", "{path}");
    }
    assert_eq!(api.get(&reader, "/v1/lab").status, 200);

    // A token that was removed, one that has ended, one that never was.
    let gone = token(&s, &["--role", "reader"]);
    let id = gone.split('_').nth(1).unwrap();
    let mut c = weir();
    assert!(
        c.args(["token", "remove", id, "--tokens"])
            .arg(s.path("tokens"))
            .status()
            .unwrap()
            .success()
    );
    let ended = token(&s, &["--role", "reader", "--expires", "1s"]);
    east.until("the token's end", |_| api.get(&ended, "/v1/networks").status == 401);
    for t in [&*gone, &ended, "weir_1_2", "", "x y"] {
        assert_eq!(api.get(t, "/v1/networks").of(401)["code"], "unauthorized");
    }
    // Whoever owns it may let it go.
    api.ask(&alice, "DELETE", "/v1/networks/red", &Value::Null).of(200);
    assert_eq!(all(&op), ["blue"]);
    api.stop();
    east.stop();
    west.stop();
}

/// Reads events until one of this kind comes: its id and its data.
pub fn event(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    kind: &str,
) -> (String, Value) {
    let (mut at, mut id) = (String::new(), String::new());
    loop {
        let line = lines.next().expect("the stream goes on").unwrap();
        if let Some(k) = line.strip_prefix("event: ") {
            at = k.to_owned();
        } else if let Some(i) = line.strip_prefix("id: ") {
            id = i.to_owned();
        } else if let Some(d) = line.strip_prefix("data: ").filter(|_| at == kind) {
            return (id, serde_json::from_str(d).unwrap());
        }
    }
}

#[test]
fn what_happens_is_told_and_told_again_from_where_one_was() {
    let (east, west, s) = two();
    s.apply(&format!("{TRUNK}{RED}"));
    let api = spawn(&s, "");
    let op = token(&s, &["--role", "operator"]);
    let alice = token(&s, &["--role", "owner", "--owner", "alice"]);
    let listen = |token: &str, more: &str, query: &str| {
        let mut tcp = api.connect();
        let path = format!("/v1/events{query}");
        tcp.write_all(request("GET", &path, token, more, "").as_bytes()).unwrap();
        let mut lines = BufReader::new(tcp).lines();
        // Whoever hears this is heard.
        assert!(lines.any(|l| l.unwrap() == ": weir"));
        lines
    };
    let (mut all, mut hers) = (listen(&op, "", ""), listen(&alice, "", ""));
    let mut blue = network(BLUE);
    blue["owner"] = "bob".into();
    api.ask(&op, "POST", "/v1/networks", &blue).of(201);
    let (first, data) = event(&mut all, "change");
    assert_eq!((&data["networks"], &data["revision"]), (&json!(["blue"]), &2.into()));
    assert_eq!(data["steps"][0]["step"], "+ east: VDP 2 blue.s1");
    api.ask(&alice, "PATCH", "/v1/networks/red/nodes/s1", &json!({ "program": "sink" })).of(200);
    let (second, data) = event(&mut all, "change");
    assert_eq!((&data["networks"], &data["revision"]), (&json!(["red"]), &3.into()));
    assert!(data["by"].is_string());
    // She has not heard of his.
    let (id, data) = event(&mut hers, "change");
    assert_eq!((&id, &data["networks"], &data["by"]), (&second, &json!(["red"]), &Value::Null));
    // Who changes it another way is heard of, too.
    s.ask(&["net", "migrate", "red", "s1", "--path", "slow"]);
    assert_eq!(event(&mut all, "change").1["networks"], json!(["red"]));
    // Resumed behind the first.
    let mut again = listen(&op, &format!("Last-Event-ID: {first}\r\n"), "");
    assert_eq!(event(&mut again, "change").0, second);
    // From another run, or nonsense: everything must be read anew.
    for wrong in ["1-1", "x", &format!("{}9", first)] {
        event(&mut listen(&op, &format!("Last-Event-ID: {wrong}\r\n"), ""), "missed");
    }
    let (_, counters) = event(&mut listen(&alice, "", "?observe_ms=100"), "counters");
    assert_eq!(counters.as_array().unwrap().len(), 1);
    assert_eq!(counters[0]["network"], "red");
    api.stop();
    east.stop();
    west.stop();
}

#[test]
fn a_change_that_would_leak_is_refused_with_its_frame_before_it_is_made() {
    let (east, west, s) = two();
    s.apply(&format!("{TRUNK}{RED}{BLUE}"));
    let api = spawn(&s, "verify = true\n");
    let op = token(&s, &["--role", "operator"]);
    let before = (has(&east), has(&west));
    let rule = json!({ "rule": [{ "priority": 9, "actions": "mod_vlan_vid:20,output:1" }] });
    let told = api.ask(&op, "PATCH", "/v1/networks/red/nodes/s1", &rule).of(422);
    assert_eq!(told["code"], "not-isolated", "{told}");
    let leak = &told["leaks"][0];
    assert!(leak["frame"].is_string() && leak["from"] == "red" && leak["to"] == "blue", "{told}");
    assert!(told["detail"].as_str().unwrap().contains(leak["frame"].as_str().unwrap()));
    assert_eq!((has(&east), has(&west)), before);
    // Whose it is hears which rule of his own it is, and nothing of whom it would reach.
    let alice = owner(&s, "alice");
    let told = api.ask(&alice, "PATCH", "/v1/networks/red/nodes/s1", &rule).of(422);
    let text = told["detail"].as_str().unwrap();
    assert_eq!((&told["code"], &told["leaks"]), (&json!("not-isolated"), &Value::Null), "{told}");
    assert!(text.contains("network 'red', VDP") && text.contains("4116->vlan_vid"), "{text}");
    assert!(!text.contains("blue") && !text.contains("frame "), "{text}");
    let fine = json!({ "rule": [{ "priority": 9, "actions": "output:1" }] });
    api.ask(&op, "PATCH", "/v1/networks/red/nodes/s1", &fine).of(200);
    api.stop();
    // A lab that says so is held to it by every door.
    let lab = format!(
        "verify = true\n{}",
        std::fs::read_to_string(s.lab(&format!("{TRUNK}{RED}{BLUE}"))).unwrap()
    );
    let leaks = lab.replacen(
        "program = 'learning'",
        "rule = [{ actions = 'mod_vlan_vid:20,output:1' }]",
        1,
    );
    let path = s.path("v.toml");
    std::fs::write(&path, leaks).unwrap();
    let told = s.refused(&["apply", &super::text(&path)], 2);
    assert!(
        told.contains("not isolated: host 'east', VDP 1 (red.s1)") && told.contains("frame "),
        "{told}"
    );
    std::fs::write(&path, lab).unwrap();
    s.ask(&["apply", &super::text(&path)]);
    east.stop();
    west.stop();
}

/// Under `verify = true` what one network does already keeps up no change of others, nor what cuts it off; it is told to
/// whoever sees all, and what leaks anew is refused beside it.
#[test]
fn a_leak_that_is_there_keeps_up_no_change_of_others() {
    let (east, west, mut s) = two();
    let leaky = RED.replacen(
        "program = 'learning'",
        "rule = [{ actions = 'mod_vlan_vid:20,output:1' }]",
        1,
    );
    let blue = BLUE.replace("name = 'blue'\n", "name = 'blue'\nowner = 'bob'\n");
    let all = format!("{TRUNK}{leaky}{blue}");
    s.apply(&all);
    let api = spawn(&s, "verify = true\n");
    let op = token(&s, &["--role", "operator"]);
    let bob = owner(&s, "bob");
    let (reds, blues) = ("/v1/networks/red/nodes/s1", "/v1/networks/blue/nodes/s1");
    let as_it_is = |told: &Value| {
        let steps = told["steps"].as_array().unwrap().iter();
        let lines = steps.filter_map(|s| s["step"].as_str());
        lines.filter(|l| l.contains("host 'east' is not isolated as it is")).count()
    };
    let told = api.ask(&op, "PATCH", blues, &json!({ "cpu_permille": 7 })).of(200);
    assert_eq!((&told["made"], as_it_is(&told)), (&json!(true), 1), "{told}");
    // His own change is made, and he hears nothing of red.
    let rule = json!({ "rule": [{ "match": "in_port=1", "actions": "drop" }] });
    let told = api.ask(&bob, "PATCH", blues, &rule).of(200);
    assert!(told["made"] == true && !told.to_string().contains("red"), "{told}");
    // One that leaks itself is refused for that alone.
    let rule = json!({ "rule": [{ "priority": 9, "actions": "mod_vlan_vid:10,output:in_port" }] });
    let told = api.ask(&op, "PATCH", blues, &rule).of(422);
    let leaks = told["leaks"].as_array().unwrap();
    assert!(!leaks.is_empty() && leaks.iter().all(|l| l["from"] == "blue"), "{told}");
    // A lab that says so is held to it, and says what is so already.
    s.hosts.insert_str(0, "verify = true\n");
    let told = s.apply(&all);
    assert!(told.contains("host 'east' is not isolated as it is, whatever this changes"), "{told}");
    assert!(told.contains("frames of network 'red'"), "{told}");
    // Cut off, red reaches nobody; let in again it would.
    let told = api.ask(&op, "PATCH", reds, &json!({ "isolated": true })).of(200);
    assert_eq!(as_it_is(&told), 0, "{told}");
    assert_eq!(api.ask(&op, "POST", "/v1/verify", &Value::Null).of(200)["isolated"], true);
    api.ask(&op, "PATCH", reds, &json!({ "isolated": false })).of(422);
    api.stop();
    east.stop();
    west.stop();
}

#[test]
fn elsewhere_it_is_tls_and_bytes_that_are_no_request_end_alone() {
    let (east, west, s) = two();
    let ca = Authority::new();
    ca.signs("localhost").write(&ca, s.dir.path(), "api");
    let api = spawn(&s, "tls = { certificate = 'api.pem', key = 'api.key' }\n");
    let op = token(&s, &["--role", "operator"]);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(ca.roots())
        .with_no_client_auth();
    let config = Arc::new(config);
    let by_tls = |text: &[u8]| {
        let name = ServerName::try_from("localhost").unwrap();
        let conn = ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut stream = StreamOwned::new(conn, api.connect());
        // Who refuses need not have read it all, and may close without a word.
        let _ = stream.write_all(text);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    };
    let good = request("GET", "/v1/networks", &op, "", "");
    assert!(by_tls(good.as_bytes()).starts_with("HTTP/1.1 200"));
    // No TLS, no answer; nonsense, an answer of one kind.
    let mut plain = api.connect();
    plain.write_all(good.as_bytes()).unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!String::from_utf8_lossy(&said).contains("HTTP/1.1 200"));
    let said = api.said.lock().unwrap();
    let told = std::iter::from_fn(|| said.recv_timeout(LIMIT).ok()).find(|l| l.contains("refused"));
    assert!(told.is_some_and(|l| l.contains("what came is not TLS")), "said to who runs it");
    drop(said);
    let nonsense: [&[u8]; 4] = [
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/networks HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /v1/networks HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\nConnection: close\r\n\r\nzz",
    ];
    for bytes in nonsense {
        let answer = by_tls(bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let large = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let answer = by_tls(large.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert!(by_tls(good.as_bytes()).starts_with("HTTP/1.1 200"));
    // What is renewed is shown from the next SIGHUP on; what can't be read leaves what was shown.
    let hang_up = || kill_process(Pid::from_child(&api.child), Signal::HUP).unwrap();
    std::fs::write(s.path("api.pem"), "nothing").unwrap();
    hang_up();
    assert!(by_tls(good.as_bytes()).starts_with("HTTP/1.1 200"));
    Authority::new().signs("localhost").write(&ca, s.dir.path(), "api");
    hang_up();
    let said = api.said.lock().unwrap();
    let mut lines = std::iter::from_fn(|| said.recv_timeout(LIMIT).ok());
    assert!(lines.any(|l| l.contains("certificate read again")));
    drop(said);
    assert_eq!(by_tls(good.as_bytes()), "");
    api.stop();
    east.stop();
    west.stop();
}

/// Red, and blue of another owner.
fn two_tenants() -> (Daemon, Daemon, Supervisor) {
    let (east, west, s) = two();
    let blue = BLUE.replace("name = 'blue'\n", "name = 'blue'\nowner = 'bob'\n");
    s.apply(&format!("{TRUNK}{RED}{blue}"));
    (east, west, s)
}

fn owner(s: &Supervisor, name: &str) -> String {
    token(s, &["--role", "owner", "--owner", name])
}

#[test]
fn an_owner_is_told_what_is_wrong_with_his_own() {
    let (east, west, s) = two_tenants();
    let alice = owner(&s, "alice");
    let api = spawn(&s, "");
    let proofs = |l: &String| l.contains("changes are not proved") && l.contains("verify = true");
    assert!(api.begins.iter().any(proofs), "{:?}", api.begins);
    let many: Vec<String> = (0..2000).map(|i| format!("tcp:192.0.2.1:{}", 7000 + i)).collect();
    let rule = |matcher: &str, actions: &str| json!({ "rule": [{ "match": matcher, "actions": actions }] });
    for (patch, word) in [
        (rule("frobnicate", "drop"), "frobnicate"),
        (rule("in_port=nowhere", "drop"), "nowhere"),
        (rule("", "fry"), "fry"),
        (rule("", "output:w1"), "w1"),
        (json!({ "program": "router" }), "program 'router'"),
        (
            json!({ "program": null, "openflow": { "controllers": ["unix:/etc/passwd"] } }),
            "unix:/etc/passwd",
        ),
        (
            json!({ "program": null, "openflow": { "controllers": many } }),
            "2000 controllers: a VDP has 16 at most",
        ),
    ] {
        for dry in ["", "?dry_run=true"] {
            let at = format!("/v1/networks/red/nodes/s1{dry}");
            let told = api.ask(&alice, "PATCH", &at, &patch).of(422);
            let detail = told["detail"].as_str().unwrap();
            assert!(detail.contains("red.s1: ") && detail.contains(word), "{detail}");
            assert!(!detail.contains("blue") && !detail.contains("network["), "{detail}");
        }
    }
    api.stop();
    // Where changes are proved nobody needs to be told.
    let api = spawn(&s, "verify = true\n");
    assert!(!api.begins.iter().any(proofs), "{:?}", api.begins);
    api.stop();
    east.stop();
    west.stop();
}

#[test]
fn of_what_changes_hands_each_owner_hears_his_part() {
    let (east, west, s) = two_tenants();
    let api = spawn(&s, "");
    let op = token(&s, &["--role", "operator"]);
    let (alice, bob) = (owner(&s, "alice"), owner(&s, "bob"));
    let mut streams = [&op, &alice, &bob].map(|t| api.events(t));
    let mut red = network(RED);
    red["owner"] = "bob".into();
    red["node"][0]["program"] = "sink".into();
    api.ask(&op, "PUT", "/v1/networks/red", &red).of(200);
    let [all, hers, his] = streams.each_mut().map(|s| event(s, "change").1);
    for told in [&all, &hers, &his] {
        assert_eq!(told["networks"], json!(["red"]));
    }
    let part = |told: &Value, which: &str| told["steps"][0][which].to_string();
    assert!(part(&all, "removed").contains("learning") && part(&all, "added").contains("sink"));
    assert_eq!(hers["steps"], json!([]), "{hers}");
    assert!(part(&his, "added").contains("sink"), "{his}");
    assert_eq!(his["steps"][0]["removed"], Value::Null, "{his}");
    api.stop();
    east.stop();
    west.stop();
}

#[test]
fn if_match_holds_of_nodes_and_of_the_lab() {
    let (east, west, s) = two();
    s.apply(&format!("{TRUNK}{RED}"));
    let api = spawn(&s, "");
    let op = token(&s, &["--role", "operator"]);
    let node = "/v1/networks/red/nodes/s1";
    let migrate = format!("{node}/migrate");
    let tag = |path: &str| api.get(&op, path).header("etag").unwrap().to_owned();
    assert_eq!(tag(node), tag("/v1/networks/red"));
    let wanted = lab(&s, TRUNK).to_string();
    let asked = [
        ("PATCH", node, node, "{\"cpu_permille\":9}"),
        ("POST", &migrate, node, "{\"path\":\"slow\"}"),
        ("PUT", "/v1/lab", "/v1/lab", &wanted),
    ];
    let with = |method: &str, path: &str, tag: &str, body: &str| {
        api.ask_with(&op, method, path, &format!("If-Match: {tag}\r\n"), body)
    };
    for (method, path, of, body) in asked {
        let before = tag(of);
        assert_eq!(with(method, path, "\"0000\"", body).of(412)["code"], "changed");
        assert_eq!(tag(of), before);
        with(method, path, &before, body).of(200);
    }
    // What could never be is that, whatever held.
    let never = "{\"network\":[{\"name\":\"a.b\",\"node\":[]}]}";
    with("PUT", "/v1/lab", "\"0000\"", never).of(422);
    // What is not there is not what it was.
    assert_eq!(with("PUT", "/v1/networks/red", "*", &network(RED).to_string()).status, 412);
    api.stop();
    east.stop();
    west.stop();
}

#[test]
fn a_host_that_hangs_keeps_nobody_from_another_s_and_a_change_is_told_of_whoever_has_gone() {
    let (east, west, s) = two_tenants();
    let api = spawn(&s, "");
    let op = token(&s, &["--role", "operator"]);
    let (alice, bob) = (owner(&s, "alice"), owner(&s, "bob"));
    west.signal(Signal::STOP);
    let began = Instant::now();
    // A dry run waits for it without the store.
    let mut dry = api.connect();
    let at = "/v1/networks/red/nodes/s1?dry_run=true";
    let patch = request("PATCH", at, &op, "X-Request-Id: dry\r\n", "{\"path\":\"slow\"}");
    dry.write_all(patch.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(s.ask(&["net", "recover"]).contains("no change was interrupted"));
    // Red is at both, blue at the one that is well.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let red = api.get(&alice, "/v1/networks/red/counters").of(200);
                let there = |i: usize| red["nodes"][i]["there"].clone();
                assert_eq!((there(0), there(1)), (true.into(), false.into()));
            });
        }
        for _ in 0..40 {
            let blue = api.get(&bob, "/v1/networks/blue/counters").of(200);
            assert_eq!(blue["nodes"][0]["there"], true);
        }
    });
    // A host's own deadline is half a minute.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let mut tcp = api.connect();
    let body = "{\"cpu_permille\":7}";
    let more = "X-Request-Id: gone\r\n";
    let patch = request("PATCH", "/v1/networks/red/nodes/s1", &op, more, body);
    tcp.write_all(patch.as_bytes()).unwrap();
    drop(tcp);
    // It is at work, and whoever asked has gone.
    std::thread::sleep(Duration::from_millis(300));
    west.signal(Signal::CONT);
    assert_eq!(read(dry).status, 200);
    let said = api.said.lock().unwrap();
    let mut lines = std::iter::from_fn(|| said.recv_timeout(LIMIT).ok());
    let mut told: Vec<String> =
        lines.by_ref().filter(|l| l.starts_with("request ")).take(2).collect();
    told.sort();
    drop(said);
    let line = told.pop().unwrap();
    assert!(line.starts_with("request gone: "), "{line}");
    assert!(told[0].starts_with("request dry: ") && told[0].ends_with(", dry run"), "{told:?}");
    let id = op.split('_').nth(1).unwrap();
    let came = format!("PATCH /v1/networks/red/nodes/s1: 200, token {id}, revision 2");
    assert!(line.ends_with(&came), "{line}");
    api.stop();
    east.stop();
    west.stop();
}
