use std::io::Write;

use crate::daemon::{STORE_FILE, store_options};
use crate::identity::{Identity, IdentityCard, IdentityError, Made};
use crate::store::Store;

use super::verify::load;
use super::{ConfigArgs, Exit, JsonArgs, Surroundings};

/// `init`: makes the state directory, the identity and the key, as far as they are absent.
pub fn init(args: &ConfigArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let config = match load(&args.config, surroundings) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let state_dir = &config.queue_manager.state_dir;
    let key_file = config.keys.private_key_file.as_deref();
    let opened = Identity::open_or_create(state_dir, key_file, &mut rand::rng(), surroundings.now);
    let (identity, made) = match opened {
        Ok(opened) => opened,
        Err(error) => return fail(&error, surroundings),
    };
    let done = |is_new: bool| if is_new { "made" } else { "kept" };
    let Made { identity: new_identity, key: new_key } = made;
    let _ = writeln!(surroundings.out, "{} identity {} in {}", done(new_identity), identity.guid, state_dir.display());
    let _ = writeln!(surroundings.out, "{} key {}", done(new_key), identity.key_file.display());
    // A store that is missing later is then known to have been lost.
    let store = state_dir.join(STORE_FILE);
    let new_store = !store.exists();
    if new_store && let Err(error) = Store::open(&store, store_options(&config)) {
        let _ = writeln!(surroundings.err, "mqbridge: {error}");
        return Exit::Failed;
    }
    let _ = writeln!(surroundings.out, "{} store {}", done(new_store), store.display());
    Exit::Done
}

/// `id`: shows who this queue manager is.
pub fn id(args: &JsonArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let config = match load(&args.config.config, surroundings) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let opened = Identity::open(&config.queue_manager.state_dir, config.keys.private_key_file.as_deref());
    let card = opened.and_then(|identity| {
        let key_file = identity.key_file.clone();
        identity.card(&config.queue_manager).map_err(|why| IdentityError::Key { path: key_file, why })
    });
    match card {
        Ok(card) => {
            show(&card, args.json, surroundings.out);
            Exit::Done
        }
        Err(error) => fail(&error, surroundings),
    }
}

fn show(card: &IdentityCard, as_json: bool, out: &mut dyn Write) {
    let text = if as_json {
        serde_json::to_string_pretty(card).map(|json| json + "\n").unwrap_or_default()
    } else {
        card.to_string()
    };
    let _ = out.write_all(text.as_bytes());
}

fn fail(error: &IdentityError, surroundings: &mut Surroundings<'_>) -> Exit {
    let _ = writeln!(surroundings.err, "mqbridge: {error}");
    Exit::Failed
}
