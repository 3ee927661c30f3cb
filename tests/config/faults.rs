//! A table of faults, and the exact line that each is reported with.

use super::{MAIN, ROUTE, main_with, route_from, route_to, wrong_in_main, wrong_in_route};

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn faults_of_the_main_file_are_named_with_line_and_remedy() {
    for (line, expected) in [
        ("max_sesions = 1", "mqbridge.toml:4: queue_manager.max_sesions: unknown key; did you mean \"max_sessions\"?"),
        (
            "colour = 1",
            "mqbridge.toml:4: queue_manager.colour: unknown key; [queue_manager] may have accept_as, clock_skew, \
             connect_timeout, handshake_timeout, idle_timeout, insecure_nacks, listen, max_message, max_sessions, name, \
             ping, retry_interval, retry_interval_max, shutdown_timeout, slow_sender_timeout, state_dir",
        ),
        (
            "listen = []",
            "mqbridge.toml:4: queue_manager.listen: without an address nobody can send; write [\"0.0.0.0:1801\"]",
        ),
        (
            "listen = \"0.0.0.0:1801\"",
            "mqbridge.toml:4: queue_manager.listen: a list of strings is expected, not a string",
        ),
        (
            "listen = [\"0.0.0.0\"]",
            "mqbridge.toml:4: queue_manager.listen: \"0.0.0.0\" has no port; write \"0.0.0.0:1801\"",
        ),
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
        (
            "max_sessions = \"7\"",
            "mqbridge.toml:4: queue_manager.max_sessions: a whole number is expected, not a string",
        ),
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
        ("state_dir = \"\"", "mqbridge.toml:4: queue_manager.state_dir: an empty path"),
        ("[http]", "mqbridge.toml:4: http.listen: is missing; write listen = \"127.0.0.1:9180\", or remove [http]"),
        (
            "[log]\nlevel = \"warning\"",
            "mqbridge.toml:5: log.level: \"warning\" is not \"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
        ),
        (
            "[log]\nlevel = \"Debug\"",
            "mqbridge.toml:5: log.level: \"Debug\" is not \"error\", \"warn\", \"info\", \"debug\" or \"trace\"; did you mean \"debug\"?",
        ),
        (
            "[log]\nformat = \"jsn\"",
            "mqbridge.toml:5: log.format: \"jsn\" is not \"text\" or \"json\"; did you mean \"json\"?",
        ),
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
        (
            "[keys.enhanced]\nprivate_key_file = \"x\"",
            "mqbridge.toml:4: keys.enhanced: is not supported by this version; one key serves all providers: write \
             private_key_file in [keys]",
        ),
        (
            "[directory]\npath = \"directory.toml\"",
            "mqbridge.toml:4: directory.kind: is missing; write kind = \"file\", or remove [directory]",
        ),
        (
            "[key_cache]\nmachines = 1",
            "mqbridge.toml:5: warning: key_cache.machines: 1 has no effect in this version: no body is opened",
        ),
        (
            "[key_cache]\nkeys_per_machine = 1",
            "mqbridge.toml:5: warning: key_cache.keys_per_machine: 1 has no effect in this version: no body is opened",
        ),
        (
            "[key_cache]\nlifetime = \"1h\"",
            "mqbridge.toml:5: warning: key_cache.lifetime: \"1h\" has no effect in this version: no body is opened",
        ),
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
        (MAIN.replace("amqp091", "amqp10"), "mqbridge.toml:5: connectors.rabbit.type: \"amqp10\" is not \"amqp091\""),
        (
            MAIN.replace("type = \"amqp091\"\n", ""),
            "mqbridge.toml:4: connectors.rabbit.type: is missing; write type = \"amqp091\"",
        ),
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
        (
            format!("{MAIN}[connectors]\nspare = 1\n"),
            "mqbridge.toml:8: connectors.spare: a section is expected, not an integer",
        ),
        (
            format!("{MAIN}[admin]\nsocket = \"/{}\"\n", "x".repeat(107)),
            &format!(
                "mqbridge.toml:8: admin.socket: the path of a socket has at most 107 bytes; /{} has 108",
                "x".repeat(107)
            ),
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
        (
            route_to("max_inflight = 1"),
            "routes/orders.toml:6: to.max_inflight: unknown key; did you mean \"max_in_flight\"?",
        ),
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
        (
            route_from("private_id = 4"),
            "routes/orders.toml:3: from.private_id: 4 is the number of the queue manager's own order_queue$",
        ),
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
        (
            "required = 1\n".to_owned() + ROUTE,
            "routes/orders.toml:1: required: true or false is expected, not an integer",
        ),
    ] {
        assert_eq!(wrong_in_route(&route), [expected]);
    }
}
