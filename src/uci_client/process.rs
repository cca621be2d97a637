//! The process of an engine, which is killed with those that it has started, at the latest when this program ends by a
//! second Ctrl-C.

use std::{
    io,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus},
};

use parking_lot::Mutex;
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};

/// The groups of the running engines. What starts, kills or waits for an engine holds the lock, so that a group in the
/// table is that of an engine: the system does not use a number again before somebody has waited for its process.
#[cfg(unix)]
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Other systems have no groups that can be killed.
#[cfg(not(unix))]
static GROUPS: Mutex<()> = Mutex::new(());

/// The flag of Windows for a process that does not get the Ctrl-C of this one.
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

/// Kills all running engines and the processes that they have started. Afterwards engines can neither be started nor
/// waited for: the program has to end. Where groups cannot be killed, as on Windows, it kills none: engines end there
/// because their input does.
pub fn kill_all() {
    let groups = GROUPS.lock();
    #[cfg(unix)]
    for &group in groups.iter() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    std::mem::forget(groups);
}

/// A running engine.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

/// Input, output and error output, as far as they are pipes that nobody has taken yet.
pub(super) type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Process {
    /// Starts a process in a group of its own: Ctrl-C is then for this program only, and, except on Windows, an engine
    /// behind a script can be killed with it.
    pub fn start(mut command: Command) -> io::Result<Process> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        #[cfg(windows)]
        std::os::windows::process::CommandExt::creation_flags(
            &mut command,
            CREATE_NEW_PROCESS_GROUP,
        );
        #[cfg_attr(not(unix), expect(unused_mut))]
        let mut groups = GROUPS.lock();
        let child = command.spawn()?;
        #[cfg(unix)]
        groups.push(Pid::from_child(&child));
        drop(groups);
        Ok(Process { child })
    }

    /// Takes the pipes of the process.
    pub fn take_pipes(&mut self) -> Pipes {
        let Child {
            stdin,
            stdout,
            stderr,
            ..
        } = &mut self.child;
        (stdin.take(), stdout.take(), stderr.take())
    }

    /// How the process has ended; `None` if it has not, or the system does not say.
    pub fn status(&mut self) -> Option<ExitStatus> {
        #[cfg_attr(not(unix), expect(unused_mut, unused_variables))]
        let mut groups = GROUPS.lock();
        let status = self.child.try_wait().ok().flatten();
        #[cfg(unix)]
        if status.is_some() {
            let own = Pid::from_child(&self.child);
            groups.retain(|&group| group != own);
        }
        status
    }

    /// Kills the process and those that it has started, such as an engine behind a script.
    pub fn kill(&mut self) {
        #[cfg_attr(not(unix), expect(unused_mut, unused_variables))]
        let mut groups = GROUPS.lock();
        #[cfg(unix)]
        {
            let own = Pid::from_child(&self.child);
            if groups.contains(&own) {
                let _ = kill_process_group(own, Signal::KILL);
                groups.retain(|&group| group != own);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
