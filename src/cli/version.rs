use super::{Exit, Surroundings};

/// Version and commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("MQBRIDGE_COMMIT"), ")");

/// The foreign systems that are built in.
const FEATURES: [&str; 1] = ["amqp091"];

/// `version`: version, commit and features.
pub fn version(surroundings: &mut Surroundings<'_>) -> Exit {
    let _ = writeln!(surroundings.out, "mqbridge {VERSION}\nfeatures: {}", FEATURES.join(", "));
    Exit::Done
}
