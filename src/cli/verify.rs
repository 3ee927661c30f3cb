use std::io::Write;
use std::path::Path;

use crate::config::{self, Config, Problems, Summary};

use super::{ConfigArgs, Exit, Surroundings};

/// `check`, as far as it goes without a network: shows all problems, or what the configuration comes to.
///
/// Gives the configuration when the bridge can run with it, for the checks that need one.
pub fn check(args: &ConfigArgs, surroundings: &mut Surroundings<'_>) -> Result<Config, Exit> {
    let config = load(&args.config, surroundings)?;
    // Whoever is gone from the other end of the pipe has seen enough.
    let _ = write!(surroundings.out, "{}", Summary(&config));
    Ok(config)
}

/// Reads a configuration and looks at the files it names; shows what is wrong.
pub fn load(path: &Path, surroundings: &mut Surroundings<'_>) -> Result<Config, Exit> {
    let loaded = config::load(path, surroundings.environment);
    let (problems, config) = match loaded {
        Ok(config) => (config.inspect(), Some(config)),
        Err(problems) => (problems, None),
    };
    show(&problems, surroundings.err);
    config.filter(|_| problems.is_fine()).ok_or(Exit::Configuration)
}

fn show(problems: &Problems, err: &mut dyn Write) {
    let (errors, warnings) = (problems.errors().count(), problems.warnings().count());
    if errors + warnings == 0 {
        return;
    }
    let _ = writeln!(err, "{problems}\n{}, {}", counted(errors, "error"), counted(warnings, "warning"));
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
