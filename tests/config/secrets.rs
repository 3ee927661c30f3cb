//! Secrets and control characters stay in the files.

use mqbridge::config::Summary;

use super::{Files, MAIN, ROUTE, main_with, wrong_in_main, wrong_in_route};

#[test]
fn secrets_are_printed_nowhere() {
    let main = MAIN.replace("guest:guest", "mqbridge:s3cret");
    let with_directory = format!("{main}[directory]\nkind = \"ldap\"\nbind_password = \"${{LDAP}}\"\n");
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
        let main = if main.contains(from) { &main } else { &with_directory };
        let files =
            Files::new(&main.replacen(from, to, 2)).with("routes/orders.toml", ROUTE).with_variable("LDAP", "s3cret");
        let printed = match files.load() {
            Ok(config) => panic!("{from} -> {to} is not wrong: {config:?}"),
            Err(problems) => format!("{problems}\n{problems:?}"),
        };
        assert!(!printed.contains("3cret"), "{printed}");
    }
}

#[test]
fn text_of_a_file_can_not_take_over_a_terminal() {
    let lines = wrong_in_main(&main_with("\"\\u001b[2J\" = 1"));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].chars().all(|character| !character.is_control()), "{lines:?}");
    let lines = wrong_in_route(&ROUTE.replace("\"rabbit\"", "\"\\u0007\\n\""));
    assert!(lines[0].chars().all(|character| !character.is_control()), "{lines:?}");
}
