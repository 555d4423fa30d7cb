//! Virtual routers of a physical node (003 §2.1, fig. 3c; 004 §4.4): each a namespace of its own with a
//! control plane of its own, wired to a VDP of the shared data plane.
//!
//! Room: namespaces, interfaces, processes, control groups, files; the data plane by its plan. Called by the
//! handler of requests. Needs root.
//!
//! - [`node`]: all routers of this process; makes, changes, deletes and reports them, and takes away what one
//!   that was killed has left;
//! - [`wires`]: a namespace with its interfaces and addresses, by [`netlink`];
//! - [`programs`]: what runs inside, in a [`cgroup`]; [`frr`]: FRR among it;
//! - [`shape`]: the VDP between the wires and the ports, and its rules;
//! - [`kinds`]: a VDP becomes a router and back, frames flowing;
//! - [`fib`]: what routes come to; [`follow`]: the thread that keeps rules as the routes are;
//! - [`container`]: a VDP's slow path inside; [`carrier`]: which interfaces inside have a carrier.

mod carrier;
pub mod cgroup;
pub mod container;
mod fib;
mod follow;
mod frr;
pub mod kinds;
mod netlink;
pub mod node;
pub mod programs;
mod shape;
mod wires;
