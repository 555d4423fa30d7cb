//! Virtual routers of a physical node (003 §2.1, fig. 3c; 004 §4.4): each a namespace of its own with a
//! control plane of its own, wired to a VDP of the shared data plane.
//!
//! Room: namespaces, interfaces, processes, control groups, files; the data plane by its plan. Called by the
//! handler of requests. Needs root.
//!
//! - [`node`]: all routers of this process; makes, changes, deletes and reports them; [`one`]: one that is there;
//! - [`called`]: what everything of theirs is called, and what is left of one that was killed;
//! - [`wires`]: a namespace with its interfaces and addresses, by [`netlink`] ([`netconf`]: what of it forwards);
//! - [`programs`]: what runs inside, in a [`cgroup`]; [`frr`]: FRR among it;
//! - [`shape`]: the VDP between the wires and the ports, and its rules;
//! - [`kinds`]: a VDP becomes a router and back, frames flowing;
//! - [`fib`]: what routes come to; [`follow`]: the thread that keeps rules as the routes are;
//! - [`container`]: a VDP's slow path inside; [`carrier`]: which interfaces inside have a carrier.

mod called;
mod carrier;
pub mod cgroup;
pub mod container;
mod fib;
mod follow;
mod frr;
pub mod kinds;
mod netconf;
mod netlink;
pub mod node;
mod one;
pub mod programs;
mod shape;
mod wires;
