use std::path::PathBuf;
use std::process::Command;

use crate::step::{Failure, headline, root, run, succeeds};

/// The RabbitMQ client in another language that the tests judge our messages with, and what opens encrypted ones.
const PACKAGES: [&str; 2] = ["pika", "cryptography"];

/// A Python that has both: the system's own, or one in a virtual environment under `target/`.
pub(crate) fn with_client() -> Result<PathBuf, Failure> {
    let ours = root().join("target/python");
    let python = ours.join("bin/python");
    for candidate in ["python3".into(), "/usr/bin/python3".into(), python.clone()] {
        if has_client(&candidate) {
            return Ok(candidate);
        }
    }
    headline("installing the Python packages pika and cryptography");
    run(Command::new("python3").args(["-m", "venv"]).arg(&ours)).map_err(needs_python)?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))
        .map_err(needs_python)?;
    if has_client(&python) { Ok(python) } else { Err(needs_python("import pika, cryptography")) }
}

fn has_client(python: &PathBuf) -> bool {
    succeeds(Command::new(python).args(["-c", "import pika, cryptography"]))
}

fn needs_python(why: impl std::fmt::Display) -> Failure {
    Failure::Because(format!(
        "the tests need Python 3 with the packages pika and cryptography ({why}); install them with: apt-get install python3-pika python3-cryptography"
    ))
}
