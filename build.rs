//! Tells the compiler whether there is a network to embed.

use std::path::Path;

fn main() {
    let network = "networks/scorn-default.onnx";
    println!("cargo::rustc-check-cfg=cfg(scorn_embedded_network)");
    println!("cargo::rerun-if-changed={network}");
    if Path::new(network).exists() {
        println!("cargo::rustc-cfg=scorn_embedded_network");
    }
}
