//! A queue manager has one identity, whatever happens while it is made.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use jiff::Timestamp;
use mqbridge::cli::{self, ConfigArgs, Exit, JsonArgs, KeyArgs, KeyCommand, Surroundings};
use mqbridge::identity::{Identity, IdentityError, Made};
use mqbridge::security::PrivateKey;
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::constant(1_795_760_543, 123_000_000);

fn open_or_create(state_dir: &Path) -> Result<(Identity, Made), IdentityError> {
    Identity::open_or_create(state_dir, None, &mut rand::rng(), NOW)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A key of the vectors as a private file.
fn key_file(dir: &Path, name: &str) -> PathBuf {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors/keys");
    let path = dir.join(name);
    fs::copy(vectors.join(name), &path).unwrap();
    set_mode(&path, 0o600);
    path
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_identity_is_made_once_and_kept() {
    let dir = TempDir::new().unwrap();
    let state_dir = dir.path().join("state");
    assert!(matches!(Identity::open(&state_dir, None), Err(IdentityError::Absent(path)) if path == state_dir));
    assert!(!state_dir.exists(), "looking makes nothing");

    let (first, made) = open_or_create(&state_dir).unwrap();
    assert_eq!(made, Made { identity: true, key: true });
    assert_eq!(first.created.to_string(), "2026-11-27T06:22:23Z");
    assert_eq!(names(&state_dir), ["identity", "qm.pem"]);
    assert_eq!((mode(&state_dir), mode(&first.key_file), mode(&state_dir.join("identity"))), (0o700, 0o600, 0o600));
    let contents = || (fs::read(state_dir.join("identity")).unwrap(), fs::read(state_dir.join("qm.pem")).unwrap());
    let before = contents();

    let (second, made) = open_or_create(&state_dir).unwrap();
    assert_eq!(made, Made::default());
    assert_eq!((second.guid, &second.key), (first.guid, &first.key));
    assert_eq!(contents(), before);
    assert_eq!(Identity::open(&state_dir, None).unwrap().guid, first.guid);

    let (other, _) = open_or_create(&dir.path().join("other")).unwrap();
    assert_ne!(other.guid, first.guid);
    assert_ne!(other.key, first.key);
}

#[test]
fn two_that_start_at_once_become_one() {
    let dir = TempDir::new().unwrap();
    let (key, state_dir) = (key_file(dir.path(), "qm-local-2048.pem"), dir.path().join("state"));
    for _ in 0..20 {
        let barrier = Barrier::new(4);
        let identities: Vec<_> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                Identity::open_or_create(&state_dir, Some(&key), &mut rand::rng(), NOW).unwrap()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(identities.iter().all(|(identity, _)| identity.guid == identities[0].0.guid));
        assert_eq!(identities.iter().filter(|(_, made)| made.identity).count(), 1);
        assert_eq!(names(&state_dir), ["identity"]);
        fs::remove_dir_all(&state_dir).unwrap();
    }
    // The key, too.
    let barrier = Barrier::new(2);
    let identities: Vec<_> = std::thread::scope(|scope| {
        let start = || {
            barrier.wait();
            open_or_create(&state_dir).unwrap()
        };
        let threads = [scope.spawn(start), scope.spawn(start)];
        threads.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(identities[0].0.key, identities[1].0.key);
    assert_eq!(identities.iter().filter(|(_, made)| made.key).count(), 1);
}

#[test]
fn a_crash_while_it_is_made_does_no_harm() {
    let dir = TempDir::new().unwrap();
    let state_dir = dir.path();
    // Written, but not in its place; and the key was there first.
    fs::write(state_dir.join(".identity.0123456789abcdef.new"), "format = 1\nguid = \"c778").unwrap();
    fs::write(state_dir.join(".qm.pem.0123456789abcdef.new"), "").unwrap();
    let key = PrivateKey::generate(&mut rand::rng()).unwrap();
    fs::write(state_dir.join("qm.pem"), key.to_pem().unwrap().as_bytes()).unwrap();
    set_mode(&state_dir.join("qm.pem"), 0o600);
    fs::write(state_dir.join("queues.redb"), "not ours").unwrap();

    let (identity, made) = open_or_create(state_dir).unwrap();
    assert_eq!(made, Made { identity: true, key: false });
    assert_eq!(identity.key, key);
    assert_eq!(names(state_dir), ["identity", "qm.pem", "queues.redb"]);
}

#[test]
fn a_damaged_identity_is_an_error_and_stays_as_it_is() {
    let dir = TempDir::new().unwrap();
    let state_dir = dir.path();
    let key = key_file(state_dir, "qm-local-2048.pem");
    let path = state_dir.join("identity");
    let guid = "c778ca24-7c5a-4060-80c0-aeee428d53ae";
    let file = |guid: &str| format!("format = 1\nguid = \"{guid}\"\ncreated = \"2026-11-30T06:22:23Z\"\n");
    let null = "00000000-0000-0000-0000-000000000000";
    for (contents, why) in [
        (Vec::new(), "it is empty"),
        (b"\n".to_vec(), "it is empty"),
        (vec![0; 128], "control"),
        (vec![0xFF; 128], "it is not a text"),
        (file(guid).as_bytes()[..30].to_vec(), ""),
        (file(null).into_bytes(), "its GUID is null"),
        (file(&guid[1..]).into_bytes(), "is not a GUID"),
        (file(guid).replace("created", "made").into_bytes(), "missing field `created`"),
        (file(guid).replace("2026", "x").into_bytes(), "created is not a time"),
        (file(guid).replace("format = 1", "format = 2").into_bytes(), "it has format 2 of a later version of mqbridge"),
    ] {
        fs::write(&path, &contents).unwrap();
        let error = Identity::open_or_create(state_dir, Some(&key), &mut rand::rng(), NOW).unwrap_err();
        assert!(matches!(error, IdentityError::Damaged { .. }), "{error:?}");
        let sentence = error.to_string();
        assert!(sentence.starts_with(&format!("{} is damaged: ", path.display())), "{sentence}");
        assert!(sentence.contains("Restore it from a backup") && !sentence.contains('\n'), "{sentence}");
        if why != "control" {
            assert!(sentence.contains(why), "{sentence}");
        }
        assert_eq!(fs::read(&path).unwrap(), contents);
    }
    fs::write(&path, file(guid)).unwrap();
    let (identity, made) = Identity::open_or_create(state_dir, Some(&key), &mut rand::rng(), NOW).unwrap();
    assert_eq!((identity.guid.to_string().as_str(), made), (guid, Made::default()));
}

#[test]
fn a_key_that_others_can_read_or_that_is_none_is_refused() {
    let dir = TempDir::new().unwrap();
    let state_dir = dir.path().join("state");
    let key = key_file(dir.path(), "qm-local-2048.pem");
    let open = |key: &Path| Identity::open_or_create(&state_dir, Some(key), &mut rand::rng(), NOW).map(drop);
    for exposed in [0o640, 0o604, 0o660] {
        set_mode(&key, exposed);
        let sentence = open(&key).unwrap_err().to_string();
        let shown = key.display();
        assert_eq!(
            sentence,
            format!("{shown} holds a secret and has mode {exposed:04o}; let only its owner read it: chmod 600 {shown}")
        );
    }
    set_mode(&key, 0o400);
    open(&key).unwrap();
    let absent = dir.path().join("absent.pem");
    assert_eq!(open(&absent).unwrap_err().to_string(), format!("{} does not exist", absent.display()));
    assert!(!absent.exists(), "a key that the configuration names is never made");
    let short = key_file(dir.path(), "qm-local-512.pem");
    assert!(matches!(open(&short), Err(IdentityError::ShortKey { bits: 512, .. })));
    fs::write(&short, "nonsense").unwrap();
    assert!(matches!(open(&short), Err(IdentityError::Key { .. })));
    assert_eq!(names(&state_dir), ["identity"]);
}

#[test]
fn a_state_directory_that_can_not_be_made_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = open_or_create(&file.join("state")).unwrap_err();
    assert!(matches!(&error, IdentityError::StateDirectory { path, .. } if *path == file.join("state")), "{error:?}");
    let error = open_or_create(&file).unwrap_err();
    assert!(matches!(error, IdentityError::StateDirectory { .. }), "{error:?}");
}

/// What a command prints on stdout and stderr, and how it ends.
fn run(command: impl FnOnce(&mut Surroundings<'_>) -> Exit) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = command(&mut Surroundings { out: &mut out, err: &mut err, environment: &|_| None, now: NOW });
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn commands_make_and_show_the_identity() {
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("mqbridge.toml");
    let text = "[queue_manager]\nname = \"bridge01\"\naccept_as = [\"10.1.2.3\"]\nstate_dir = \"state\"\n";
    fs::write(&config, text).unwrap();
    fs::create_dir(dir.path().join("routes")).unwrap();
    fs::write(dir.path().join("routes/a.toml"), "").unwrap();
    let args = ConfigArgs { config: config.clone() };
    let show = |json| JsonArgs { config: args.clone(), json };

    let (exit, _, err) = run(|surroundings| cli::init(&args, surroundings));
    assert_eq!(exit, Exit::Configuration);
    assert!(err.ends_with("\n3 errors, 0 warnings\n"), "{err}");
    fs::remove_file(dir.path().join("routes/a.toml")).unwrap();

    let (exit, out, err) = run(|surroundings| cli::id(&show(false), surroundings));
    assert_eq!((exit, out.as_str()), (Exit::Failed, ""));
    assert!(err.ends_with("state holds no identity yet; make it with: mqbridge init\n"), "{err}");

    let (exit, out, _) = run(|surroundings| cli::init(&args, surroundings));
    let identity = Identity::open(&dir.path().join("state"), None).unwrap();
    let place = dir.path().join("state");
    assert_eq!(exit, Exit::Done);
    assert_eq!(
        out,
        format!(
            "made identity {} in {place}\nmade key {place}/qm.pem\nmade store {place}/store.redb\n",
            identity.guid,
            place = place.display()
        )
    );
    let (exit, out, _) = run(|surroundings| cli::init(&args, surroundings));
    assert_eq!(exit, Exit::Done);
    assert!(out.starts_with("kept identity ") && out.contains("\nkept key ") && out.contains("\nkept store "), "{out}");

    let blob = identity.key.public().to_blob().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let pem = identity.key.public().to_pem().unwrap();
    let (exit, out, _) = run(|surroundings| cli::id(&show(false), surroundings));
    assert_eq!(exit, Exit::Done);
    for part in [&format!("name   bridge01\nguid   {}\n", identity.guid), "names  bridge01, 10.1.2.3\n", &pem, &blob] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    let (exit, out, _) = run(|surroundings| cli::id(&show(true), surroundings));
    assert_eq!(exit, Exit::Done);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["name"], "bridge01");
    assert_eq!(json["guid"], identity.guid.to_string());
    assert_eq!(json["names"], serde_json::json!(["bridge01", "10.1.2.3"]));
    assert_eq!(json["public_keys"][0]["pem"], pem);
    assert_eq!(json["public_keys"][0]["publickeyblob"], blob);
    assert!(!out.contains("PRIVATE"), "{out}");
}

/// Who signs with another certificate is another sender: it is made once, and replaced only by whoever says so.
#[test]
fn the_certificate_is_made_once_from_the_key_and_renewed_on_demand() {
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("mqbridge.toml");
    fs::write(&config, "[queue_manager]\nname = \"bridge01\"\nstate_dir = \"state\"\n").unwrap();
    let args = ConfigArgs { config: config.clone() };
    let state = dir.path().join("state");
    let key = |command| move |surroundings: &mut Surroundings<'_>| cli::key(&KeyArgs { command }, surroundings);
    let show = |json| KeyCommand::Show(JsonArgs { config: args.clone(), json });

    let (exit, _, err) = run(key(KeyCommand::NewCert(args.clone())));
    assert_eq!(exit, Exit::Failed);
    assert!(err.ends_with("state holds no identity yet; make it with: mqbridge init\n"), "{err}");

    let (identity, _) = open_or_create(&state).unwrap();
    let (exit, out, _) = run(key(show(false)));
    assert_eq!(exit, Exit::Done);
    assert!(out.contains("RSA with 2048 bits\ncertificate  none yet; "), "{out}");
    let make = || identity.certificate_or_create(&state, "bridge01", &mut rand::rng(), NOW).unwrap();
    let (first, made) = make();
    assert!(made && first.key() == identity.key.public());
    assert_eq!(make(), (first.clone(), false));
    assert_eq!(names(&state), ["identity", "qm-cert.der", "qm.pem"]);

    let (exit, out, _) = run(key(KeyCommand::NewCert(args.clone())));
    assert_eq!(exit, Exit::Done);
    let (second, made) = make();
    assert!(!made && second.der() != first.der() && second.key() == first.key());
    let md5 = mqbridge::directory::digest(second.der()).to_string();
    assert!(out.contains(&md5) && out.contains(&identity.guid.to_string()), "{out}");
    let (_, out, _) = run(key(show(true)));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((json["key"]["bits"].as_u64(), json["certificate"]["md5"].as_str()), (Some(2048), Some(md5.as_str())));
    assert!(!out.contains("PRIVATE"), "{out}");

    // With another key it would prove nothing.
    let other = key_file(dir.path(), "user-a-1024.pem");
    let other = Identity::open(&state, Some(&other)).unwrap();
    let error = other.certificate_or_create(&state, "bridge01", &mut rand::rng(), NOW).unwrap_err().to_string();
    assert!(
        error.ends_with("for another key than the one of this queue manager; make another with: mqbridge key new-cert")
    );
    fs::write(state.join("qm-cert.der"), "damaged").unwrap();
    assert!(matches!(identity.certificate(&state), Err(IdentityError::Certificate { .. })));
}

#[test]
fn check_shows_all_problems_or_what_the_configuration_comes_to() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples/minimal/mqbridge.toml");
    let check = |config: &Path| {
        run(|surroundings| {
            cli::check(&ConfigArgs { config: config.to_owned() }, surroundings).map_or_else(|exit| exit, |_| Exit::Done)
        })
    };
    let (exit, out, err) = check(&config);
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert!(out.contains("route orders: DIRECT=OS:bridge01\\private$\\orders\n"), "{out}");

    // Right as it is, but a file that it names is not there.
    let dir = TempDir::new().unwrap();
    let text = fs::read_to_string(&config).unwrap() + "[keys]\nprivate_key_file = \"absent.pem\"\n";
    fs::write(dir.path().join("mqbridge.toml"), text).unwrap();
    let (exit, out, err) = check(&dir.path().join("mqbridge.toml"));
    assert_eq!((exit, out.as_str()), (Exit::Configuration, ""));
    let expected = format!("keys.private_key_file: {}/absent.pem does not exist\n", dir.path().display());
    assert!(err.contains(&expected), "{err}");
    assert!(err.contains("warning: routes_dir: ") && err.ends_with("\n1 error, 1 warning\n"), "{err}");
}
