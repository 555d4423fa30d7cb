//! Slow-path programs of a lab's nodes, read as the data plane will read them, before anything is touched.
//!
//! Room: text of the model. Called by [`super::lab::checked`].

use super::lab::vdps;
use crate::config::read::vdp_from;
use serde::Serialize;
use weir_supervisor::model::{Lab, Program};
use weir_supervisor::refusal::Refusal;

#[derive(Serialize)]
struct File<'a> {
    vdp: [Section<'a>; 1],
}

/// A VDP of a program and the ports that it may name.
#[derive(Serialize)]
struct Section<'a> {
    vid: u16,
    ports: &'a [String],
    program: &'a Program,
}

/// Whether every node's program can be read: that there is one of this name, with such options. What these come to, the data plane says that
/// makes it; tables that are asked for are not made here.
///
/// # Errors
/// The first that can't.
pub fn check(lab: &Lab) -> Result<(), Refusal> {
    for (n, v, at) in vdps(lab) {
        let Some(program) = &v.program else { continue };
        let ports = lab.attachments(n, v);
        let vdp = [Section { vid: 1, ports: &ports, program }];
        let read = toml::to_string(&File { vdp })
            .map_err(|e| e.to_string())
            .and_then(|toml| vdp_from(&toml, None, &ports, None).map_err(|e| e.text));
        let refuse = |e: String| format!("{}: {}", v.vdp_name(n), as_of_a_node(&e));
        read.map_err(|e| Refusal::new(at.key("program"), refuse(e)))?;
    }
    Ok(())
}

/// What is said of a VDP's section, said of a node's.
fn as_of_a_node(text: &str) -> String {
    text.replace("[vdp.program", "[network.node.program")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(program: &str) -> String {
        let text = format!(
            "[[host]]\nname = 'h'\napi = 'unix:1'\n[[network]]\nname = 'n'\n\
             [[network.node]]\nname = 'v'\nhost = 'h'\nports = ['a', 'b']\n{program}"
        );
        let lab: Lab = toml::from_str(&text).unwrap();
        check(&lab).map_or_else(|e| format!("{}: {e}", e.at), |()| String::new())
    }

    #[test]
    fn options_are_read_as_by_a_data_plane() {
        for fine in [
            "program = 'learning'",
            "program = { name = 'learning', ageing_s = 60 }",
            "program = { name = 'forward', map = { a = 'b', b = 1 } }",
            "program = { name = 'firewall', inside = 'a', outside = 2 }",
            "[network.node.program]\nname = 'router'\n[[network.node.program.interface]]\nport = 'a'\n\
             mac = '02:00:00:00:00:01'\naddresses = ['10.0.0.1/24']\n",
        ] {
            assert_eq!(told(fine), "", "{fine}");
        }
        for (wrong, says) in [
            ("program = 'nat'", "write [network.node.program] with name = \"nat\""),
            ("program = 'router'", "an [[network.node.program.interface]] for each link"),
            ("program = 'lerning'", "did you mean 'learning'?"),
            ("program = { name = 'firewall', inside = 'a', outside = 'c' }", "no port 'c'"),
            ("program = { name = 'learning', ageing = 60 }", "did you mean 'ageing_s'?"),
        ] {
            let told = told(wrong);
            assert!(told.contains(says) && told.contains("network[0].node[0].program"), "{told}");
        }
    }
}
