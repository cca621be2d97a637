//! `scorn runtime`: which libraries and devices were found, and how to get what is missing.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::{
    network::{
        backend::ort::{
            nvidia::has_provider,
            runtime::{
                GPU_INSTALL_COMMAND, INSTALL_COMMAND, LIBRARY_VARIABLE, OPENVINO_EP,
                OPENVINO_INSTALL_COMMAND, Runtime, RuntimeError, install_folder, usual_places,
            },
            session::{devices, maker_besides_intel},
        },
        load::{BACKENDS, NetworkConfig, probe},
    },
    options::Options,
};

/// Show which runtime libraries and devices were found, which backend `auto` takes, and how to install what is missing.
#[derive(Clone, Debug, Args)]
pub struct RuntimeArgs {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs `scorn runtime`.
///
/// # Errors
/// When nobody reads the answer; what is missing is part of it.
pub fn runtime(args: &RuntimeArgs, options: &Options) -> Result<()> {
    let runtime = Runtime::open(&options.onnx_runtime_path);
    let states = try_backends(options);
    let works = states.iter().find(|(_, state)| state.is_ok());
    let automatic = match works {
        Some((_, state)) => state.clone().unwrap_or_default(),
        None => format!("none: no backend works with {}", options.weights_file),
    };
    let devices = runtime.as_ref().map(device_lines).unwrap_or_default();
    if args.json {
        return print_report(&runtime, &states, &devices, &automatic);
    }
    match &runtime {
        Ok(runtime) => {
            let library = runtime.library().display();
            print_line!("ONNX Runtime   {} at {library}", runtime.version());
        }
        Err(error) => {
            print_line!("ONNX Runtime   not usable: {error}");
            let places = usual_places();
            let places: Vec<_> = places
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            print_line!(
                "               (OnnxRuntimePath, {LIBRARY_VARIABLE}, {})",
                places.join(", ")
            );
        }
    }
    for device in devices {
        print_line!("device         {device}");
    }
    // Without the library the reason is the same for all backends that need it, and was just given.
    let told = states
        .iter()
        .filter(|(name, _)| runtime.is_ok() || NEEDS_NO_LIBRARY.contains(name));
    for (name, state) in told {
        match state {
            Ok(_) => print_line!("{name:14} works"),
            Err(reason) => print_line!("{name:14} does not work: {reason}"),
        }
    }
    print_line!("auto takes     {automatic}");
    print_missing(runtime.as_ref().ok(), &states)
}

/// The backends that are always there.
const NEEDS_NO_LIBRARY: [&str; 2] = ["sparse", "rten"];

/// A backend, and its description or why it does not work.
type BackendState = (&'static str, Result<String, String>);

/// Loads the network with each backend, in the order of `auto`: the only way to know what works. As `auto` does, it builds
/// no engines of TensorRT, which would take minutes.
fn try_backends(options: &Options) -> Vec<BackendState> {
    let states = BACKENDS.map(|name| {
        let config = NetworkConfig {
            backend: name.into(),
            threads: 1,
            ..NetworkConfig::from(options)
        };
        let state = probe(&config);
        let state = state.map(|evaluator| evaluator.info().description);
        (name, state.map_err(|error| error.reason()))
    });
    states.into()
}

fn print_report(
    runtime: &Result<Runtime, RuntimeError>,
    states: &[BackendState],
    devices: &[String],
    automatic: &str,
) -> Result<()> {
    let backend = |(name, state): &BackendState| {
        let (works, text) = match state {
            Ok(description) => (true, description),
            Err(reason) => (false, reason),
        };
        (name.to_string(), json!({ "works": works, "text": text }))
    };
    let library = runtime.as_ref().ok();
    let report = json!({
        "library": library.map(|runtime| runtime.library().display().to_string()),
        "version": library.map(Runtime::version),
        "error": runtime.as_ref().err().map(ToString::to_string),
        "devices": devices,
        "backends": states.iter().map(backend).collect::<serde_json::Map<_, _>>(),
        "auto": automatic,
    });
    print_line!("{report:#}");
    Ok(())
}

fn device_lines(runtime: &Runtime) -> Vec<String> {
    let all = ["CPUExecutionProvider", OPENVINO_EP, "CUDAExecutionProvider"];
    let lines = all.into_iter().flat_map(|provider| {
        devices(runtime, provider, None)
            .into_iter()
            .map(move |device| {
                let hardware = device.hardware_device();
                format!(
                    "{provider}: {} {:?}",
                    hardware.vendor().unwrap_or("unknown"),
                    hardware.ty()
                )
            })
    });
    lines.collect()
}

fn print_missing(runtime: Option<&Runtime>, states: &[BackendState]) -> Result<()> {
    let cuda = runtime.is_some_and(|runtime| has_provider(runtime, "cuda"));
    let openvino = states
        .iter()
        .any(|(name, state)| *name == "openvino" && state.is_ok());
    let is_useless = runtime.and_then(maker_besides_intel).is_some();
    print_line!();
    let folder = install_folder();
    let mut is_first = true;
    for (there, what, command) in [
        (runtime.is_some(), "for speed on any CPU", INSTALL_COMMAND),
        (
            openvino || is_useless,
            "for more on Intel CPUs",
            OPENVINO_INSTALL_COMMAND,
        ),
        (cuda, "for NVIDIA GPUs", GPU_INSTALL_COMMAND),
    ] {
        if !there {
            let Some(folder) = &folder else {
                print_line!("{what:31} {command}");
                continue;
            };
            if std::mem::take(&mut is_first) {
                print_line!("to install what is missing where the program finds it:");
            }
            let place = format!("--target \"{}\"", folder.join("runtime").display());
            print_line!("{what:31} {}", command.replace("--target runtime", &place));
        }
    }
    Ok(())
}
