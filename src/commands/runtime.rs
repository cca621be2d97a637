//! `scorn runtime`: which libraries, devices and backends work on this machine, and how to install what is missing.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::{
    network::{
        backend::{
            automatic,
            factory::{BackendFactory, InstallHint, Machine},
            ort::runtime::{LIBRARY_OPTION, LIBRARY_VARIABLE, Runtime, RuntimeError},
        },
        compose::role::Role,
        load::{NetworkConfig, probe},
        source::NetworkSource,
    },
    options::Options,
};

/// Show which runtime libraries and devices were found, which backend `auto` selects, and how to install what is
/// missing.
#[derive(Clone, Debug, Args)]
pub struct RuntimeArgs {
    /// Print JSON. "works" is null for backends that are not for the network.
    #[arg(long)]
    pub json: bool,
}

/// A backend, and what became of it.
struct BackendState {
    factory: &'static dyn BackendFactory,
    state: Tried,
}

/// What became of a backend.
enum Tried {
    /// It works; its description.
    Works(String),
    /// Why it does not work.
    Fails(String),
    /// `auto` does not try it for this network.
    NotForNetwork,
}

/// What is said of a backend that is not tried.
const NOT_FOR_NETWORK: &str = "not for this network";

/// Runs `scorn runtime`.
///
/// # Errors
/// When the output cannot be written; what is missing on the machine is part of it.
pub fn run(args: &RuntimeArgs, options: &Options) -> Result<()> {
    let machine = Machine::inspect(&options.onnx_runtime_path);
    let states = try_backends(options);
    let mut descriptions = states.iter().filter_map(|tried| match &tried.state {
        Tried::Works(description) => Some(description.clone()),
        _ => None,
    });
    let automatic = match descriptions.next() {
        Some(description) => description,
        None => format!("none: no backend works with {}", options.weights_file),
    };
    let devices = automatic_devices(&machine);
    if args.json {
        return print_json(&machine, &states, &devices, &automatic);
    }
    print_library(&machine.runtime)?;
    for device in devices {
        print_line!("device         {device}");
    }
    for BackendState { factory, state } in &states {
        let info = factory.info();
        // Without the library the reason is the same for all backends that need it, and was just given.
        if machine.runtime.is_err() && info.install_command.is_some() {
            continue;
        }
        match state {
            Tried::Works(_) => print_line!("{:14} works", info.name),
            Tried::Fails(reason) => print_line!("{:14} does not work: {reason}", info.name),
            Tried::NotForNetwork => print_line!("{:14} {NOT_FOR_NETWORK}", info.name),
        }
    }
    print_line!("auto takes     {automatic}");
    print_install_hints(&machine, &states)
}

/// Loads the network with each automatic backend: the only way to find out what works. As with `auto`, nothing is built
/// that takes minutes, and backends for other networks are not tried.
fn try_backends(options: &Options) -> Vec<BackendState> {
    let network = NetworkSource::new(&options.weights_file);
    let try_one = |factory: &'static dyn BackendFactory| {
        let options = Options {
            backend: factory.info().name.into(),
            threads: 1,
            ..options.clone()
        };
        let config = NetworkConfig::of(&options, Role::Main);
        let is_meant = config.backend == options.backend && factory.is_meant_for(&network);
        let state = if is_meant {
            match probe(&config) {
                Ok(evaluator) => Tried::Works(evaluator.info().description),
                Err(error) => Tried::Fails(error.reason()),
            }
        } else {
            Tried::NotForNetwork
        };
        BackendState { factory, state }
    };
    automatic().map(try_one).collect()
}

fn automatic_devices(machine: &Machine) -> Vec<String> {
    let devices = automatic().rev();
    devices
        .flat_map(|factory| factory.devices(machine))
        .collect()
}

fn print_library(runtime: &Result<Runtime, RuntimeError>) -> Result<()> {
    match runtime {
        Ok(runtime) => {
            let library = runtime.library().display();
            print_line!("ONNX Runtime   {} at {library}", runtime.version());
        }
        Err(error) => {
            print_line!("ONNX Runtime   not usable: {error}");
            if error.named_by().is_none() {
                print_line!(
                    "               ({LIBRARY_OPTION} and {LIBRARY_VARIABLE} name one elsewhere)"
                );
            }
        }
    }
    Ok(())
}

fn print_json(
    machine: &Machine,
    states: &[BackendState],
    devices: &[String],
    automatic: &str,
) -> Result<()> {
    let backend = |BackendState { factory, state }: &BackendState| {
        let (works, text) = match state {
            Tried::Works(description) => (Some(true), &**description),
            Tried::Fails(reason) => (Some(false), &**reason),
            Tried::NotForNetwork => (None, NOT_FOR_NETWORK),
        };
        let name = factory.info().name.to_owned();
        (name, json!({ "works": works, "text": text }))
    };
    let library = machine.runtime.as_ref().ok();
    let report = json!({
        "library": library.map(|runtime| runtime.library().display().to_string()),
        "version": library.map(Runtime::version),
        "error": machine.runtime.as_ref().err().map(ToString::to_string),
        "devices": devices,
        "backends": states.iter().map(backend).collect::<serde_json::Map<_, _>>(),
        "auto": automatic,
    });
    print_line!("{report:#}");
    Ok(())
}

fn print_install_hints(machine: &Machine, states: &[BackendState]) -> Result<()> {
    // Those that help on most machines come first.
    let states = states.iter().rev();
    let hints = states.filter_map(|tried| tried.factory.install_hint(machine));
    let hints: Vec<InstallHint> = hints.collect();
    print_line!();
    if !hints.is_empty() {
        print_line!(
            "to install for lc0 networks and other ONNX models (the built-in network needs nothing):"
        );
    }
    let width = hints
        .iter()
        .map(|hint| hint.purpose.len())
        .max()
        .unwrap_or(0);
    for InstallHint { purpose, command } in hints {
        print_line!("{purpose:width$} {command}");
    }
    Ok(())
}
