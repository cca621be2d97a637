//! Machines with problems: a small disk, or a clock that jumps. Linux only, and only where that can be arranged.
#![allow(dead_code, reason = "each test binary uses its part of this")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::skipped;

/// A folder on a disk of its own, of 64 KiB. It is unmounted when this is dropped.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with a message, where none can be mounted.
    pub fn new() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(folder.path());
        let is_mounted = mount
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !is_mounted {
            skipped("no small disk can be mounted here");
        }
        is_mounted.then(|| SmallDisk(folder))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Enlarges the disk.
    pub fn grow(&self) {
        let mut remount = Command::new("mount");
        remount.args(["-o", "remount,size=64m"]).arg(self.path());
        assert!(remount.status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// A library for `LD_PRELOAD` that changes the wall clock at every reading; `None`, with a message, where it cannot
/// be compiled.
pub fn jumping_clock(folder: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/jumping_clock.c");
    let library = folder.join("jumping_clock.so");
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source);
    let is_made =
        cfg!(target_os = "linux") && compile.status().is_ok_and(|status| status.success());
    if !is_made {
        skipped("no C compiler makes a clock that jumps");
    }
    is_made.then_some(library)
}
