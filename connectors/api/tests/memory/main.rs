//! The system in memory keeps the contract, so that what is tested with it is tested with a fair peer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed expectation is a failed test")]

mod crooked;

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use connector_api::conformance::{Arrived, Rig, Source};
use connector_api::memory::{MemorySystem, Treatment};
use connector_api::{Address, Connector, Incoming, InletOptions, conformance_tests};

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

fn message(number: u8) -> Incoming {
    let address = Address { exchange: "shop".to_owned(), routing_key: "order".to_owned() };
    Incoming::new(address, Bytes::copy_from_slice(&[number]))
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_queue_come_on_demand() {
    let system = MemorySystem::new();
    let connector = system.connector("memory");
    let open = || connector.inlet(InletOptions { route: "inward".to_owned(), address: "in".to_owned(), prefetch: 2 });
    for number in 0..3 {
        system.put("in", message(number));
    }
    let mut inlet = open().await;
    let first = inlet.receive().await.unwrap();
    let second = inlet.receive().await.unwrap();
    assert_eq!((system.waiting("in"), system.unsettled("in")), (1, 2));

    system.cancel_inlets("in", "moved to another node");
    assert_eq!(inlet.receive().await.unwrap_err().reason, "moved to another node");
    first.accept();
    second.refuse();
    assert_eq!((system.waiting("in"), system.unsettled("in")), (1, 0), "on a living connection they still count");
    assert_eq!(system.refused("in"), [message(1)]);

    system.forbid("in", Some("403 ACCESS_REFUSED"));
    assert_eq!(open().await.receive().await.unwrap_err().reason, "403 ACCESS_REFUSED");
    system.forbid("in", None);
    assert_eq!(open().await.receive().await.unwrap().message, message(2));
    assert_eq!(system.drain("in"), [Incoming { redelivered: true, ..message(2) }], "a dropped delivery is back");
}

/// A route that opens the next one at once keeps no processor busy.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the time is virtual")]
async fn inlets_that_keep_failing_open_later_each_time() {
    let system = MemorySystem::new();
    let connector = system.connector("memory");
    let started = tokio::time::Instant::now();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let options = InletOptions { route: "inward".to_owned(), address: "nowhere".to_owned(), prefetch: 2 };
        let before = started.elapsed();
        connector.inlet(options).await.receive().await.unwrap_err();
        pauses.push((started.elapsed() - before).as_millis());
    }
    assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
}
