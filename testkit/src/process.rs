use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use crate::TestkitError;

/// Kills what it was told about and removes a directory when this process ends, however it ends: a shell that waits
/// on a pipe which the kernel closes with us.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    orders: Option<ChildStdin>,
}

/// Reads `add PID` and `drop PID` until the pipe closes. Ignores the signals that a terminal or a test runner sends to
/// everybody, because its work begins after them.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
pids=
while read -r verb pid; do
  case $verb in
    add) pids="$pids $pid" ;;
    drop) rest=; for p in $pids; do [ "$p" = "$pid" ] || rest="$rest $p"; done; pids=$rest ;;
  esac
done
[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
rm -rf "$1"
"#;

impl Watchdog {
    pub(crate) fn over(directory: &Path) -> Result<Self, TestkitError> {
        let mut shell = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(TestkitError::running("sh"))?;
        let orders = shell.stdin.take();
        Ok(Self { shell, orders })
    }

    pub(crate) fn add(&mut self, process: &Child) -> Result<(), TestkitError> {
        self.order("add", process.id())
    }

    /// To be called only for a process that has been waited for: its number may be given to another one.
    pub(crate) fn forget(&mut self, pid: u32) -> Result<(), TestkitError> {
        self.order("drop", pid)
    }

    fn order(&mut self, verb: &str, pid: u32) -> Result<(), TestkitError> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        writeln!(orders, "{verb} {pid}").map_err(TestkitError::running("the watchdog"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

/// Sends a signal by name (`STOP`, `CONT`, ...). The shell's own `kill` is there on every system.
pub(crate) fn signal(name: &str, pid: u32) -> Result<(), TestkitError> {
    run(Command::new("sh").args(["-c", "kill -$0 $1", name, &pid.to_string()])).map(drop)
}

/// Runs a command to its end; what it said is the error when it fails.
pub(crate) fn run(command: &mut Command) -> Result<String, TestkitError> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(TestkitError::running(&line))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let output = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).join("\n");
    Err(TestkitError::Command { command: line, output: output.trim().to_owned() })
}

/// Whether a program is found in the search path.
pub(crate) fn is_in_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}
