//! The memory limit of the program.

use std::sync::OnceLock;

use sysinfo::System;

use crate::options::Options;

/// Maximum memory of the tree and the caches together, in bytes: RamLimitMb, or half of the machine's memory if that
/// is 0. `None` means no limit, if the machine's memory is unknown.
pub fn limit(options: &Options) -> Option<u64> {
    match options.ram_limit_mb {
        0 => of_machine().map(|bytes| bytes / 2),
        megabytes => Some(megabytes << 20),
    }
}

/// The memory of this machine (or container) in bytes, if it can be determined.
pub fn of_machine() -> Option<u64> {
    static MEMORY: OnceLock<Option<u64>> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let mut system = System::new().ok()?;
        system.refresh_memory();
        let container = system.cgroup_limits().map(|limits| limits.total_memory);
        let memory = system.total_memory().min(container.unwrap_or(u64::MAX));
        Some(memory).filter(|&bytes| bytes > 0)
    })
}
