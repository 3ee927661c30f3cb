use std::sync::OnceLock;

use crate::{PrivateBroker, TestkitError};

/// One broker for all tests that leave it as they found it.
#[derive(Debug)]
pub struct SharedBroker(());

impl SharedBroker {
    /// When set, the URI of a broker that the test runner started for the whole run.
    pub const VARIABLE: &str = "MQBRIDGE_TEST_AMQP";

    /// Where the shared broker is: the runner's, or else one that is started on first use and lives as long as this
    /// process. Tests that break their broker start a [`PrivateBroker`] instead.
    pub fn uri() -> Result<String, TestkitError> {
        static OURS: OnceLock<Result<PrivateBroker, String>> = OnceLock::new();
        if let Some(uri) = std::env::var(Self::VARIABLE).ok().filter(|uri| !uri.is_empty()) {
            return Ok(uri);
        }
        match OURS.get_or_init(|| PrivateBroker::running().map_err(|error| error.to_string())) {
            Ok(broker) => Ok(broker.uri()),
            Err(reason) => Err(TestkitError::Shared(reason.clone())),
        }
    }
}
