//! The commands that speak with others: a queue manager, a running bridge, a broker; and `decode`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connector_api::{Connector, Place};
use zeroize::Zeroizing;

use super::describe::{Piece, decode_file};
use super::send::{SendError, SendRequest, send};
use super::socket::ask_status;
use super::status::render;
use crate::bridge::Credentials;
use crate::cli::{
    CheckArgs, DecodeArgs, Delivery, EncryptWith, Exit, JsonArgs, Lifetime, SendArgs, SignWith, Surroundings, check,
    load,
};
use crate::config::Config;
use crate::daemon::MakeConnector;
use crate::directory::file::material;
use crate::mqqb::wire::Guid;
use crate::net::Clock;
use crate::security::{Certificate, Cipher, PrivateKey, PublicKey};

/// `send`.
pub async fn run_send(args: SendArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let (body, extension) = match (read_body(&args), args.extension_file.as_deref().map_or(Ok(Bytes::new()), read)) {
        (Ok(body), Ok(extension)) => (body, extension),
        (Err(why), _) | (_, Err(why)) => return complain(surroundings, &why),
    };
    let (sign, encrypt) = match (credentials(&args), receiver(&args)) {
        (Ok(sign), Ok(encrypt)) => (sign, encrypt),
        (Err(why), _) | (_, Err(why)) => return complain(surroundings, &why),
    };
    let request = SendRequest {
        to: args.to,
        host: args.host,
        port: args.port,
        label: Some(args.label).filter(|label| !label.is_empty()),
        body,
        body_type: args.body_type,
        recoverable: args.delivery == Delivery::Recoverable,
        priority: args.priority,
        correlation_id: args.correlation_id,
        response_queue: args.response_queue,
        admin_queue: args.admin_queue,
        app_specific: args.app_specific,
        time_to_reach_queue: seconds(args.time_to_reach_queue),
        time_to_be_received: seconds(args.time_to_be_received),
        extension,
        sign,
        encrypt,
        count: args.count,
        timeout: args.timeout,
        source: Guid::from_random(rand::random()),
    };
    match send(&request, Clock::start()).await {
        Ok(sent) => {
            let by = format!("acknowledged by queue manager {}", sent.taken_by);
            let _ = match sent.count {
                1 => writeln!(surroundings.out, "sent {}: {by}", sent.first),
                count => writeln!(surroundings.out, "sent {count} messages from {} on: {by}", sent.first),
            };
            // The protocol acknowledges refused messages too.
            let _ = writeln!(
                surroundings.out,
                "(a refused message is acknowledged too; the receiver's log says which it was)"
            );
            Exit::Done
        }
        Err(error @ (SendError::Destination { .. } | SendError::Queue(_))) => {
            complain(surroundings, &error);
            Exit::Usage
        }
        Err(error) => complain(surroundings, &error),
    }
}

/// `status`.
pub async fn run_status(args: &JsonArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let config = match load(&args.config.config, surroundings) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    match ask_status(&config.admin.socket).await {
        Ok(report) => {
            let text = if args.json {
                serde_json::to_string_pretty(&report).map(|json| json + "\n").unwrap_or_default()
            } else {
                render(&report)
            };
            let _ = surroundings.out.write_all(text.as_bytes());
            Exit::Done
        }
        Err(error) => complain(surroundings, &error),
    }
}

/// `decode`.
pub fn run_decode(args: &DecodeArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let bytes = match read(&args.file) {
        Ok(bytes) => bytes,
        Err(why) => return complain(surroundings, &why),
    };
    let pieces = match decode_file(&bytes) {
        Ok(pieces) => pieces,
        Err(error) => return complain(surroundings, &error),
    };
    let whole = pieces.iter().all(Piece::is_whole);
    if args.json {
        let values: Vec<_> = pieces.iter().map(Piece::to_json).collect();
        let text = serde_json::to_string_pretty(&values).unwrap_or_default();
        let _ = writeln!(surroundings.out, "{text}");
    } else {
        for piece in &pieces {
            let _ = write!(surroundings.out, "{}", piece.to_text());
        }
    }
    if whole { Exit::Done } else { Exit::Failed }
}

/// `check`, with `--online` the part that needs a network: names are resolved, ports tried, brokers logged in to.
pub async fn run_check(args: &CheckArgs, make_connector: MakeConnector, surroundings: &mut Surroundings<'_>) -> Exit {
    const PATIENCE: Duration = Duration::from_secs(10);
    let config = match check(&args.config, surroundings) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    if !args.online {
        return Exit::Done;
    }
    let mut exit = Exit::Done;
    let connectors: BTreeMap<_, Result<Arc<dyn Connector>, _>> =
        config.connectors.iter().map(|(name, config)| (name, make_connector(name, config))).collect();
    for (name, connector) in connectors {
        let places = places(&config, name);
        let looked = match connector {
            Ok(connector) => connector.missing(&places, PATIENCE).await,
            Err(why) => Err(why),
        };
        let troubles = match looked {
            Ok(missing) => {
                let _ = writeln!(surroundings.out, "connector {name}: connected and logged in");
                missing
            }
            Err(why) => vec![why],
        };
        for why in troubles {
            exit = complain(surroundings, &format!("connector {name}: {why}"));
        }
    }
    exit
}

/// What the routes need of a connector's system. The default exchange is always there, and takes the routing key for the
/// name of a queue.
fn places(config: &Config, connector: &str) -> Vec<Place> {
    let targets = config.routes.iter().map(|route| &route.to).filter(|to| to.connector == connector);
    let sources = config.return_routes.iter().map(|route| &route.from).filter(|from| from.connector == connector);
    let places: BTreeSet<_> = targets
        .filter_map(|to| match to.exchange.as_str() {
            "" => to.routing_key.fixed().map(Place::Queue),
            exchange => Some(Place::Exchange(exchange.to_owned())),
        })
        .chain(sources.map(|from| Place::Queue(from.queue.clone())))
        .collect();
    places.into_iter().collect()
}

fn complain(surroundings: &mut Surroundings<'_>, why: &dyn std::fmt::Display) -> Exit {
    // A reader that is gone has seen enough.
    let _ = writeln!(surroundings.err, "mqbridge: {why}");
    Exit::Failed
}

fn read_body(args: &SendArgs) -> Result<Bytes, String> {
    match (&args.body, &args.body_file) {
        (Some(text), _) => Ok(Bytes::from(text.clone())),
        (None, Some(path)) => read(path),
        (None, None) => Ok(Bytes::new()),
    }
}

/// What `--sign` names.
fn credentials(args: &SendArgs) -> Result<Option<Credentials>, String> {
    let Some(SignWith { key: key_file, certificate: file }) = &args.sign else { return Ok(None) };
    let pem = Zeroizing::new(read(key_file)?.to_vec());
    let key = PrivateKey::from_pem(&String::from_utf8_lossy(&pem))
        .map_err(|why| format!("{} is of no use: {why}", key_file.display()))?;
    let der = material::certificate(&read(file)?).map_err(|why| format!("{} {why}", file.display()))?;
    let certificate = Certificate::from_der(der).map_err(|why| format!("{} is of no use: {why}", file.display()))?;
    if certificate.key() != key.public() {
        return Err(format!("{} is the certificate of another key than {}", file.display(), key_file.display()));
    }
    Ok(Some(Credentials { key, certificate }))
}

/// What `--encrypt` names.
fn receiver(args: &SendArgs) -> Result<Option<(Cipher, PublicKey)>, String> {
    let Some(EncryptWith { cipher, key: file }) = &args.encrypt else { return Ok(None) };
    let key = material::public_key(&read(file)?).map_err(|why| format!("{} {why}", file.display()))?;
    Ok(Some((*cipher, key)))
}

/// A file, or standard input for `-`.
fn read(path: &Path) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    read.map(|()| bytes.into()).map_err(|error| format!("{} can't be read: {error}", path.display()))
}

/// Whole seconds, rounded up; a time beyond what the protocol can say is no limit.
fn seconds(lifetime: Lifetime) -> Option<u32> {
    match lifetime {
        Lifetime::Infinite => None,
        Lifetime::For(time) => {
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            u32::try_from(seconds).ok().filter(|&seconds| seconds != u32::MAX)
        }
    }
}
