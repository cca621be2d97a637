//! The libraries of NVIDIA's Python wheels, in the order in which they load.
//!
//! The providers of ONNX Runtime name what they need without saying where it is, and some of it they open by name while
//! they run (cuDNN, TensorRT's builder resources). The wheels lie in folders that no loader searches. A library that is
//! loaded already is found by its name, so all of them are loaded first, by path.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A provider for NVIDIA's GPUs, which has a library of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvidiaProvider {
    /// CUDA itself.
    Cuda,
    /// TensorRT, on top of CUDA.
    TensorRt,
}

impl NvidiaProvider {
    /// The name in that of the library.
    pub fn name(self) -> &'static str {
        match self {
            NvidiaProvider::Cuda => "cuda",
            NvidiaProvider::TensorRt => "tensorrt",
        }
    }
}

/// What CUDA's provider needs, and what cuBLAS, cuFFT and cuDNN need before them.
const CUDA: [&str; 8] = [
    "cudart",
    "nvJitLink",
    "nvrtc",
    "cublasLt",
    "cublas",
    "cufft",
    "curand",
    "cudnn",
];

/// What TensorRT's provider needs beyond that: plugins and parser stand on `nvinfer`.
const TENSORRT: [&str; 3] = ["nvinfer", "nvinfer_plugin", "nvonnxparser"];

/// TensorRT opens these by name when it builds an engine; there may be one for each kind of GPU.
const BUILDER_RESOURCES: &str = "nvinfer_builder_resource";

/// Parts that libraries open by name, those first that others need. The libraries for Linux search beside themselves;
/// those for Windows do not, and cuDNN then ends the whole program ("Invalid handle. Cannot load symbol").
const PARTS: [&str; 4] = ["nvrtc-builtins", "cudnn_graph", "cudnn_ops", "cudnn_"];

/// The libraries for a provider that came as wheels into the folder `root`, in the order in which they are to be
/// loaded.
pub fn libraries(root: &Path, provider: NvidiaProvider) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = folders(root)
        .iter()
        .flat_map(|folder| list(folder))
        .collect();
    let named = |stem: &'static str| files.iter().filter(move |path| is_library(path, stem));
    let starting = |start: &'static str| {
        let has_start =
            move |path: &&PathBuf| stem_of(path).is_some_and(|name| name.starts_with(start));
        files.iter().filter(has_start)
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for part in PARTS.into_iter().flat_map(starting) {
        if part.extension().is_some_and(|it| it == "dll") && !paths.contains(part) {
            paths.push(part.clone());
        }
    }
    paths.extend(CUDA.into_iter().flat_map(named).cloned());
    if provider == NvidiaProvider::TensorRt {
        paths.extend(starting(BUILDER_RESOURCES).cloned());
        paths.extend(TENSORRT.into_iter().flat_map(named).cloned());
    }
    paths
}

/// Where the wheels put libraries: up to CUDA 12 each package has its folder in `nvidia`, since CUDA 13 they share one,
/// which on Windows has a folder for each kind of processor.
fn folders(root: &Path) -> Vec<PathBuf> {
    let packages = list(&root.join("nvidia"));
    let inside = ["lib", "bin", "bin/x86_64", "bin/arm64"];
    let inside = packages
        .iter()
        .flat_map(|package| inside.map(|sub| package.join(sub)));
    inside.chain([root.join("tensorrt_libs")]).collect()
}

/// What is in a folder, sorted by name; nothing if it is not there.
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// A library's file name without the prefix `lib`; `None` if it is no library.
fn stem_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let is_library = name.contains(".so") || name.ends_with(".dll");
    let stem = name.strip_prefix("lib").unwrap_or(&name).to_owned();
    is_library.then_some(stem)
}

/// Whether a file is the library itself (`libcudnn.so.9`, `cudnn64_9.dll`) and not a part of it (`libcudnn_ops.so.9`).
pub fn is_library(path: &Path, stem: &str) -> bool {
    let Some(name) = stem_of(path) else {
        return false;
    };
    let rest = name
        .strip_prefix(stem)
        .map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first == '.' || first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files in it.
    fn installed(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn order(root: &tempfile::TempDir, provider: NvidiaProvider) -> Vec<String> {
        let paths = libraries(root.path(), provider);
        let relative = paths
            .iter()
            .map(|path| path.strip_prefix(root.path()).unwrap());
        relative
            .map(|path| path.to_string_lossy().replace('\\', "/"))
            .collect()
    }

    #[test]
    fn libraries_are_told_from_their_parts() {
        for (name, stem, expected) in [
            ("libcudnn.so.9", "cudnn", true),
            ("cudnn64_9.dll", "cudnn", true),
            ("nvinfer_10.dll", "nvinfer", true),
            ("libcudnn_ops.so.9", "cudnn", false),
            ("libcublasLt.so.13", "cublas", false),
            ("libnvinfer_plugin.so.10", "nvinfer", false),
            ("libnvinfer_plugin.so.10", "nvinfer_plugin", true),
            ("nvonnxparser_10.dll", "nvonnxparser", true),
            ("cudnn.h", "cudnn", false),
        ] {
            assert_eq!(is_library(Path::new(name), stem), expected, "{name}");
        }
    }

    #[test]
    fn what_others_need_comes_first() {
        let root = installed(&[
            "nvidia/cu13/lib/libcublas.so.13",
            "nvidia/cu13/lib/libcublasLt.so.13",
            "nvidia/cu13/lib/libcudart.so.13",
            "nvidia/cu13/lib/libcurand.so.10",
            "nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cudnn/lib/libcudnn.so.9",
            "nvidia/cudnn/lib/libcudnn_ops.so.9",
            "tensorrt_libs/__init__.py",
            "tensorrt_libs/libnvinfer.so.10",
            "tensorrt_libs/libnvinfer_builder_resource.so.10.16.1",
            "tensorrt_libs/libnvinfer_builder_resource_sm90.so.10.16.1",
            "tensorrt_libs/libnvinfer_plugin.so.10",
            "tensorrt_libs/libnvonnxparser.so.10",
        ]);
        let cuda = [
            "nvidia/cu13/lib/libcudart.so.13",
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/lib/libcublasLt.so.13",
            "nvidia/cu13/lib/libcublas.so.13",
            "nvidia/cu13/lib/libcurand.so.10",
            "nvidia/cudnn/lib/libcudnn.so.9",
        ];
        assert_eq!(order(&root, NvidiaProvider::Cuda), cuda);
        let tensorrt = [
            "tensorrt_libs/libnvinfer_builder_resource.so.10.16.1",
            "tensorrt_libs/libnvinfer_builder_resource_sm90.so.10.16.1",
            "tensorrt_libs/libnvinfer.so.10",
            "tensorrt_libs/libnvinfer_plugin.so.10",
            "tensorrt_libs/libnvonnxparser.so.10",
        ];
        assert_eq!(
            order(&root, NvidiaProvider::TensorRt),
            [&cuda[..], &tensorrt].concat()
        );
    }

    #[test]
    fn both_layouts_of_the_wheels_are_known_on_windows_too() {
        let root = installed(&[
            "nvidia/cu13/bin/x86_64/cublas64_13.dll",
            "nvidia/cu13/bin/x86_64/cublasLt64_13.dll",
            "nvidia/cuda_runtime/bin/cudart64_12.dll",
            "nvidia/cudnn/bin/cudnn64_9.dll",
            "nvidia/cu13/bin/x86_64/nvrtc-builtins64_135.dll",
            "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll",
            "nvidia/cudnn/bin/cudnn_adv64_9.dll",
            "nvidia/cudnn/bin/cudnn_graph64_9.dll",
            "nvidia/cudnn/bin/cudnn_ops64_9.dll",
        ]);
        let expected = [
            "nvidia/cu13/bin/x86_64/nvrtc-builtins64_135.dll",
            "nvidia/cudnn/bin/cudnn_graph64_9.dll",
            "nvidia/cudnn/bin/cudnn_ops64_9.dll",
            "nvidia/cudnn/bin/cudnn_adv64_9.dll",
            "nvidia/cuda_runtime/bin/cudart64_12.dll",
            "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll",
            "nvidia/cu13/bin/x86_64/cublasLt64_13.dll",
            "nvidia/cu13/bin/x86_64/cublas64_13.dll",
            "nvidia/cudnn/bin/cudnn64_9.dll",
        ];
        assert_eq!(order(&root, NvidiaProvider::Cuda), expected);
        assert!(order(&installed(&[]), NvidiaProvider::TensorRt).is_empty());
    }
}
