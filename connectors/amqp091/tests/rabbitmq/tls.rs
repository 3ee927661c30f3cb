//! Encrypted connections.

use std::sync::OnceLock;

use connector_amqp091::{Amqp091Config, Amqp091Connector, TlsFiles};
use connector_api::conformance::numbered;
use connector_api::{Connector, Status};
use testkit::{BrokerOptions, Certificates, PrivateBroker, ScratchDir, Tls};

use crate::peer::{Fragile, PATIENCE, Peer, await_status, config, deliver_one, open};

async fn plain() -> &'static PrivateBroker {
    static BROKER: OnceLock<PrivateBroker> = OnceLock::new();
    let start = || {
        let broker = PrivateBroker::new(BrokerOptions { tls: Tls::Plain, ..BrokerOptions::default() }).unwrap();
        broker.start().unwrap();
        broker
    };
    tokio::task::spawn_blocking(move || BROKER.get_or_init(start)).await.unwrap()
}

fn connector(uri: &str, tls: TlsFiles) -> Amqp091Connector {
    Amqp091Connector::new(Amqp091Config { tls, ..config(&[uri]) }).unwrap()
}

fn trusting(certificates: &Certificates) -> TlsFiles {
    TlsFiles { ca_file: Some(certificates.authority_file()), ..TlsFiles::default() }
}

fn showing(certificates: &Certificates) -> TlsFiles {
    TlsFiles {
        cert_file: Some(certificates.client_file()),
        key_file: Some(certificates.client_key_file()),
        ..trusting(certificates)
    }
}

async fn delivers(connector: &Amqp091Connector, peer: &Peer) {
    let mut outlet = open(connector, "tls").await;
    assert!(deliver_one(&mut *outlet, numbered(&peer.queue(&[]).await, 0)).await.is_ok());
    let status = connector.status().borrow().clone();
    assert!(matches!(&status, Status::Up { peer } if peer.starts_with("amqps://localhost:")), "{status:?}");
    connector.close().await;
}

/// Says so to the prober and in the status. An alert that tells more may be lost with the connection.
async fn fails(connector: &Amqp091Connector, words: &[&str]) {
    let sentence = connector.probe(PATIENCE).await.unwrap_err();
    let status = await_status(connector, |status| matches!(status, Status::Connecting { reason: Some(_), .. })).await;
    let Status::Connecting { reason: Some(reason), .. } = status else { panic!("{status:?}") };
    for text in [sentence, reason] {
        for word in words {
            assert!(text.contains(word), "{word:?} is missing in: {text}");
        }
    }
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_brokers_certificate_is_checked_against_the_configured_authority() {
    let broker = plain().await;
    let certificates = broker.certificates().unwrap();
    delivers(&connector(&broker.tls_uri(), trusting(certificates)), &Peer::at(broker.uri())).await;

    let scratch = ScratchDir::new("other-authority").unwrap();
    let other = Certificates::make(scratch.path(), "guest").unwrap();
    let endpoint = format!("localhost:{}", broker.tls_port());
    fails(&connector(&broker.tls_uri(), trusting(&other)), &[&endpoint, "UnknownIssuer", "tls.ca_file"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_a_login() {
    let fragile = Fragile::turn().await;
    let broker = fragile.broker;
    let certificates = broker.certificates().unwrap();
    let external = format!("amqps://localhost:{}/%2f?auth_mechanism=external", broker.tls_port());
    let peer = Peer::at(broker.uri());
    delivers(&connector(&external, showing(certificates)), &peer).await;
    delivers(&connector(&broker.tls_uri(), showing(certificates)), &peer).await;

    let words = ["client certificate", "tls.cert_file"];
    fails(&connector(&broker.tls_uri(), trusting(certificates)), &words).await;
    let scratch = ScratchDir::new("other-authority").unwrap();
    let other = Certificates::make(scratch.path(), "guest").unwrap();
    let stranger = TlsFiles { ca_file: Some(certificates.authority_file()), ..showing(&other) };
    fails(&connector(&external, stranger), &["does not accept"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_by_certificate_needs_a_broker_that_offers_it() {
    let broker = plain().await;
    let certificates = broker.certificates().unwrap();
    let external = format!("amqps://localhost:{}/%2f?auth_mechanism=external", broker.tls_port());
    fails(&connector(&external, showing(certificates)), &["login by certificate", "rabbitmq_auth_mechanism_ssl"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_and_files_that_do_not_fit_are_named() {
    let broker = plain().await;
    let certificates = broker.certificates().unwrap();
    let plain_port = format!("amqps://guest:guest@localhost:{}/%2f", broker.port());
    fails(&connector(&plain_port, trusting(certificates)), &["TLS port"]).await;
    let tls_port = format!("amqp://guest:guest@localhost:{}/%2f", broker.tls_port());
    fails(&connector(&tls_port, TlsFiles::default()), &["without TLS"]).await;

    let file = |path: &str| TlsFiles { ca_file: Some(path.into()), ..TlsFiles::default() };
    fails(&connector(&broker.tls_uri(), file("/no/such/ca.pem")), &["/no/such/ca.pem", "read"]).await;
    let key = certificates.client_key_file();
    let words = [&*key.to_string_lossy(), "certificate"];
    fails(&connector(&broker.tls_uri(), file(&key.to_string_lossy())), &words).await;
    let swapped = TlsFiles {
        cert_file: Some(certificates.server_file()),
        key_file: Some(certificates.client_key_file()),
        ..trusting(certificates)
    };
    fails(&connector(&broker.tls_uri(), swapped), &["certificates can't be used"]).await;
}
