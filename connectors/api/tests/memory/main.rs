//! The system in memory keeps the contract, so that what is tested with it is tested with a fair peer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed expectation is a failed test")]

mod crooked;

use std::sync::atomic::{AtomicUsize, Ordering};

use connector_api::conformance::{Arrived, Rig, Source};
use connector_api::memory::{MemorySystem, Treatment};
use connector_api::{Address, Connector, conformance_tests};

/// Stands for the place where a queue's refused messages are.
const DEAD_LETTERS: &str = "dead-letters";

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

    async fn source(&self) -> Source {
        let entrance = self.address(Treatment::Accept);
        let queue = entrance.routing_key.clone();
        self.system.declare(queue.clone());
        let dead_letters = Address { exchange: DEAD_LETTERS.to_owned(), routing_key: queue.clone() };
        Source { queue, entrance, dead_letters }
    }

    async fn delete(&self, queue: &str) {
        self.system.delete(queue);
    }

    async fn arrived(&self, address: &Address) -> Vec<Arrived> {
        if address.exchange == DEAD_LETTERS {
            return self.system.refused(&address.routing_key).iter().map(Arrived::from).collect();
        }
        let waiting = self.system.drain(&address.routing_key);
        let arrived = self.system.take(address);
        waiting.iter().map(Arrived::from).chain(arrived.iter().map(Arrived::from)).collect()
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
