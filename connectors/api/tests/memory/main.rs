//! The system in memory keeps the contract, so that what is tested with it is tested with a fair peer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed expectation is a failed test")]

mod crooked;

use std::sync::atomic::{AtomicUsize, Ordering};

use connector_api::conformance::{Arrived, Rig};
use connector_api::memory::{MemorySystem, Treatment};
use connector_api::{Address, Connector, conformance_tests};

conformance_tests!(memory);

async fn memory(_check: &str) -> Memory {
    Memory::default()
}

#[derive(Default)]
struct Memory {
    system: MemorySystem,
    addresses: AtomicUsize,
}

impl Memory {
    fn address(&self, treatment: Treatment) -> Address {
        let routing_key = format!("queue-{}", self.addresses.fetch_add(1, Ordering::Relaxed));
        let address = Address { exchange: String::new(), routing_key };
        self.system.treat(address.clone(), treatment);
        address
    }
}

impl Rig for Memory {
    fn connector(&self) -> Box<dyn Connector> {
        Box::new(self.system.connector("memory"))
    }

    async fn destination(&self) -> Address {
        self.address(Treatment::Accept)
    }

    async fn unroutable(&self) -> Address {
        self.address(Treatment::Unroutable)
    }

    async fn refusing(&self) -> Address {
        self.address(Treatment::Nack)
    }

    async fn arrived(&self, address: &Address) -> Vec<Arrived> {
        self.system.take(address).iter().map(Arrived::from).collect()
    }

    async fn disconnect(&self) {
        self.system.disconnect("switched off");
    }

    async fn freeze(&self) {
        self.disconnect().await;
    }

    async fn reconnect(&self) {
        self.system.reconnect();
    }

    async fn block(&self) {
        self.system.block("low on memory");
    }

    async fn unblock(&self) {
        self.system.unblock();
    }
}
