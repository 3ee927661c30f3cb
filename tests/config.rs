//! The configuration is checked whole and all at once; what it asks for and can't have is never passed over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mqbridge::config::{
    self, Accepts, Authenticate, Config, ConnectorConfig, ExtensionPolicy, LogFormat, LogLevel, OnQuota, Placeholder,
    Privacy, Problems, SecurityMode, Senders, Summary, Unroutable, UriSource,
};
use mqbridge::mqqb::wire::QueuePath;
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
    assert_eq!((route.from.privacy, route.from.on_quota, route.from.ignore_expiry), (Privacy::None, OnQuota::Refuse, true));
    assert_eq!(route.to.routing_key.render(|name| {
        assert_eq!(name, Placeholder::Label);
        "a".to_owned()
    }), "a.{x}");
    assert_eq!((route.to.max_in_flight, route.to.strict_order, route.to.extension_limit), (1, true, 0));
    assert_eq!(route.to.extension_policy, ExtensionPolicy::DeadLetter);
    assert_eq!((route.mode, route.unroutable, route.required), (SecurityMode::Transparent, Unroutable::DeadLetter, false));
}

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
}

#[test]
fn faults_of_the_main_file_are_named_with_line_and_remedy() {
    for (line, expected) in [
        ("max_sesions = 1", "mqbridge.toml:4: queue_manager.max_sesions: unknown key; did you mean \"max_sessions\"?"),
        (
            "colour = 1",
            "mqbridge.toml:4: queue_manager.colour: unknown key; [queue_manager] may have accept_as, clock_skew, \
             handshake_timeout, idle_timeout, insecure_nacks, listen, max_message, max_sessions, name, ping, \
             slow_sender_timeout, state_dir",
        ),
        ("listen = []", "mqbridge.toml:4: queue_manager.listen: without an address nobody can send; write [\"0.0.0.0:1801\"]"),
        ("listen = \"0.0.0.0:1801\"", "mqbridge.toml:4: queue_manager.listen: a list of strings is expected, not a string"),
        ("listen = [\"0.0.0.0\"]", "mqbridge.toml:4: queue_manager.listen: \"0.0.0.0\" has no port; write \"0.0.0.0:1801\""),
        ("ping = [\"::1\"]", "mqbridge.toml:4: queue_manager.ping: \"::1\" has no port; write \"[::1]:3527\""),
        (
            "listen = [\n  \"0.0.0.0:1801\",\n  \"bridge01:1801\",\n]",
            "mqbridge.toml:6: queue_manager.listen: \"bridge01:1801\" is not an IP address and port such as \"0.0.0.0:1801\"",
        ),
        (
            "listen = [\"127.0.0.1:1801\", \"127.0.0.1:1801\"]",
            "mqbridge.toml:4: queue_manager.listen: \"127.0.0.1:1801\" is there twice",
        ),
        ("max_sessions = 0", "mqbridge.toml:4: queue_manager.max_sessions: 0 is not from 1 to 65535"),
        ("max_sessions = -1", "mqbridge.toml:4: queue_manager.max_sessions: -1 is not a positive number"),
        ("max_sessions = \"7\"", "mqbridge.toml:4: queue_manager.max_sessions: a whole number is expected, not a string"),
        ("max_sessions = 1.5", "mqbridge.toml:4: queue_manager.max_sessions: a whole number is expected, not a float"),
        ("max_message = \"5 MiB\"", "mqbridge.toml:4: queue_manager.max_message: 5 MiB is not from 1 KiB to 4 MiB"),
        (
            "max_message = \"4 MB\"",
            "mqbridge.toml:4: queue_manager.max_message: \"4 MB\" is not a size; did you mean \"4 MiB\"?",
        ),
        (
            "clock_skew = 300",
            "mqbridge.toml:4: queue_manager.clock_skew: a time such as \"30s\" is expected, not an integer",
        ),
        (
            "clock_skew = \"300\"",
            "mqbridge.toml:4: queue_manager.clock_skew: \"300\" is not a time; the unit is missing: \"300s\" is 300 seconds",
        ),
        ("idle_timeout = \"0s\"", "mqbridge.toml:4: queue_manager.idle_timeout: 0ms is not from 1s to 1h"),
        (
            "state_dir = \"\"",
            "mqbridge.toml:4: queue_manager.state_dir: an empty path",
        ),
        (
            "insecure_nacks = true",
            "mqbridge.toml:4: queue_manager.insecure_nacks: true is not supported by this version; the five negative \
             acknowledgments are held back, as Windows does by default",
        ),
        ("[http]", "mqbridge.toml:4: http.listen: is missing; write listen = \"127.0.0.1:9180\", or remove [http]"),
        ("[log]\nlevel = \"warning\"", "mqbridge.toml:5: log.level: \"warning\" is not \"error\", \"warn\", \"info\", \"debug\" or \"trace\""),
        ("[log]\nlevel = \"Debug\"", "mqbridge.toml:5: log.level: \"Debug\" is not \"error\", \"warn\", \"info\", \"debug\" or \"trace\"; did you mean \"debug\"?"),
        ("[log]\nformat = \"jsn\"", "mqbridge.toml:5: log.format: \"jsn\" is not \"text\" or \"json\"; did you mean \"json\"?"),
        ("[stores]", "mqbridge.toml:4: stores: unknown key; did you mean \"store\"?"),
        ("[store]\nquota = \"1 KiB\"", "mqbridge.toml:5: store.quota: 1 KiB is not from 1 MiB to 1024 TiB"),
        (
            "[directory]\nkind = \"ldap\"\nuris = [\"ldaps://dc1\"]\nbind_password_file = \"p\"\ntls.starttls = true",
            "mqbridge.toml:5: directory.kind: \"ldap\" is not supported by this version; remove [directory]",
        ),
        (
            "[keys.base]\nprivate_key_file = \"x\"",
            "mqbridge.toml:4: keys.base: is not supported by this version; one key serves all providers: write \
             private_key_file in [keys]",
        ),
        ("[key_cache]\nlifetime = \"1h\"", "mqbridge.toml:5: warning: key_cache.lifetime: \"1h\" has no effect in this version: no body is opened"),
    ] {
        assert_eq!(wrong_in_main(&main_with(line)), [expected], "{line}");
    }
}

#[test]
fn faults_of_names_and_connectors_are_named_with_line_and_remedy() {
    let connector = |lines: &str| MAIN.replace("uris = [\"amqp://guest:guest@127.0.0.1:5672/%2f\"]", lines);
    for (main, expected) in [
        (
            MAIN.replace("name = \"bridge01\"\n", ""),
            "mqbridge.toml:1: queue_manager.name: is missing; write the computer name that senders use, such as name = \
             \"bridge01\"",
        ),
        (
            MAIN.replace("\"10.1.2.3\"", "\"10.1.2.3:1801\""),
            "mqbridge.toml:3: queue_manager.accept_as: \"10.1.2.3:1801\" is neither the name nor the address of a machine \
             (without port or queue)",
        ),
        (
            MAIN.replace("amqp091", "amqp10"),
            "mqbridge.toml:5: connectors.rabbit.type: \"amqp10\" is not \"amqp091\"",
        ),
        (MAIN.replace("type = \"amqp091\"\n", ""), "mqbridge.toml:4: connectors.rabbit.type: is missing; write type = \"amqp091\""),
        (
            connector(""),
            "mqbridge.toml:4: connectors.rabbit.uris: is missing; write uris = [\"amqp://user:password@host:5672/%2f\"], or \
             uri_file",
        ),
        (connector("uris = []"), "mqbridge.toml:6: connectors.rabbit.uris: an empty list leads nowhere"),
        (
            connector("uris = [\"http://rabbit\"]"),
            "mqbridge.toml:6: connectors.rabbit.uris: not an AMQP URI; amqp://user:password@host:5672/%2f is expected",
        ),
        (
            connector("uris = [\"amqp://rabbit\"]\nuri_file = \"x\""),
            "mqbridge.toml:7: connectors.rabbit.uri_file: there is uris as well; write only one of them",
        ),
        (
            connector("uris = [\"amqp://rabbit\"]\ntls.ca_file = \"ca.pem\""),
            "mqbridge.toml:7: connectors.rabbit.tls: amqp://rabbit is not encrypted; write amqps:// or remove the \
             certificates",
        ),
        (
            connector("uris = [\"amqps://rabbit\"]\ntls.cert_file = \"client.pem\""),
            "mqbridge.toml:7: connectors.rabbit.tls.key_file: is missing; a certificate is of no use without its key",
        ),
        (
            connector("uris = [\"amqps://rabbit\"]\nheart_beat = \"5s\""),
            "mqbridge.toml:7: connectors.rabbit.heart_beat: unknown key; did you mean \"heartbeat\"?",
        ),
        (
            format!("{MAIN}[connectors.\"ra bbit\"]\ntype = \"amqp091\"\nuris = [\"amqp://rabbit\"]\n"),
            "mqbridge.toml:7: connectors.ra bbit: the name of a connector has letters, digits, \"-\" and \"_\" only",
        ),
        (format!("{MAIN}[connectors]\nspare = 1\n"), "mqbridge.toml:8: connectors.spare: a section is expected, not an integer"),
        (
            format!("{MAIN}[admin]\nsocket = \"/{}\"\n", "x".repeat(107)),
            &format!("mqbridge.toml:8: admin.socket: the path of a socket has at most 107 bytes; /{} has 108", "x".repeat(107)),
        ),
    ] {
        assert_eq!(wrong_in_main(&main), [expected]);
    }
}

#[test]
fn faults_of_a_route_are_named_with_line_and_remedy() {
    for (route, expected) in [
        (
            ROUTE.replace("\"rabbit\"", "\"rabit\""),
            "routes/orders.toml:4: to.connector: there is no connector \"rabit\"; did you mean \"rabbit\"?",
        ),
        (
            ROUTE.replace("\"rabbit\"", "\"kafka\""),
            "routes/orders.toml:4: to.connector: there is no connector \"kafka\"; there are rabbit",
        ),
        (
            ROUTE.replace("\"rabbit\"", "\"Rabbit\""),
            "routes/orders.toml:4: to.connector: there is no connector \"Rabbit\"; did you mean \"rabbit\"?",
        ),
        (
            ROUTE.replace("connector = \"rabbit\"\n", ""),
            "routes/orders.toml:3: to.connector: is missing; write the name of a section [connectors.NAME]",
        ),
        (
            ROUTE.replace("exchange = \"orders\"\n", ""),
            "routes/orders.toml:3: to.exchange: is missing; write exchange = \"\" for the default exchange, which takes the \
             routing key for a queue",
        ),
        (
            ROUTE.replace("queue = 'private$\\orders'\n", ""),
            "routes/orders.toml:1: from.queue: is missing; write the MSMQ queue of this machine, such as queue = \
             'private$\\orders'",
        ),
        (
            route_to("routing_key = \"{lable}\""),
            "routes/orders.toml:6: to.routing_key: \"lable\" is not a placeholder; did you mean \"label\"?",
        ),
        (
            route_to("routing_key = \"{body}\""),
            "routes/orders.toml:6: to.routing_key: \"body\" is not a placeholder; there are app_specific, class, label, \
             queue, sender_machine",
        ),
        (
            route_to("routing_key = \"{label\""),
            "routes/orders.toml:6: to.routing_key: \"{label\" has a single brace; write {{ or }} for a brace itself",
        ),
        (
            route_to(&format!("routing_key = \"{}\"", "x".repeat(256))),
            "routes/orders.toml:6: to.routing_key: a routing key has at most 255 bytes, not 256",
        ),
        (route_to("max_in_flight = 65536"), "routes/orders.toml:6: to.max_in_flight: 65536 is not from 1 to 65535"),
        (route_to("max_inflight = 1"), "routes/orders.toml:6: to.max_inflight: unknown key; did you mean \"max_in_flight\"?"),
        (
            route_to("extension_policy = \"drop\""),
            "routes/orders.toml:6: to.extension_policy: \"drop\" is not \"omit\" or \"dead-letter\"",
        ),
        (
            route_to("[security]\nmode = \"nontransparent\""),
            "routes/orders.toml:7: security.mode: \"nontransparent\" is not \"transparent\" or \"non-transparent\"; did you \
             mean \"non-transparent\"?",
        ),
        (
            route_to("[on_failure]\nunroutable = \"drop\""),
            "routes/orders.toml:7: on_failure.unroutable: \"drop\" is not \"retry\" or \"dead-letter\"",
        ),
        (route_to("[form]"), "routes/orders.toml:6: form: unknown key; did you mean \"from\"?"),
        (
            route_from("transactional = \"yes\""),
            "routes/orders.toml:3: from.transactional: \"yes\" is not true, false or \"both\"",
        ),
        (
            route_from("transactional = \"false\""),
            "routes/orders.toml:3: from.transactional: \"false\" is not true, false or \"both\"; did you mean false?",
        ),
        (
            route_from("senders = []"),
            "routes/orders.toml:3: from.senders: nobody may send; write senders = [\"everyone\"] or remove the route",
        ),
        (route_from("private_id = 4"), "routes/orders.toml:3: from.private_id: 4 is the number of the queue manager's own order_queue$"),
        (route_from("private_id = 0"), "routes/orders.toml:3: from.private_id: 0 is not from 1 to 4294967295"),
        (
            route_from("guid = \"a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a\""),
            "routes/orders.toml:3: from.guid: a private queue has no GUID of its own; write private_id",
        ),
        (
            route_from("guid = \"x\"").replace("private$\\", ""),
            "routes/orders.toml:3: from.guid: \"x\" is not a GUID: 8-4-4-4-12 hexadecimal digits are expected",
        ),
        (
            route_from("private_id = 10").replace("private$\\", ""),
            "routes/orders.toml:3: from.private_id: a public queue has no such number; write guid, or private$\\ before the \
             queue's name",
        ),
        ("required = 1\n".to_owned() + ROUTE, "routes/orders.toml:1: required: true or false is expected, not an integer"),
    ] {
        assert_eq!(wrong_in_route(&route), [expected]);
    }
}

#[test]
fn queues_that_this_machine_can_not_have_are_refused() {
    for (queue, expected) in [
        (r"bridge02\private$\orders", r#"is a queue of "bridge02", not of this machine; add that name to queue_manager.accept_as if it means this one"#),
        (r"DIRECT=TCP:10.9.9.9\private$\orders", r#"is a queue of "10.9.9.9", not of this machine; add that name to queue_manager.accept_as if it means this one"#),
        (r"private$\orders;journal", "is a journal or sub-queue; nobody sends to it"),
        (r"DIRECT=OS:bridge01\private$\orders;retry", "is a journal or sub-queue; nobody sends to it"),
        (r"system$;deadletter", "is a machine's own queue; nobody sends to it"),
        (r".\private$\ORDER_QUEUE$", "is the queue manager's own, for acknowledgments"),
        (r"private$", r"is not the name of a queue: private$\ and the queue's own name are expected"),
        (r"private$\", r"is not the name of a queue: a queue's name is expected, such as private$\orders"),
        (r"", r"is not the name of a queue: a queue's name is expected, such as private$\orders"),
        (r"\private$\orders", r"begins with a backslash; write private$\NAME or .\private$\NAME"),
        (r"private$\a,b", "is not the name of a queue: it can't hold a backslash, semicolon, plus, comma, quote or control character"),
        (r"bridge01\a\b", "is not the name of a queue: it can't hold a backslash, semicolon, plus, comma, quote or control character"),
        (r"PUBLIC=a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a", "is a number, not a name; write the queue's name here and its number as guid or private_id"),
        (r"PRIVATE=a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a\a", "is a number, not a name; write the queue's name here and its number as guid or private_id"),
        (r"DIRECT=HTTP://bridge01/msmq/orders", "names a queue by a protocol that this bridge does not speak; write DIRECT=OS:"),
        (r"MULTICAST=234.1.1.1:8001", "does not name one queue"),
    ] {
        let lines = wrong_in_route(&ROUTE.replace(r"private$\orders", queue));
        assert_eq!(lines, [format!("routes/orders.toml:2: from.queue: \"{queue}\" {expected}")]);
    }
    let of_length = |length| ROUTE.replace("orders'", &format!("{}'", "x".repeat(length)));
    assert_eq!(wrong_in_route(&of_length(124)), NOTHING);
    assert_eq!(wrong_in_route(&of_length(125)).len(), 1);
    let lines = wrong_in_route(&ROUTE.replace(r"private$\orders", "DIRECT=OS:"));
    assert!(lines[0].starts_with("routes/orders.toml:2: from.queue: \"DIRECT=OS:\" is not a format name: "), "{lines:?}");
}

#[test]
fn every_spelling_of_a_queue_of_this_machine_is_the_same_queue() {
    for spelling in [
        r"PRIVATE$\Orders",
        r"bridge01\private$\orders",
        r"BRIDGE01.corp.example\Private$\ORDERS",
        r".\private$\orders",
        r"localhost\private$\orders",
        r"DIRECT=OS:bridge01\private$\orders",
        r"direct=tcp:10.1.2.3\PRIVATE$\orders",
        r"Direct=Tcp:127.0.0.1\private$\orders",
    ] {
        let second = ROUTE.replace(r"private$\orders", spelling);
        let lines = Files::new(MAIN).with("routes/orders.toml", ROUTE).with("routes/zz.toml", &second).problems();
        let [line] = lines.as_slice() else { panic!("{spelling}: {lines:?}") };
        assert!(line.starts_with("routes/zz.toml:2: from.queue: private$\\"), "{line}");
        assert!(line.ends_with(" is also the queue of route \"orders\" (routes/orders.toml)"), "{line}");
    }
    let public = ROUTE.replace(r"private$\orders", "orders");
    assert_eq!(Files::new(MAIN).with("routes/orders.toml", ROUTE).with("routes/zz.toml", &public).problems(), NOTHING);
}

#[test]
fn what_two_routes_can_not_share_is_named() {
    let other = |extra: &str| ROUTE.replace("orders", "other").replace("[to]", &format!("{extra}\n[to]"));
    let lines = Files::new(MAIN)
        .with("routes/a.toml", &route_from("private_id = 10"))
        .with("routes/b.toml", &other("private_id = 0xa"))
        .with("routes/A.toml", &other("").replace("other", "third"))
        .problems();
    assert_eq!(lines, [
        "routes/a.toml: the file's name differs only in case from that of route \"A\" (routes/A.toml)",
        "routes/b.toml:3: from.private_id: 10 is also the number of route \"a\" (routes/a.toml)",
    ]);
    let guid = "guid = \"a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a\"";
    let lines = Files::new(MAIN)
        .with("routes/a.toml", &route_from(guid).replace("private$\\", ""))
        .with("routes/b.toml", &other(&guid.to_uppercase().replace("GUID", "guid")).replace("private$\\", ""))
        .problems();
    assert_eq!(lines, [
        "routes/b.toml:3: from.guid: a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a is also the GUID of route \"a\" (routes/a.toml)",
    ]);
}

#[test]
fn what_this_version_can_not_do_is_an_error_and_what_it_need_not_do_a_warning() {
    let unsupported = |key: &str, what: &str, remedy: &str| {
        format!("{key}: {what}is not supported by this version; {remedy}")
    };
    let no_signatures = "signatures are not verified, no message counts as authenticated";
    let as_they_came = "bodies are passed on as they came or not at all";
    for (route, line, expected) in [
        (route_from("transactional = true"), 3, unsupported("from.transactional", "true ", "write transactional = false")),
        (route_from("transactional = \"both\""), 3, unsupported("from.transactional", "\"both\" ", "write transactional = false")),
        (route_from("authenticate = \"required\""), 3, unsupported("from.authenticate", "\"required\" ", no_signatures)),
        (
            route_from("privacy = \"required\""),
            3,
            unsupported("from.privacy", "\"required\" ", "write privacy = \"optional\" or \"none\""),
        ),
        (
            route_from("senders = [\"S-1-5-21-1-2-3-1104\", \"orders-senders\"]"),
            3,
            unsupported(
                "from.senders",
                "[\"S-1-5-21-1-2-3-1104\", \"orders-senders\"] ",
                "write senders = [\"everyone\"]",
            ),
        ),
        (
            route_from("journal = true"),
            3,
            unsupported("from.journal", "true ", "bind a second queue to the exchange for a copy"),
        ),
        (route_from("trust = [\"ca.pem\"]"), 3, unsupported("from.trust", "[\"ca.pem\"] ", no_signatures)),
        (
            route_to("unpack = \"nservicebus\""),
            6,
            unsupported("to.unpack", "", "extensions are passed on as they came, in the header msmq-extension"),
        ),
        (route_to("[security]\nreseal_for = \"warehouse\""), 7, unsupported("security.reseal_for", "", as_they_came)),
        (route_to("[security]\nreseal_as = \"jwe\""), 7, unsupported("security.reseal_as", "", as_they_came)),
        (
            route_from("min_hash = \"sha256\""),
            3,
            format!("warning: from.min_hash: \"sha256\" has no effect in this version: {no_signatures}"),
        ),
        (
            route_from("ciphers = [\"rc2\", \"rc4\"]"),
            3,
            "warning: from.ciphers: [\"rc2\", \"rc4\"] has no effect in this version: no body is opened".to_owned(),
        ),
    ] {
        assert_eq!(wrong_in_route(&route), [format!("routes/orders.toml:{line}: {expected}")]);
    }
    // What asks for nothing but what is done anyway.
    for harmless in ["transactional = false", "trust = []", "min_hash = \"sha1\"", "ciphers = [\"aes128\", \"aes192\", \"aes256\"]"] {
        assert_eq!(wrong_in_route(&route_from(harmless)), NOTHING, "{harmless}");
    }
}

/// The example of a route to MSMQ in the contract.
const TO_MSMQ: &str = "\
[from]
connector = \"rabbit\"
queue = \"replies\"
prefetch = 256
settle_after = \"1m\"
[to]
queue = 'DIRECT=OS:win01\\private$\\replies'
delivery = \"recoverable\"
time_to_reach_queue = \"4d\"
time_to_be_received = \"infinite\"
body_type = \"bytes\"
journal = false
dead_letter = true
carry_headers = true
ack = [\"reach\", \"receive\"]
[security]
mode = \"non-transparent\"
sign = true
encrypt = \"aes256\"
signature_form = \"wire\"
";

#[test]
fn routes_to_msmq_are_understood_and_refused() {
    let refusal = "routes/orders.toml:2: from.connector: is not supported by this version; routes lead from MSMQ to AMQP: \
                   [from] queue, [to] connector";
    assert_eq!(wrong_in_route(TO_MSMQ), [refusal]);
    let faulty = TO_MSMQ.replace("prefetch", "prefech").replace("\"4d\"", "4").replace("\"receive\"", "\"recieve\"");
    assert_eq!(wrong_in_route(&faulty), [
        refusal,
        "routes/orders.toml:4: from.prefech: unknown key; did you mean \"prefetch\"?",
        "routes/orders.toml:9: to.time_to_reach_queue: a time such as \"4d\" or \"infinite\" is expected, not an integer",
        "routes/orders.toml:15: to.ack: \"recieve\" is not \"reach\" or \"receive\"; did you mean \"receive\"?",
    ]);
}

#[test]
fn all_files_are_checked_at_once() {
    let files = Files::new("name = \"bridge01\"\n[queue_manager]\nnmae = \"x\"\n[connectors.rabbit]\ntype = \"amqp\"\n")
        .with("routes/a.toml", "[from\nqueue = 1\n")
        .with("routes/b.toml", "[from]\nqueue = 1\n[to]\nconnector = \"rabit\"\nexchange = \"\"\n")
        .with("routes/c d.toml", ROUTE)
        .with("routes/notes.txt", "not a route")
        .with("routes/.hidden.toml", "not a route");
    assert_eq!(files.problems(), [
        "mqbridge.toml:1: name: unknown key; this file may have admin, connectors, directory, http, key_cache, keys, log, \
         queue_manager, routes_dir, store",
        "mqbridge.toml:2: queue_manager.name: is missing; write the computer name that senders use, such as name = \
         \"bridge01\"",
        "mqbridge.toml:3: queue_manager.nmae: unknown key; did you mean \"name\"?",
        "mqbridge.toml:4: connectors.rabbit.uris: is missing; write uris = [\"amqp://user:password@host:5672/%2f\"], or \
         uri_file",
        "mqbridge.toml:5: connectors.rabbit.type: \"amqp\" is not \"amqp091\"",
        "routes/a.toml:1: not TOML: unclosed table, expected `]`",
        "routes/b.toml:2: from.queue: a string is expected, not an integer",
        "routes/b.toml:4: to.connector: there is no connector \"rabit\"; did you mean \"rabbit\"?",
        "routes/c d.toml: \"c d\" can't be the name of a route: it has letters, digits, \"-\" and \"_\" only, and at most 64 \
         of them",
    ]);
}

#[test]
fn routes_are_checked_without_a_readable_main_file() {
    let files = Files::new("[queue_manager\nname = \"bridge01\"\nname = \"bridge02\"\n")
        .with("routes/a.toml", &ROUTE.replace(r"private$\orders", r"bridge09\private$\orders"))
        .with("routes/b.toml", &ROUTE.replace("exchange", "exchnage"));
    let lines = files.problems();
    assert!(lines[0].starts_with("mqbridge.toml:1: not TOML: "), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("routes/a.toml")).count(), 0, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("routes/b.toml")).count(), 2, "{lines:?}");
}

#[test]
fn files_that_are_no_configuration_are_named() {
    let files = Files::new(MAIN);
    let path = files.dir.path().join("mqbridge.toml");
    assert_eq!(files.problems(), ["mqbridge.toml: warning: there is no route: routes holds no file NAME.toml"]);
    fs::remove_dir(files.dir.path().join("routes")).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: warning: routes_dir: routes does not exist"]);
    fs::write(&path, format!("routes_dir = \"ways\"\n{MAIN}")).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml:1: routes_dir: ways does not exist"]);
    fs::write(&path, [b'a', 0xFF]).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: is not a text in UTF-8"]);
    fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: is longer than 1 MiB and surely not what was meant"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: does not exist"]);
    fs::create_dir(&path).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: is a directory"]);
}

#[test]
fn a_route_file_that_leads_nowhere_is_not_passed_over() {
    let files = Files::new(MAIN).with("routes/orders.toml", ROUTE);
    std::os::unix::fs::symlink("nowhere", files.dir.path().join("routes/prices.toml")).unwrap();
    assert_eq!(files.problems(), ["routes/prices.toml: does not exist"]);
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

    let unset = Files::new(&main).with("routes/orders.toml", ROUTE).with_variable("SESSIONS", "many").with_variable("SIZE", "1 MiB");
    assert_eq!(unset.problems(), [
        "mqbridge.toml:4: queue_manager.max_sessions: \"many\" is not a number",
        "mqbridge.toml:6: queue_manager.idle_timeout: the environment variable IDLE is not set",
        "mqbridge.toml:9: connectors.rabbit.uris: the environment variable PASSWORD is not set",
    ]);
}

#[test]
fn secrets_are_printed_nowhere() {
    let main = MAIN.replace("guest:guest", "mqbridge:s3cret") + "[directory]\nbind_password = \"${LDAP}\"\n";
    let files = Files::new(&main).with("routes/orders.toml", ROUTE).with_variable("LDAP", "s3cret");
    let config = files.load().unwrap();
    let printed = format!("{config:?}\n{}\n{}", Summary(&config), config.inspect());
    assert!(!printed.contains("s3cret"), "{printed}");
    // Faults in every place where the password stands.
    for (from, to) in [
        ("amqp://", "ampq://"),
        ("5672", "567x"),
        ("/%2f", "/a/b"),
        ("uris = [", "uris = "),
        ("\"]\n", "\"\n"),
        ("s3cret@", "s3cret@@"),
        ("s3cret", "/s3cret"),
        ("uris = [", "uri = ["),
        ("bind_password", "bind_pasword"),
        ("${LDAP}", "${LDAP"),
    ] {
        let files = Files::new(&main.replacen(from, to, 2)).with("routes/orders.toml", ROUTE).with_variable("LDAP", "s3cret");
        let printed = match files.load() {
            Ok(config) => panic!("{from} -> {to} is not wrong: {config:?}"),
            Err(problems) => format!("{problems}\n{problems:?}"),
        };
        assert!(!printed.contains("3cret"), "{printed}");
    }
}

#[test]
fn files_that_others_may_read_or_change_are_warned_of() {
    let main = MAIN.replace("guest:guest", "mqbridge:s3cret");
    let files = Files::new(&main).with("routes/orders.toml", ROUTE);
    let set_mode = |name: &str, mode| {
        fs::set_permissions(files.dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("mqbridge.toml", 0o640);
    assert_eq!(files.problems(), NOTHING);
    set_mode("mqbridge.toml", 0o644);
    assert_eq!(files.problems(), [
        "mqbridge.toml:6: warning: everybody may read this password; keep it in a file of its own, or chmod o-r mqbridge.toml",
    ]);
    set_mode("mqbridge.toml", 0o600);
    set_mode("routes/orders.toml", 0o666);
    assert_eq!(files.problems(), [
        "routes/orders.toml: warning: everybody may write to this file; chmod o-w routes/orders.toml",
    ]);
}

#[test]
fn files_that_the_configuration_names_are_looked_at_on_request() {
    let main = "\
[queue_manager]
name = \"bridge01\"
state_dir = \"state\"
[keys]
private_key_file = \"qm.pem\"
[connectors.rabbit]
type = \"amqp091\"
uri_file = \"rabbit.uri\"
tls.ca_file = \"ca.pem\"
";
    let files = Files::new(main).with("routes/orders.toml", ROUTE);
    let inspect = || {
        let prefix = format!("{}/", files.dir.path().display());
        let problems = files.load().unwrap().inspect();
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect::<Vec<_>>()
    };
    assert_eq!(inspect(), [
        "mqbridge.toml:5: keys.private_key_file: qm.pem does not exist",
        "mqbridge.toml:8: connectors.rabbit.uri_file: rabbit.uri does not exist",
        "mqbridge.toml:9: connectors.rabbit.tls.ca_file: ca.pem does not exist",
    ]);
    let write = |name: &str, text: &str, mode| {
        let path = files.dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("qm.pem", "x", 0o640);
    write("rabbit.uri", "# no uri\n\namqp://mqbridge:s3cret@rabbit:port/\n", 0o600);
    write("ca.pem", "x", 0o644);
    assert_eq!(inspect(), [
        "mqbridge.toml:5: keys.private_key_file: qm.pem holds a secret and has mode 0640; let only its owner read it: \
         chmod 600 qm.pem",
        "mqbridge.toml:8: connectors.rabbit.uri_file: rabbit.uri:3: an AMQP URI with a port that is not a number from 1 to \
         65535; amqp://user:password@host:5672/%2f is expected (a \"/\" in a password is written %2F)",
    ]);
    write("qm.pem", "x", 0o600);
    write("rabbit.uri", "# two\namqps://mqbridge:s3cret@rabbit1\n  amqps://mqbridge:s3cret@rabbit2  \n", 0o600);
    assert_eq!(inspect(), NOTHING);
    let config = files.load().unwrap();
    let ConnectorConfig::Amqp091(rabbit) = &config.connectors["rabbit"];
    assert_eq!(rabbit.uris.read().unwrap().len(), 2);
    assert!(!files.dir.path().join("state").exists(), "reading a configuration makes nothing");
}

#[test]
fn text_of_a_file_can_not_take_over_a_terminal() {
    let lines = wrong_in_main(&main_with("\"\\u001b[2J\" = 1"));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].chars().all(|character| !character.is_control()), "{lines:?}");
    let lines = wrong_in_route(&ROUTE.replace("\"rabbit\"", "\"\\u0007\\n\""));
    assert!(lines[0].chars().all(|character| !character.is_control()), "{lines:?}");
}

fn shipped() -> Vec<PathBuf> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let examples = fs::read_dir(config.join("examples")).unwrap().map(|entry| entry.unwrap().path());
    std::iter::once(config.clone()).chain(examples).map(|dir| dir.join("mqbridge.toml")).collect()
}

#[test]
fn every_shipped_configuration_is_right() {
    let files = shipped();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let passwords = |name: &str| name.ends_with("_PASSWORD").then(|| "s3cret".to_owned());
        match config::load(&file, passwords) {
            Ok(config) => {
                assert_eq!(config.warnings, [], "{}", file.display());
                assert!(!config.routes.is_empty(), "{}", file.display());
            }
            Err(problems) => panic!("{problems}"),
        }
    }
}

#[test]
fn the_defaults_in_the_shipped_files_are_the_defaults() {
    /// Shown as examples, because there is no default.
    const EXAMPLES: [&str; 15] = [
        "private_key_file", "[keys.base]", "[keys.enhanced]", "uri_file", "tls.ca_file", "tls.cert_file", "tls.key_file",
        "[http]", "private_id", "guid", "trust", "content_type", "unpack", "reseal_for", "reseal_as",
    ];
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let with_defaults = |name: &str| {
        let text = fs::read_to_string(config.join(name)).unwrap();
        let mut skipping = false;
        let lines = text.lines().map(|line| {
            let key = line.strip_prefix('#').filter(|key| !key.is_empty() && !key.starts_with(' ')).unwrap_or("");
            // The sections that this version has no use for are examples as a whole.
            skipping = key.starts_with("[directory]") || key.starts_with("[http]") || (skipping && !key.is_empty());
            let is_example = skipping || EXAMPLES.iter().any(|example| key.starts_with(example));
            if key.is_empty() || is_example { line } else { key }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let (main, route) = (with_defaults("mqbridge.toml"), with_defaults("routes/orders.toml"));
    assert!(main.contains("\nmax_sessions = ") && main.contains("\nlifetime = ") && !main.contains("\nbase_dn"), "{main}");
    assert!(route.contains("\nmax_in_flight = ") && route.contains("\nrequired = "), "{route}");
    let bare_route = fs::read_to_string(config.join("routes/orders.toml")).unwrap();
    let bare_main = fs::read_to_string(config.join("mqbridge.toml")).unwrap();
    let bare = Files::new(&bare_main).with("routes/orders.toml", &bare_route).with_nothing_wrong();
    let written = Files::new(&main).with("routes/orders.toml", &route).with_nothing_wrong();
    let without_place = |config: Config| Config { source_files: Vec::new(), ..config };
    assert_eq!(without_place(written), without_place(bare));
}

#[test]
fn the_summary_shows_canonical_names() {
    let files = Files::new(&MAIN.replace("guest:guest", "mqbridge:${P}"))
        .with("routes/orders.toml", &ROUTE.replace(r"private$\orders", r"DIRECT=TCP:10.1.2.3\PRIVATE$\Orders"))
        .with_variable("P", "s3cret");
    let config = files.with_nothing_wrong();
    assert_eq!(Summary(&config).to_string(), "\
queue manager bridge01, also called bridge01.corp.example, 10.1.2.3
  listens on 0.0.0.0:1801
  answers pings on 0.0.0.0:3527
  keeps at most 10 GiB in /var/lib/mqbridge
  is controlled by /var/lib/mqbridge/admin.sock
connector rabbit: AMQP 0-9-1 at amqp://127.0.0.1:5672/%2f, heartbeat 20s
route orders: DIRECT=OS:bridge01\\private$\\Orders
  to rabbit, exchange \"orders\", routing key \"{queue}\"
  takes non-transactional messages from everyone, signed or not, encrypted or not
  non-transparent: the bridge is the receiver
  holds at most 1 GiB, then sessions are closed; 512 in flight
  unroutable messages: tried again; extensions over 64 KiB are left out
");
}
