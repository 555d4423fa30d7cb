//! FlowVisor's JSON-RPC names on a `weir slicer`, as its `fvctl` says them.

use crate::run_daemon::{LIMIT, weir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

struct Slicer {
    child: Child,
    at: String,
}

impl Drop for Slicer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONFIG: &str = "listen = ['ptcp:0:127.0.0.1']\n\
                      [api]\nlisten = '127.0.0.1:0'\ntokens = 'tokens'\nstate = 'state.toml'\n\
                      [[slice]]\nname = 'upper'\ncontrollers = ['tcp:127.0.0.1:9']\n\
                      [[flowspace]]\nmatch = 'dl_vlan=7'\nwrite = 'upper'\n";

fn spawn(dir: &Path) -> Slicer {
    std::fs::write(dir.join("slices.toml"), CONFIG).unwrap();
    let mut child =
        weir().arg("slicer").arg(dir.join("slices.toml")).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let at = loop {
        let line = lines.next().expect("it has ended").unwrap();
        if let Some(at) = line.strip_prefix("FlowVisor's names: listening at ") {
            break at.to_owned();
        }
    };
    std::thread::spawn(move || lines.for_each(drop));
    Slicer { child, at }
}

fn token(dir: &Path, arguments: &[&str]) -> String {
    let mut c = weir();
    c.args(["token", "add"]).args(arguments).arg("--tokens").arg(dir.join("tokens"));
    let o = c.output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).unwrap().trim().to_owned()
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |g: &[u8]| {
        let bytes = [g[0], *g.get(1).unwrap_or(&0), *g.get(2).unwrap_or(&0)];
        let bits = bytes.iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
        let digits = (0..=g.len()).map(|i| char::from(DIGITS[bits >> (18 - 6 * i) & 63]));
        digits.chain(std::iter::repeat_n('=', 3 - g.len())).collect::<String>()
    };
    text.as_bytes().chunks(3).map(group).collect()
}

impl Slicer {
    fn post(&self, auth: &str, body: &str) -> (u16, String) {
        let mut tcp = TcpStream::connect(&self.at).unwrap();
        tcp.set_read_timeout(Some(LIMIT)).unwrap();
        let text = format!(
            "POST / HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n{auth}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        tcp.write_all(text.as_bytes()).unwrap();
        let mut all = String::new();
        tcp.read_to_string(&mut all).unwrap();
        let status = all.split(' ').nth(1).unwrap().parse().unwrap();
        (status, all.split_once("\r\n\r\n").unwrap().1.to_owned())
    }
    fn call(&self, token: &str, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let auth = format!("Authorization: Basic {}\r\n", base64(&format!("fvadmin:{token}")));
        let mut body = json!({ "id": "fvctl", "method": method, "jsonrpc": "2.0" });
        if !params.is_null() {
            body["params"] = params;
        }
        let (status, text) = self.post(&auth, &body.to_string());
        assert_eq!(status, 200, "{text}");
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&"2.0".into(), &"fvctl".into()));
        match answer.get_mut("result") {
            Some(r) => Ok(r.take()),
            None => {
                let e = &answer["error"];
                Err((e["code"].as_i64().unwrap(), e["message"].as_str().unwrap().to_owned()))
            }
        }
    }
}

fn entry(name: &str, priority: u32, matcher: Value, slice: &str, permission: u32) -> Value {
    json!([{ "name": name, "dpid": "00:00:00:00:00:00:00:01", "priority": priority, "match": matcher,
             "slice-action": [{ "slice-name": slice, "permission": permission }] }])
}

#[test]
fn scripts_around_fvctl_go_on_working_and_what_they_changed_outlives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let admin = token(dir.path(), &["--role", "operator"]);
    let reader = token(dir.path(), &["--role", "reader"]);
    let upper = token(dir.path(), &["--role", "owner", "--owner", "upper"]);
    let mut s = spawn(dir.path());
    // Its password is shown when it is asked for.
    assert_eq!(s.post("", "{}").0, 401);
    assert_eq!(s.post("Authorization: Basic Zm9vOmJhcg==\r\n", "{}").0, 401);

    let names = |s: &Slicer, token: &str| {
        let all = s.call(token, "list-slices", Value::Null).unwrap();
        let all = all.as_array().unwrap().iter();
        all.map(|n| n["slice-name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&s, &admin), ["fvadmin", "upper"]);
    let add = |name: &str| {
        json!({ "slice-name": name, "controller-url": "tcp:localhost:10002", "admin-contact": "a@b",
                "password": "x", "drop-policy": "exact", "recv-lldp": false, "flowmod-limit": 100,
                "rate-limit": -1, "admin-status": true })
    };
    assert_eq!(s.call(&admin, "add-slice", add("middle")), Ok(Value::Bool(true)));
    assert_eq!(s.call(&admin, "add-slice", add("middle")).unwrap_err().0, -32602);
    let flow = |n, p, m, slice, bits| s.call(&admin, "add-flowspace", entry(n, p, m, slice, bits));
    assert_eq!(flow("dpid1", 1, json!({}), "middle", 7), Ok(Value::Bool(true)));
    let tcp = json!({ "in_port": 2, "dl_type": 2048, "nw_proto": 6, "tp_dst": 80 });
    assert_eq!(flow("web", 200, tcp.clone(), "upper", 6), Ok(Value::Bool(true)));
    // What overlaps with equal priority and another's rights is refused whole.
    let (code, text) = flow("clash", 200, json!({ "in_port": 2 }), "middle", 7).unwrap_err();
    assert!(code == -32602 && text.contains("priority 200"), "{text}");
    assert!(flow("x", 1, json!({}), "nobody", 7).unwrap_err().1.contains("no slice 'nobody'"));
    assert!(flow("x", 1, json!({ "tp_dst": 1 }), "upper", 7).unwrap_err().1.contains("tp_dst"));

    let list = s.call(&admin, "list-flowspace", json!({})).unwrap();
    let web = list.as_array().unwrap().iter().find(|e| e["name"] == "web").unwrap();
    assert_eq!((&web["match"], &web["dpid"]), (&tcp, &"00:00:00:00:00:00:00:01".into()));
    assert_eq!(web["slice-action"], json!([{ "slice-name": "upper", "permission": 6 }]));
    assert_eq!(list.as_array().unwrap().len(), 3);
    // A slice's own user sees its own, and of another's nothing.
    assert_eq!(names(&s, &upper), ["upper"]);
    assert_eq!(s.call(&upper, "list-flowspace", json!({})).unwrap().as_array().unwrap().len(), 2);
    let of = |n: &str| s.call(&upper, "list-slice-info", json!({ "slice-name": n })).unwrap_err();
    assert_eq!(of("middle").1.replace("middle", "NAME"), of("grey").1.replace("grey", "NAME"));
    for t in [&upper, &reader] {
        assert_eq!(
            s.call(t, "remove-slice", json!({ "slice-name": "upper" })).unwrap_err().0,
            -32000
        );
    }

    let datapath = s.call(&upper, "list-datapath-info", json!({ "dpid": "1" })).unwrap_err();
    assert_eq!(datapath.0, -32000, "{}", datapath.1);

    let update = json!({ "slice-name": "middle", "controller-port": 10009, "flowmod-limit": 7 });
    assert_eq!(s.call(&admin, "update-slice", update), Ok(Value::Bool(true)));
    let info = s.call(&reader, "list-slice-info", json!({ "slice-name": "middle" })).unwrap();
    assert_eq!(
        (&info["controller-port"], &info["controller-hostname"], &info["admin-contact"]),
        (&10009.into(), &"localhost".into(), &"a@b".into())
    );
    let changed = json!([{ "name": "web", "priority": 300 }]);
    assert_eq!(s.call(&admin, "update-flowspace", changed), Ok(Value::Bool(true)));

    // Killed at any moment, it is as it was after the last change.
    kill_process(Pid::from_child(&s.child), Signal::KILL).unwrap();
    s.child.wait().unwrap();
    s = spawn(dir.path());
    assert_eq!(names(&s, &admin), ["fvadmin", "upper", "middle"]);
    let list = s.call(&admin, "list-flowspace", json!({ "slice-name": "upper" })).unwrap();
    let web = list.as_array().unwrap().iter().find(|e| e["name"] == "web").unwrap();
    assert_eq!(web["priority"], 300);
    assert_eq!(s.call(&admin, "remove-flowspace", json!(["web"])), Ok(Value::Bool(true)));
    assert_eq!(s.call(&admin, "remove-flowspace", json!(["web"])).unwrap_err().0, -32602);
    let remove = json!({ "slice-name": "middle" });
    assert_eq!(s.call(&admin, "remove-slice", remove.clone()), Ok(Value::Bool(true)));
    assert_eq!(s.call(&admin, "remove-slice", remove).unwrap_err().0, -32602);
    assert_eq!(s.call(&admin, "list-flowspace", json!({})).unwrap().as_array().unwrap().len(), 1);

    assert_eq!(s.call(&admin, "list-datapaths", Value::Null), Ok(json!([])));
    assert_eq!(s.call(&admin, "list-links", Value::Null), Ok(json!([])));
    assert!(s.call(&admin, "list-fv-health", Value::Null).is_ok());
    assert!(s.call(&admin, "list-version", Value::Null).unwrap()["flowvisor-version"].is_string());
    assert_eq!(s.call(&admin, "set-config", json!({})).unwrap_err().0, -32601);
    for params in [json!(5), json!("x"), json!([1]), json!([{}]), json!({ "slice-name": 5 })] {
        for method in
            ["add-slice", "update-slice", "add-flowspace", "update-flowspace", "list-slice-info"]
        {
            assert_eq!(
                s.call(&admin, method, params.clone()).unwrap_err().0,
                -32602,
                "{method} {params}"
            );
        }
    }
    let auth = format!("Authorization: Basic {}\r\n", base64(&format!("u:{admin}")));
    assert!(s.post(&auth, "{").1.contains("-32700"));
    assert!(s.post(&auth, "[]").1.contains("-32600"));
}

#[test]
fn a_file_is_read_again_and_one_with_a_mistake_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slices.toml");
    let slice = |n: &str| format!("[[slice]]\nname = '{n}'\n");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let head = "listen = ['ptcp:0:127.0.0.1']\n";
    write(&format!("{head}{}", slice("a")));
    let mut command = weir();
    command.arg("slicer").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wrong = BufReader::new(child.stderr.take().unwrap()).lines();
    let s = Slicer { child, at: String::new() };
    let again = || kill_process(Pid::from_child(&s.child), Signal::HUP).unwrap();
    assert!(said.next().unwrap().unwrap().starts_with("switches: listening"));
    write(&format!("{head}{}{}[[flowspace]]\nwrite = 'b'\n", slice("a"), slice("b")));
    again();
    assert_eq!(said.next().unwrap().unwrap(), "reload: 2 slices, 1 rules of the flow space");
    write(&format!("{head}{}[[flowspace]]\nwrite = 'c'\n", slice("a")));
    again();
    let line = wrong.next().unwrap().unwrap();
    assert!(line.contains("slices.toml:5:9: there is no slice 'c'"), "{line}");
    assert!(line.ends_with("nothing has changed"), "{line}");
    write(&format!("listen = ['ptcp:1:127.0.0.1']\n{}", slice("a")));
    again();
    assert!(wrong.next().unwrap().unwrap().contains("start it again"));
    write(&format!("{head}{}", slice("b")));
    again();
    assert_eq!(said.next().unwrap().unwrap(), "reload: 1 slices, 0 rules of the flow space");
}

#[test]
fn a_file_in_which_nothing_can_be_kept_is_said_with_its_cause_when_asked_and_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slices.toml");
    std::fs::write(dir.path().join("other"), "[[slice]]\n").unwrap();
    let said = |kept: &str, arguments: &[&str]| {
        let text = format!("listen = ['ptcp:0:127.0.0.1']\nremember = '{kept}'\n");
        std::fs::write(&path, text).unwrap();
        let o = weir().arg("slicer").args(arguments).arg(&path).output().unwrap();
        (o.status.code(), String::from_utf8(o.stderr).unwrap())
    };
    for (kept, why) in [("other", "another kind of file"), ("nowhere/kept", "No such file")] {
        for arguments in [&["--check"][..], &[]] {
            let (code, text) = said(kept, arguments);
            assert!(code == Some(2) && text.contains(why), "{arguments:?}: {text}");
        }
    }
    assert_eq!(said("new", &["--check"]).0, Some(0));
    assert!(!dir.path().join("new").exists());
}
