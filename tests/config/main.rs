//! The configuration is checked whole and all at once; what it asks for and can't have is never passed over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
mod files;
mod queues;
mod secrets;
mod shipped;
mod unsupported;
mod values;

use std::collections::BTreeMap;
use std::fs;

use mqbridge::config::{self, Config, Problems};
use tempfile::TempDir;

/// A directory with configuration files.
struct Files {
    dir: TempDir,
    environment: BTreeMap<&'static str, &'static str>,
}

const MAIN: &str = "\
[queue_manager]
name = \"bridge01\"
accept_as = [\"bridge01.corp.example\", \"10.1.2.3\"]
[connectors.rabbit]
type = \"amqp091\"
uris = [\"amqp://guest:guest@127.0.0.1:5672/%2f\"]
";

const NOTHING: [String; 0] = [];

const ROUTE: &str = "\
[from]
queue = 'private$\\orders'
[to]
connector = \"rabbit\"
exchange = \"orders\"
";

impl Files {
    fn with_nothing_wrong(self) -> Config {
        match self.load() {
            Ok(config) => {
                assert_eq!(config.warnings, []);
                config
            }
            Err(problems) => panic!("{problems}"),
        }
    }

    fn new(main: &str) -> Self {
        let files = Self { dir: TempDir::new().unwrap(), environment: BTreeMap::new() };
        fs::create_dir(files.dir.path().join("routes")).unwrap();
        files.with("mqbridge.toml", main)
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::write(self.dir.path().join(name), text).unwrap();
        self
    }

    fn with_variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.insert(name, value);
        self
    }

    fn load(&self) -> Result<Config, Problems> {
        let environment = |name: &str| self.environment.get(name).map(|value| (*value).to_owned());
        config::load(&self.dir.path().join("mqbridge.toml"), environment)
    }

    /// The lines that are printed, without the directory.
    fn problems(&self) -> Vec<String> {
        let problems = match self.load() {
            Ok(config) => config.warnings.iter().map(ToString::to_string).collect(),
            Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        };
        let prefix = format!("{}/", self.dir.path().display());
        problems.into_iter().map(|line| line.replace(&prefix, "")).collect()
    }
}

/// What is wrong with a main file, beside a route that is right.
fn wrong_in_main(text: &str) -> Vec<String> {
    Files::new(text).with("routes/orders.toml", ROUTE).problems()
}

/// What is wrong with a route, beside a main file that is right.
fn wrong_in_route(text: &str) -> Vec<String> {
    Files::new(MAIN).with("routes/orders.toml", text).problems()
}

/// `MAIN` with one more line at the end of `[queue_manager]`, which is line 4.
fn main_with(line: &str) -> String {
    MAIN.replace("[connectors.rabbit]", &format!("{line}\n[connectors.rabbit]"))
}

/// `ROUTE` with one more line in `[from]`, which is line 3.
fn route_from(line: &str) -> String {
    ROUTE.replace("[to]", &format!("{line}\n[to]"))
}

/// `ROUTE` with one more line in `[to]`, which is line 6.
fn route_to(line: &str) -> String {
    format!("{ROUTE}{line}\n")
}
