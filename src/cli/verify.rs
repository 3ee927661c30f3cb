use std::io::Write;
use std::path::Path;

use crate::config::{self, Config, DirectoryConfig, Problems, Summary};
use crate::directory::file;

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
    let (config, problems) = read(path, surroundings);
    show(&problems, surroundings.err);
    config.filter(|_| problems.is_fine()).ok_or(Exit::Configuration)
}

/// The same for `run`, whose log will show the warnings; only what keeps it from running is shown here.
pub fn load_to_run(path: &Path, surroundings: &mut Surroundings<'_>) -> Result<Config, Exit> {
    let (config, problems) = read(path, surroundings);
    config.filter(|_| problems.is_fine()).ok_or_else(|| {
        show(&problems, surroundings.err);
        Exit::Configuration
    })
}

fn read(path: &Path, surroundings: &Surroundings<'_>) -> (Option<Config>, Problems) {
    match config::load(path, surroundings.environment) {
        Ok(mut config) => {
            let problems = config.inspect();
            let Some(DirectoryConfig::File(path)) = &config.directory else { return (Some(config), problems) };
            let of_directory = match file::read(path, surroundings.environment) {
                Ok((_, warnings)) => warnings,
                Err(problems) => problems,
            };
            // The log of a running bridge shows them with its own.
            config.warnings.extend(of_directory.warnings().cloned());
            (Some(config), problems.and(of_directory))
        }
        Err(problems) => (None, problems),
    }
}

pub(super) fn show(problems: &Problems, err: &mut dyn Write) {
    let (errors, warnings) = (problems.errors().count(), problems.warnings().count());
    if errors + warnings == 0 {
        return;
    }
    let _ = writeln!(err, "{problems}\n{}, {}", counted(errors, "error"), counted(warnings, "warning"));
}

pub(super) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
