//! Tells the compiler which networks there are to embed.

use std::path::Path;

fn main() {
    for (network, cfg) in [
        ("networks/scorn-human-1100.onnx", "scorn_embedded_human"),
        ("networks/scorn-default.onnx", "scorn_embedded_network"),
        ("networks/scorn-sparse.onnx", "scorn_embedded_sparse"),
    ] {
        println!("cargo::rustc-check-cfg=cfg({cfg})");
        println!("cargo::rerun-if-changed={network}");
        if Path::new(network).exists() {
            println!("cargo::rustc-cfg={cfg}");
        }
    }
}
