use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use crate::TestkitError;
use crate::broker::SERVER;
use crate::process::{is_in_path, run};
use crate::scratch::user_root;

const REMEDY: &str = "apt-get install rabbitmq-server openssl";

/// While this file says no, Debian's packages do not start the daemons they install.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs RabbitMQ and the `openssl` command from the system's packages when they are missing, this process is
/// root's and `apt-get` is there.
pub(crate) fn install_if_missing() -> Result<(), TestkitError> {
    if missing().is_none() {
        return Ok(());
    }
    // Several test processes may come here at once.
    let path = user_root()?.join("install");
    let lock = File::create(&path).map_err(TestkitError::file("creating", &path))?;
    lock.lock().map_err(TestkitError::file("locking", &path))?;
    let Some(program) = missing() else { return Ok(()) };
    if !is_root() || !is_in_path("apt-get") {
        return Err(TestkitError::Missing { program, remedy: REMEDY });
    }
    let _policy = DaemonsStayDown::declare()?;
    apt(&["update"])?;
    apt(&["install", "--yes", "--no-install-recommends", "rabbitmq-server", "openssl"])?;
    missing().map_or(Ok(()), |program| Err(TestkitError::Missing { program, remedy: REMEDY }))
}

fn missing() -> Option<String> {
    if !Path::new(SERVER).is_file() {
        return Some(SERVER.to_owned());
    }
    ["epmd", "openssl"].into_iter().find(|program| !is_in_path(program)).map(str::to_owned)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn apt(arguments: &[&str]) -> Result<(), TestkitError> {
    let outcome = run(Command::new("apt-get")
        .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive"));
    match outcome {
        Ok(_) => Ok(()),
        Err(TestkitError::Command { command, output }) => {
            let lines: Vec<_> = output.lines().collect();
            let output = lines[lines.len().saturating_sub(5)..].join("\n");
            Err(TestkitError::Install { command, output })
        }
        Err(other) => Err(other),
    }
}

/// Keeps the package's own start script from running a broker on the public port. The system's own policy, when it
/// has one, is left alone.
struct DaemonsStayDown {
    ours: bool,
}

impl DaemonsStayDown {
    fn declare() -> Result<Self, TestkitError> {
        use std::io::{ErrorKind, Write};
        match File::options().write(true).create_new(true).mode(0o755).open(POLICY) {
            // 101: the action is forbidden by policy.
            Ok(mut file) => file
                .write_all(b"#!/bin/sh\nexit 101\n")
                .map(|()| Self { ours: true })
                .map_err(TestkitError::file("writing", POLICY)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Self { ours: false }),
            Err(error) => Err(TestkitError::file("creating", POLICY)(error)),
        }
    }
}

impl Drop for DaemonsStayDown {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
