//! What becomes of frames while the controller is away, over real sockets: fail-standalone, whatever flows say, beside
//! fail-secure, until the controller is there again.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, flow};
use run_daemon::Daemon;
use std::net::{TcpListener, TcpStream};
use weir_openflow::model::{
    Action, FlowCommand, FlowMod, Instruction, Message, NO_BUFFER, PacketOut, Port,
};

const MODES: [&str; 2] = ["standalone", "secure"];

fn text(controllers: &[String; 2]) -> String {
    ruled_by(controllers.each_ref().map(|at| format!("'tcp:{at}'")))
}

fn ruled_by(controllers: [String; 2]) -> String {
    let mut t = String::new();
    for n in 0..2 {
        for p in ["a", "b"] {
            t += &format!("[[port]]\nname = '{p}{n}'\ndevice = 'null'\n");
        }
    }
    for (n, (mode, by)) in MODES.iter().zip(controllers).enumerate() {
        t += &format!(
            "[[vdp]]\nvid = {}\nname = '{mode}'\nports = ['a{n}', 'b{n}']\n\
             mapping = ['in_port=a{n}', 'in_port=b{n}']\n\
             [vdp.openflow]\nfail_mode = '{mode}'\ncontrollers = [{by}]\nlisten = ['ptcp:0']\n\
             versions = ['1.3']\necho_interval_s = 2\nbackoff_max_s = 1\n",
            n + 1
        );
    }
    t
}

/// A VDP as the test sees it: a tool that puts frames into its tables.
struct Vdp {
    vid: u64,
    tool: Peer<TcpStream>,
    b: String,
}

impl Vdp {
    fn new(d: &Daemon, n: usize) -> Self {
        let vid = n as u64 + 1;
        let shown = d.json(&["show", "--vdp", &vid.to_string()]);
        let at = shown["vdps"][0]["detail"]["openflow"]["listeners"][0]["bound"].clone();
        Self { vid, tool: Peer::to(at.as_str().unwrap()), b: format!("b{n}") }
    }
    /// A frame to this station, come in by port a.
    fn put(&mut self, to: u8) {
        let mut data = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 0xee, 0x88, 0xb5];
        data.resize(60, 0);
        let actions = vec![Action::Output { port: Port::TABLE, max_len: 0 }];
        let (buffer_id, in_port) = (NO_BUFFER, Port(1));
        self.tool.send(Message::PacketOut(PacketOut { buffer_id, in_port, actions, data }));
        assert_eq!(self.tool.barrier().unwrap(), []);
    }
    fn sent(&self, d: &Daemon) -> u64 {
        d.port(&self.b)["tx"]["frames"].as_u64().unwrap()
    }
    fn dropped(&self, d: &Daemon) -> u64 {
        let v = d.vdp(self.vid);
        let all = v["dropped"].as_object().unwrap();
        all.values().map(|n| n.as_u64().unwrap()).sum()
    }
    /// A frame to this station leaves by port b.
    fn passes(&mut self, d: &Daemon, to: u8) {
        let before = self.sent(d);
        self.put(to);
        d.until("it leaves", |d| self.sent(d) > before);
    }
    /// A frame to this station ends here.
    fn ends(&mut self, d: &Daemon, to: u8) {
        let (sent, dropped) = (self.sent(d), self.dropped(d));
        self.put(to);
        d.until("it is dropped", |d| self.dropped(d) == dropped + 1);
        assert_eq!(self.sent(d), sent);
    }
}

/// A station that the controller has a flow for, and one that it has none for.
const KNOWN: u8 = 1;
const UNKNOWN: u8 = 5;
/// One whose frames it drops.
const BLOCKED: u8 = 7;

/// Drops frames to a station.
fn block(n: u8) -> Message {
    let Message::FlowMod(f) = flow(mac(n), 0) else { unreachable!() };
    Message::FlowMod(FlowMod { instructions: Vec::new(), ..f })
}

/// What no other flow takes goes to the controller, as most have it (1.3.5 §5.4).
fn table_miss() -> Message {
    let to = Action::Output { port: Port::CONTROLLER, max_len: 128 };
    Message::FlowMod(FlowMod {
        instructions: vec![Instruction::Apply(vec![to])],
        ..FlowMod::new(FlowCommand::Add)
    })
}

fn mac(n: u8) -> u64 {
    0x0200_0000_0000 + u64::from(n)
}

#[test]
fn standalone_forwards_as_a_switch_while_the_controller_is_away_and_secure_does_not() {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = listeners.each_ref().map(|l| l.local_addr().unwrap().to_string());
    let d = Daemon::start(&text(&at), &[]);
    let mut controllers = listeners.each_ref().map(Peer::accept);
    let mut vdps = [0, 1].map(|n| Vdp::new(&d, n));
    for (c, v) in controllers.iter_mut().zip(&mut vdps) {
        c.send(flow(mac(KNOWN), 2));
        assert_eq!(c.barrier().unwrap(), []);
        v.passes(&d, KNOWN);
        v.ends(&d, UNKNOWN);
        c.send(block(BLOCKED));
        assert_eq!(c.barrier().unwrap(), []);
        v.ends(&d, BLOCKED);
    }
    controllers[0].send(table_miss());
    assert_eq!(controllers[0].barrier().unwrap(), []);
    // It goes, and nobody answers.
    drop((controllers, listeners));
    let [alone, secure] = &mut vdps;
    let before = alone.sent(&d);
    d.until("it stands alone", |d| {
        // A tool that is silent for as long would be held to be dead, too.
        assert_eq!(secure.tool.barrier().unwrap(), []);
        alone.put(UNKNOWN);
        alone.sent(d) > before
    });
    for any in [UNKNOWN, KNOWN, BLOCKED] {
        alone.passes(&d, any);
    }
    // The other has waited as long.
    secure.ends(&d, UNKNOWN);
    secure.ends(&d, BLOCKED);
    secure.passes(&d, KNOWN);
    // It comes back: its flows are there, and hold alone.
    let listeners = at.each_ref().map(|a| TcpListener::bind(a).unwrap());
    let mut controllers = listeners.each_ref().map(Peer::accept);
    for (c, v) in controllers.iter_mut().zip(&mut vdps) {
        assert_eq!(c.barrier().unwrap(), []);
        if v.vid == 1 {
            assert_eq!(c.flows(), 3);
            let miss =
                FlowMod { command: FlowCommand::DeleteStrict, ..FlowMod::new(FlowCommand::Add) };
            c.send(Message::FlowMod(miss));
            assert_eq!(c.barrier().unwrap(), []);
        }
        assert_eq!(c.flows(), 2);
        v.ends(&d, UNKNOWN);
        v.ends(&d, BLOCKED);
        v.passes(&d, KNOWN);
        c.send(flow(mac(UNKNOWN), 2));
        assert_eq!(c.barrier().unwrap(), []);
        v.passes(&d, UNKNOWN);
    }
    d.stop();
}

/// Where no controller is named none could stay away: nothing is waited for, and a tool's flows hold, as with Open vSwitch.
#[test]
fn without_controllers_standalone_forwards_at_once_what_no_flow_takes() {
    let none = || ruled_by([String::new(), String::new()]);
    let mut d = Daemon::start(&none(), &[]);
    let [mut plain, mut secure] = [0, 1].map(|n| Vdp::new(&d, n));
    plain.passes(&d, UNKNOWN);
    secure.ends(&d, UNKNOWN);
    for v in [&mut plain, &mut secure] {
        v.tool.send(block(BLOCKED));
        v.tool.send(flow(mac(KNOWN), 2));
        assert_eq!(v.tool.barrier().unwrap(), []);
        v.ends(&d, BLOCKED);
        v.passes(&d, KNOWN);
    }
    // One that is named is waited for.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = nobody.local_addr().unwrap();
    drop(nobody);
    assert_eq!(d.reload(&ruled_by([format!("'tcp:{at}'"), String::new()])), "reload: done");
    plain.ends(&d, UNKNOWN);
    plain.passes(&d, KNOWN);
    assert_eq!(d.reload(&none()), "reload: done");
    plain.passes(&d, UNKNOWN);
    plain.ends(&d, BLOCKED);
    d.stop();
}
