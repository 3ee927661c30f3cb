//! What is written becomes what runs; what is not written has the documented default.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mqbridge::config::{
    Accepts, Authenticate, ConnectorConfig, ExtensionPolicy, LogFormat, LogLevel, OnQuota, Placeholder, Privacy,
    SecurityMode, Senders, Summary, Unroutable, UriSource,
};
use mqbridge::mqqb::wire::QueuePath;

use super::{Files, MAIN, ROUTE, main_with, route_to};

#[test]
fn a_minimal_configuration_has_the_documented_defaults() {
    let config = Files::new(MAIN).with("routes/orders.toml", ROUTE).load().unwrap();
    assert_eq!(config.warnings, []);
    let machine = &config.queue_manager;
    assert_eq!(machine.name, "bridge01");
    assert_eq!(machine.accept_as, ["bridge01.corp.example", "10.1.2.3"]);
    assert_eq!(machine.state_dir, Path::new("/var/lib/mqbridge"));
    assert_eq!(machine.listen, ["0.0.0.0:1801".parse::<SocketAddr>().unwrap()]);
    assert_eq!(machine.ping, ["0.0.0.0:3527".parse::<SocketAddr>().unwrap()]);
    assert_eq!((machine.max_sessions, machine.max_message), (1024, 4 << 20));
    assert_eq!(machine.clock_skew, Duration::from_mins(5));
    assert_eq!(machine.handshake_timeout, Duration::from_mins(1));
    assert_eq!(machine.slow_sender_timeout, Duration::from_mins(1));
    assert_eq!(machine.idle_timeout, Duration::from_mins(5));
    assert!(!machine.ping_first);
    assert_eq!(machine.shutdown_timeout, Duration::from_secs(30));
    assert_eq!(config.store.quota, 10 << 30);
    assert_eq!(config.keys.private_key_file, None);
    assert_eq!(config.admin.socket, Path::new("/var/lib/mqbridge/admin.sock"));
    assert_eq!(config.http, None);
    assert_eq!((config.log.format, config.log.level, config.log.repeat_limit), (LogFormat::Text, LogLevel::Info, 10));

    let ConnectorConfig::Amqp091(rabbit) = &config.connectors["rabbit"];
    let UriSource::Given(uris) = &rabbit.uris else { panic!("uris were given") };
    assert_eq!(uris[0].expose(), "amqp://guest:guest@127.0.0.1:5672/%2f");
    assert_eq!(rabbit.heartbeat, Duration::from_secs(20));
    assert_eq!(rabbit.connection_name, "mqbridge bridge01");

    let [route] = config.routes.as_slice() else { panic!("one route") };
    assert_eq!(route.name, "orders");
    assert_eq!(route.from.queue, QueuePath::Private { name: "orders".to_owned(), suffix: None });
    assert_eq!((route.from.private_id, route.from.guid), (None, None));
    assert_eq!(route.from.accepts, Accepts::NonTransactional);
    assert_eq!((route.from.authenticate, route.from.privacy), (Authenticate::Optional, Privacy::Optional));
    assert_eq!(route.from.senders, Senders::Everyone);
    assert_eq!((route.from.quota, route.from.on_quota, route.from.ignore_expiry), (1 << 30, OnQuota::Hold, false));
    assert_eq!((route.to.connector.as_str(), route.to.exchange.as_str()), ("rabbit", "orders"));
    assert_eq!(route.to.routing_key.to_string(), "{queue}");
    assert_eq!(route.to.content_type, None);
    assert_eq!((route.to.max_in_flight, route.to.strict_order), (512, false));
    assert_eq!((route.to.extension_limit, route.to.extension_policy), (64 << 10, ExtensionPolicy::Omit));
    assert_eq!((route.mode, route.unroutable, route.required), (SecurityMode::NonTransparent, Unroutable::Retry, true));
}

#[test]
fn everything_that_can_be_said_is_understood() {
    let main = "\
routes_dir = \"ways\"
[queue_manager]
name = \"bridge01\"
state_dir = \"state\"
listen = [\"127.0.0.1:1801\", \"[::1]:1801\"]
ping = []
max_sessions = 7
max_message = \"64 KiB\"
clock_skew = \"0s\"
handshake_timeout = \"5s\"
slow_sender_timeout = \"10s\"
idle_timeout = \"15s\"
ping_first = true
[store]
quota = \"2 GiB\"
[keys]
private_key_file = \"qm.pem\"
[connectors.rabbit]
type = \"amqp091\"
uri_file = \"rabbit.uri\"
tls.ca_file = \"ca.pem\"
tls.cert_file = \"client.pem\"
tls.key_file = \"client.key\"
heartbeat = \"5s\"
connection_name = \"x\"
[admin]
socket = \"/run/mqbridge/admin.sock\"
[http]
listen = \"127.0.0.1:9180\"
[log]
format = \"json\"
level = \"debug\"
repeat_limit = 3
";
    let route = "\
required = false
[from]
queue = 'Orders'
guid = \"{A0C5C6A0-3C1E-4B53-9F4E-2F3C0D6F1B7A}\"
transactional = false
authenticate = \"optional\"
privacy = \"none\"
senders = [\"Everyone\"]
quota = \"5 MiB\"
on_quota = \"refuse\"
ignore_expiry = true
journal = false
[to]
connector = \"rabbit\"
exchange = \"\"
routing_key = \"{label}.{{x}}\"
content_type = \"text/xml\"
max_in_flight = 1
strict_order = true
extension_limit = 0
extension_policy = \"dead-letter\"
[security]
mode = \"transparent\"
[on_failure]
unroutable = \"dead-letter\"
";
    let files = Files::new(main);
    fs::create_dir(files.dir.path().join("ways")).unwrap();
    let config = files.with("ways/prices.toml", route).with_nothing_wrong();
    let dir = config.source_files[0].parent().unwrap();
    let machine = &config.queue_manager;
    assert_eq!(machine.state_dir, dir.join("state"), "paths are relative to the file");
    assert_eq!(machine.listen.len(), 2);
    assert_eq!(machine.ping, []);
    assert!(machine.ping_first);
    assert_eq!((machine.max_sessions, machine.max_message, machine.clock_skew), (7, 64 << 10, Duration::ZERO));
    assert_eq!(config.keys.private_key_file, Some(dir.join("qm.pem")));
    let ConnectorConfig::Amqp091(rabbit) = &config.connectors["rabbit"];
    assert_eq!(rabbit.uris, UriSource::File(dir.join("rabbit.uri")));
    assert_eq!(rabbit.tls.client.as_ref().unwrap().key_file, dir.join("client.key"));
    assert_eq!(config.http, Some("127.0.0.1:9180".parse().unwrap()));
    assert_eq!((config.log.format, config.log.level, config.log.repeat_limit), (LogFormat::Json, LogLevel::Debug, 3));
    let route = &config.routes[0];
    assert_eq!(route.name, "prices");
    assert_eq!(route.from.queue, QueuePath::Public { name: "Orders".to_owned(), suffix: None });
    assert_eq!(route.from.guid.unwrap().to_string(), "a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a");
    assert_eq!(
        (route.from.privacy, route.from.on_quota, route.from.ignore_expiry),
        (Privacy::None, OnQuota::Refuse, true)
    );
    assert_eq!(
        route.to.routing_key.render(|name| {
            assert_eq!(name, Placeholder::Label);
            "a".to_owned()
        }),
        "a.{x}"
    );
    assert_eq!((route.to.max_in_flight, route.to.strict_order, route.to.extension_limit), (1, true, 0));
    assert_eq!(route.to.extension_policy, ExtensionPolicy::DeadLetter);
    assert_eq!(
        (route.mode, route.unroutable, route.required),
        (SecurityMode::Transparent, Unroutable::DeadLetter, false)
    );
}

#[test]
fn the_environment_fills_in_values_of_every_type() {
    let main = main_with("max_sessions = \"${SESSIONS}\"\nmax_message = \"${SIZE}\"\nidle_timeout = \"${IDLE}s\"")
        .replace("guest:guest", "mqbridge:${PASSWORD}");
    let files = Files::new(&main)
        .with("routes/orders.toml", &route_to("strict_order = \"${STRICT}\""))
        .with_variable("SESSIONS", "12")
        .with_variable("SIZE", "65536")
        .with_variable("IDLE", "90")
        .with_variable("STRICT", "true")
        .with_variable("PASSWORD", "s3cret");
    let config = files.with_nothing_wrong();
    assert_eq!((config.queue_manager.max_sessions, config.queue_manager.max_message), (12, 65_536));
    assert_eq!(config.queue_manager.idle_timeout, Duration::from_secs(90));
    assert!(config.routes[0].to.strict_order);
    let ConnectorConfig::Amqp091(rabbit) = &config.connectors["rabbit"];
    assert_eq!(rabbit.uris.read().unwrap()[0].expose(), "amqp://mqbridge:s3cret@127.0.0.1:5672/%2f");

    let unset = Files::new(&main)
        .with("routes/orders.toml", ROUTE)
        .with_variable("SESSIONS", "many")
        .with_variable("SIZE", "1 MiB");
    assert_eq!(
        unset.problems(),
        [
            "mqbridge.toml:4: queue_manager.max_sessions: \"many\" is not a number",
            "mqbridge.toml:6: queue_manager.idle_timeout: the environment variable IDLE is not set",
            "mqbridge.toml:9: connectors.rabbit.uris: the environment variable PASSWORD is not set",
        ]
    );
}

#[test]
fn the_summary_shows_canonical_names() {
    let files = Files::new(&MAIN.replace("guest:guest", "mqbridge:${P}"))
        .with("routes/orders.toml", &ROUTE.replace(r"private$\orders", r"DIRECT=TCP:10.1.2.3\PRIVATE$\Orders"))
        .with(
            "routes/replies.toml",
            "[from]\nconnector = \"rabbit\"\nqueue = \"replies\"\n[to]\nqueue = 'direct=os:win01\\PRIVATE$\\Replies'\n",
        )
        .with_variable("P", "s3cret");
    let mut config = files.with_nothing_wrong();
    assert_eq!(
        Summary(&config).to_string(),
        "\
queue manager bridge01, also called bridge01.corp.example, 10.1.2.3
  listens on 0.0.0.0:1801
  answers pings on 0.0.0.0:3527
  keeps at most 10 GiB in /var/lib/mqbridge
  is controlled by /var/lib/mqbridge/admin.sock
connector rabbit: AMQP 0-9-1 at amqp://127.0.0.1:5672/%2f, heartbeat 20s
route orders: DIRECT=OS:bridge01\\private$\\Orders
  to rabbit, exchange \"orders\", routing key \"{queue}\"
  takes non-transactional messages from everyone, signed or not, encrypted or not
  non-transparent: signatures are verified and bodies are opened
  holds at most 1 GiB, then sessions are closed; 512 in flight
  unroutable messages: tried again; extensions over 64 KiB are left out
route replies: queue \"replies\" of rabbit to DIRECT=OS:win01\\private$\\Replies
  sends express or recoverable as it comes, with 4d to reach its queue; what can't be delivered is dropped
  not signed, not encrypted
  holds at most 1 GiB for a destination; 256 deliveries open, settled after 1m at the latest
"
    );
    config.queue_manager.ping_first = true;
    assert!(Summary(&config).to_string().contains("\n  asks other machines by ping before it calls them\n"));
}
