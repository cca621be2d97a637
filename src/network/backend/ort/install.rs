//! What `pip` installs for ONNX Runtime, and where: a package has an effect only in a folder that is searched, before
//! others that have it, too.

use std::path::{Path, PathBuf};

/// The command that installs a Python package in the folder `runtime`; see [`InstallPlace`]. What a shell would take
/// apart is quoted.
macro_rules! install_command {
    ($package:literal) => {
        install_command!($package, $package)
    };
    ($on_windows:literal, $elsewhere:literal) => {
        if cfg!(windows) {
            concat!("py -m pip install --target runtime ", $on_windows)
        } else {
            concat!("python3 -m pip install --target runtime ", $elsewhere)
        }
    };
}

/// The command that installs the library.
pub const INSTALL_COMMAND: &str = install_command!("onnxruntime");

/// The command that installs the OpenVINO plugin beside it.
pub const OPENVINO_INSTALL_COMMAND: &str = install_command!("onnxruntime-ep-openvino");

/// The command that installs both.
pub const OPENVINO_AND_RUNTIME_INSTALL_COMMAND: &str =
    install_command!("onnxruntime onnxruntime-ep-openvino");

/// The command that installs the library for NVIDIA GPUs. It takes the place of the first, which pip would otherwise
/// leave where it is.
pub const GPU_INSTALL_COMMAND: &str = install_command!(
    "--upgrade \"onnxruntime-gpu[cuda,cudnn]\"",
    "--upgrade 'onnxruntime-gpu[cuda,cudnn]'"
);

/// The command that installs TensorRT with all that it needs. The provider needs TensorRT 10, and pip does not add
/// packages to folders that others share (`nvidia`), so everything comes in one go.
pub const TENSORRT_INSTALL_COMMAND: &str = install_command!(
    "--upgrade \"onnxruntime-gpu[cuda,cudnn]\" \"tensorrt-cu13<11\"",
    "--upgrade 'onnxruntime-gpu[cuda,cudnn]' 'tensorrt-cu13<11'"
);

/// Where a wheel keeps the library.
const WHEEL: &str = "onnxruntime/capi";

/// Where packages have to be installed to be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallPlace {
    /// pip's target; `None` is `runtime` in the current folder.
    target: Option<PathBuf>,
    /// The option or variable that names a library elsewhere, so that none is searched for.
    named_by: Option<&'static str>,
}

impl InstallPlace {
    /// Where there is no library yet: in the program's folder among the user's data, or, in a checkout, in the
    /// current one. `named_by` is the option or variable that names a library all the same.
    pub fn usual(named_by: Option<&'static str>) -> InstallPlace {
        InstallPlace {
            target: install_folder().map(|folder| folder.join("runtime")),
            named_by,
        }
    }

    /// Beside a library that `pip` installed; otherwise the [`usual`](InstallPlace::usual) place, which is searched
    /// before the system's.
    pub fn of(library: &Path, named_by: Option<&'static str>) -> InstallPlace {
        match wheel_root(library) {
            Some(root) => InstallPlace {
                target: Some(root.to_owned()),
                named_by: None,
            },
            None => InstallPlace::usual(named_by),
        }
    }

    /// One of the commands, with this folder.
    pub fn command(&self, command: &str) -> String {
        match &self.target {
            None => command.to_owned(),
            Some(target) => {
                let target = format!("--target \"{}\"", target.display());
                command.replace("--target runtime", &target)
            }
        }
    }

    /// One of the commands that install the library itself, and what else has to be done so that it is found.
    pub fn command_for_library(&self, command: &str) -> String {
        let command = self.command(command);
        match self.named_by {
            None => command,
            Some(name) => format!("{command}, then clear {name} or set it to that folder"),
        }
    }
}

/// The folder into which `pip` installed the wheel of a library; `None` if the library is from elsewhere.
pub(super) fn wheel_root(library: &Path) -> Option<&Path> {
    let is_wheel = library.parent()?.ends_with(WHEEL);
    library.ancestors().nth(3).filter(|_| is_wheel)
}

/// Whether a folder is the checkout that this program was built from.
pub(super) fn is_own_checkout(folder: &Path) -> bool {
    let built_in = dunce::canonicalize(env!("CARGO_MANIFEST_DIR")).ok();
    built_in.is_some() && built_in == dunce::canonicalize(folder).ok()
}

/// The folder in which `runtime` is searched for: the program's among the user's data. `None` in a checkout, where
/// the current one will do, and where there is no such thing.
fn install_folder() -> Option<PathBuf> {
    if is_own_checkout(Path::new(".")) {
        None
    } else {
        Some(dirs::data_local_dir()?.join("scorn"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_backends_has_these_commands() {
        let backends = include_str!("../../../../docs/backends.md");
        for command in [
            INSTALL_COMMAND,
            OPENVINO_INSTALL_COMMAND,
            GPU_INSTALL_COMMAND,
            TENSORRT_INSTALL_COMMAND,
        ] {
            assert!(backends.contains(&format!("`{command}`")), "{command}");
        }
        // The provider was built for TensorRT 10.
        assert!(TENSORRT_INSTALL_COMMAND.contains("tensorrt-cu13<11"));
    }

    #[test]
    fn commands_name_the_folder_in_which_they_have_an_effect() {
        let library = "onnxruntime/capi/libonnxruntime.so.1.32.0";
        let in_wheel = Path::new("/rt").join(library);
        let command = InstallPlace::of(&in_wheel, Some("ORT_DYLIB_PATH"));
        let command = command.command_for_library("pip install --target runtime onnxruntime-gpu");
        assert_eq!(command, "pip install --target \"/rt\" onnxruntime-gpu");

        // Tests run in the checkout.
        let elsewhere = Path::new("/usr/lib/libonnxruntime.so");
        assert_eq!(InstallPlace::of(elsewhere, None), InstallPlace::default());
        let place = InstallPlace {
            target: Some("/home/me/scorn/runtime".into()),
            named_by: Some("ORT_DYLIB_PATH"),
        };
        let command = place.command(OPENVINO_INSTALL_COMMAND);
        let folder = "--target \"/home/me/scorn/runtime\" onnxruntime-ep-openvino";
        assert!(command.ends_with(folder), "{command}");
        let command = place.command_for_library(INSTALL_COMMAND);
        let rest = "onnxruntime, then clear ORT_DYLIB_PATH or set it to that folder";
        assert!(command.ends_with(rest), "{command}");
    }
}
