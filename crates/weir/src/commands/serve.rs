//! `weir serve`: the HTTP API of virtual networks.
//!
//! Room: arguments, signals and what is printed; `crate::serve` does it.

use super::log_writer;
use super::say::{complain, put, tell};
use crate::serve::openapi::openapi;
use crate::serve::plan::{Given, Plan, Shown};
use crate::serve::service;
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `weir serve`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Serve virtual networks over HTTP",
    long_about = "Serves virtual networks over HTTP: instantiate, delete, migrate, set and monitor, \
                  apply with its plan, recover, verify, a stream of events, and metrics. It works \
                  on the store of 'weir apply' and 'weir net', which go on working beside it.\n\n\
                  Whoever asks shows a token ('weir token add'). It listens on the loopback; \
                  elsewhere by TLS alone. docs/guide/api.md describes it, --openapi prints what is \
                  where.\n\n\
                  It runs until SIGINT or SIGTERM. The data planes go on without it. SIGHUP reads its certificate \
                  again.",
    after_long_help = "Examples:\n  \
                       weir token add --role operator >token\n  \
                       weir serve &\n  \
                       curl -H \"Authorization: Bearer $(cat token)\" http://127.0.0.1:6681/v1/networks\n\n\
                       Exit status: 0 stopped as asked, 1 the work failed, 2 the configuration or \
                       the arguments are wrong."
)]
pub struct Args {
    /// Where to listen, tls, tokens, store, verify, guards
    #[arg(value_name = "CONFIG.toml")]
    config: Option<PathBuf>,
    /// Address and port [default: the file's, else 127.0.0.1:6681]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// File of tokens [default: the file's, else $XDG_STATE_HOME/weir/tokens.toml, else
    /// ~/.local/state/weir/tokens.toml]
    #[arg(long, value_name = "PATH")]
    tokens: Option<PathBuf>,
    /// Store of networks [default: the file's, else as for 'weir net']
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
    /// Print the OpenAPI document and end
    #[arg(long)]
    openapi: bool,
    #[command(flatten)]
    log: log_writer::Log,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if args.openapi {
        return put(openapi().to_pretty_json()? + "\n");
    }
    log_writer::start(args.log)?;
    let (listen, tokens, store) = (args.listen, args.tokens.clone(), args.store.clone());
    let plan = Plan::load(args.config.as_deref(), Given { listen, tokens, store })?;
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    let tls = plan.tls.clone();
    tls.iter().filter_map(|t| t.out_of_time()).for_each(complain);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("taking signals")?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
        for _ in signals.forever().take_while(|s| *s == SIGHUP) {
            renew(tls.as_deref());
        }
        // Whoever waited may have ended.
        let _ = stop.send(());
    })?;
    service::run(plan, |at| tell(format_args!("serving at {scheme}://{at}")), async {
        let _ = stopped.await;
    })
}

/// On SIGHUP: all else is read when it is needed, or fixed.
fn renew(tls: Option<&Shown>) {
    let Some(tls) = tls else {
        return tell("SIGHUP: there is no certificate to be read again");
    };
    match tls.renew() {
        Ok(()) => tell("certificate read again: connections from now on have it"),
        Err(e) => complain(format_args!("SIGHUP: {e:#}; the certificate of before is shown")),
    }
    tls.out_of_time().iter().for_each(complain);
}
