//! The contract of all connectors.

use connector_api::conformance::{Arrived, Rig, Source};
use connector_api::{Address, Connector, conformance_tests};
use testkit::Proxy;

use crate::peer::{Fragile, Peer, connector};

conformance_tests!(rabbit);

/// One client's way to a broker, which can be cut without disturbing the others.
struct Rabbit {
    peer: Peer,
    proxy: Proxy,
    /// For the checks that block the whole broker.
    own: Option<Fragile>,
}

async fn rabbit(check: &str) -> Rabbit {
    let own = if check.contains("blocked") { Some(Fragile::turn().await) } else { None };
    let peer = match &own {
        Some(own) => Peer::at(own.broker.uri()),
        None => Peer::shared().await,
    };
    let proxy = Proxy::to(peer.port()).unwrap();
    Rabbit { peer, proxy, own }
}

impl Rabbit {
    async fn watermark(&self, limit: &'static str) {
        let own = self.own.as_ref().expect("only on a broker of one's own");
        own.act(|broker| {
            broker.rabbitmqctl(&["set_vm_memory_high_watermark", "absolute", limit]).unwrap();
        })
        .await;
    }
}

impl Rig for Rabbit {
    fn connector(&self) -> Box<dyn Connector> {
        Box::new(connector(&[&self.proxy.uri()]))
    }

    async fn destination(&self) -> Address {
        self.peer.queue(&[]).await
    }

    async fn unroutable(&self) -> Address {
        Peer::nowhere()
    }

    async fn refusing(&self) -> Address {
        self.peer.full_queue().await
    }

    async fn source(&self) -> Source {
        self.peer.source().await
    }

    async fn delete(&self, queue: &str) {
        self.peer.delete(queue).await;
    }

    async fn arrived(&self, address: &Address) -> Vec<Arrived> {
        self.peer.drain(address).await
    }

    async fn disconnect(&self) {
        self.proxy.cut();
    }

    async fn freeze(&self) {
        self.proxy.stall();
    }

    async fn reconnect(&self) {
        self.proxy.heal().unwrap();
    }

    async fn block(&self) {
        self.watermark("1MB").await;
    }

    async fn unblock(&self) {
        self.watermark("4GB").await;
    }

    fn secrets(&self) -> Vec<String> {
        vec!["guest".to_owned()]
    }
}
