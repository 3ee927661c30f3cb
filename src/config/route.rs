use std::collections::HashMap;
use std::path::PathBuf;

use crate::mqqb::wire::{Guid, QueuePath};

use super::connector::{Connectors, is_name};
use super::problem::{Quoted, Severity, suggestion};
use super::process::QueueManagerConfig;
use super::queue_name;
use super::raw::{At, Context, Document, Section};
use super::return_route::{self, ReturnRoute};
use super::routing_key::RoutingKeyTemplate;
use super::unsupported;

/// A way from a queue of this machine to a foreign system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name of its file, without `.toml`.
    pub name: String,
    /// Where messages come from.
    pub from: MsmqSource,
    /// Where they go.
    pub to: AmqpTarget,
    /// What the bridge may do with what is inside.
    pub mode: SecurityMode,
    /// Whom bodies are encrypted for again; `None` for in clear. Never on a transparent route.
    pub reseal: Option<Reseal>,
    /// What happens to a message that the foreign system has no place for.
    pub unroutable: Unroutable,
    /// Whether the bridge counts as ready only while this route works.
    pub required: bool,
}

/// `[from]` of a route from MSMQ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsmqSource {
    /// The queue, private or public, without a suffix.
    pub queue: QueuePath,
    /// The number of a private queue in `PRIVATE=` names; given once and kept in the state when absent.
    pub private_id: Option<u32>,
    /// The identifier of a public queue in `PUBLIC=` names; given once and kept in the state when absent.
    pub guid: Option<Guid>,
    /// Which kind of messages.
    pub accepts: Accepts,
    /// Whether messages must be signed.
    pub authenticate: Authenticate,
    /// Whether messages must be encrypted, or must not be.
    pub privacy: Privacy,
    /// Who may send.
    pub senders: Senders,
    /// The weakest hash of a signature that proves anything.
    pub min_hash: Hash,
    /// The ciphers of bodies that are opened, and `rsa512` for keys below 1024 bits.
    pub ciphers: Vec<CipherChoice>,
    /// Bytes that may wait in the queue.
    pub quota: u64,
    /// What happens when that is full.
    pub on_quota: OnQuota,
    /// Whether expired messages are delivered.
    pub ignore_expiry: bool,
}

/// `from.transactional`: which kind of messages a queue takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Only those outside a transaction.
    NonTransactional,
    /// Only those of a transaction.
    Transactional,
    /// Either, which no queue of Windows does.
    Both,
}

/// `from.authenticate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticate {
    /// Unsigned messages pass as unauthenticated.
    Optional,
    /// Unsigned and unproven messages are refused.
    Required,
}

/// `from.privacy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Encrypted or not.
    Optional,
    /// Encrypted messages are refused.
    None,
    /// Clear messages are refused.
    Required,
}

/// `from.senders`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Senders {
    /// Whoever reaches the port.
    Everyone,
    /// These SIDs and directory groups.
    Listed(Vec<String>),
}

/// `from.min_hash`, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// Not computed here: nothing is weaker.
    Md2,
    /// Not computed here.
    Md4,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// An element of `from.ciphers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherChoice {
    /// AES with 128 bits.
    Aes128,
    /// AES with 192 bits.
    Aes192,
    /// AES with 256 bits.
    Aes256,
    /// RC2.
    Rc2,
    /// RC4.
    Rc4,
    /// Any of the others under an RSA key of less than 1024 bits.
    Rsa512,
}

impl CipherChoice {
    /// What is allowed when nothing is written.
    pub const DEFAULT: [Self; 3] = [Self::Aes128, Self::Aes192, Self::Aes256];
}

/// `from.on_quota`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnQuota {
    /// Sessions that bring more are closed; senders keep what they have.
    Hold,
    /// Messages are refused as `Q_EXCEED_QUOTA`, as MSMQ does it.
    Refuse,
}

/// `[to]` of a route to AMQP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpTarget {
    /// The connector's name.
    pub connector: String,
    /// The exchange; empty for the default one, which takes the routing key for a queue's name.
    pub exchange: String,
    /// How the routing key is made.
    pub routing_key: RoutingKeyTemplate,
    /// The content type; by body type when absent.
    pub content_type: Option<String>,
    /// Messages that may be on their way to the broker unconfirmed.
    pub max_in_flight: u16,
    /// Whether a message is published only after the one before it was confirmed.
    pub strict_order: bool,
    /// Bytes of the longest extension that is passed on as a header.
    pub extension_limit: u64,
    /// What happens to a message with a longer one.
    pub extension_policy: ExtensionPolicy,
}

/// `to.extension_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionPolicy {
    /// The message goes on without it, marked with the size of what is missing.
    Omit,
    /// The message becomes a dead letter.
    DeadLetter,
}

/// `security.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityMode {
    /// Encrypted bodies pass unopened, with what their receiver needs to open them.
    Transparent,
    /// The bridge is the receiver: it opens and verifies.
    NonTransparent,
}

/// `security.reseal_for` and `security.reseal_as`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reseal {
    /// The machine in the directory for whose key it is done.
    pub machine: String,
    /// In which form.
    pub form: ResealForm,
}

/// `security.reseal_as`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResealForm {
    /// As MSMQ does it, with AES of 256 bits, and the headers of a transparent route.
    Msmq,
    /// A compact JWE with RSA-OAEP-256 and A256GCM.
    Jwe,
}

/// `on_failure.unroutable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The route waits and tries again: nothing is lost, nothing overtakes.
    Retry,
    /// The message becomes a dead letter and the next one proceeds.
    DeadLetter,
}

/// A route of either direction.
#[derive(Clone, Debug)]
pub(super) enum AnyRoute {
    ToAmqp(Box<Route>),
    ToMsmq(Box<ReturnRoute>),
}

/// A route as its file has it, with what the checks across files need.
pub(super) struct RouteDraft {
    route: Option<AnyRoute>,
    name: String,
    file: PathBuf,
    /// The queue, once its spelling was understood.
    queue: Option<At<QueuePath>>,
    private_id: Option<At<u32>>,
    guid: Option<At<Guid>>,
}

/// What of the main file a route is checked against; nothing when that could not be read.
#[derive(Clone, Copy, Default)]
pub(super) struct Surroundings<'a> {
    pub(super) machine: Option<&'a QueueManagerConfig>,
    pub(super) connectors: Option<&'a Connectors>,
    /// Whether there is a section `[directory]`.
    pub(super) has_directory: Option<bool>,
}

impl Surroundings<'_> {
    /// Reports a key that is of no use without a directory.
    pub(super) fn need_directory(&self, section: &Section<'_>, key: &str, line: u32) {
        if self.has_directory == Some(false) {
            let text = "needs the receiver's public key, and there is no [directory] in the main file to look it up in";
            section.error(key, line, text.to_owned());
        }
    }
}

/// Reads one route file.
pub(super) fn read(document: &Document<'_>, root: &Section<'_>, surroundings: Surroundings<'_>) -> RouteDraft {
    let Surroundings { machine, connectors, .. } = surroundings;
    let name = document.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    if !is_name(&name) {
        let text = format!(
            "{} can't be the name of a route: it has letters, digits, \"-\" and \"_\" only, and at most 64 of them",
            Quoted(&name)
        );
        document.context.report(Severity::Error, document.path, None, None, text);
    }
    let (from, to) = (root.section("from"), root.section("to"));
    let security = root.section("security");
    let required = root.flag("required").is_none_or(|required| required.value);
    let mode = security
        .choice(
            "mode",
            &[("transparent", SecurityMode::Transparent), ("non-transparent", SecurityMode::NonTransparent)],
        )
        .map_or(SecurityMode::NonTransparent, |mode| mode.value);

    let mut draft = RouteDraft {
        route: None,
        name: name.clone(),
        file: document.path.to_owned(),
        queue: None,
        private_id: None,
        guid: None,
    };
    // Whoever forgets where messages come from has said where they go.
    if from.has("connector") || (to.has("queue") && !to.has("connector")) {
        let route = return_route::read(name, root, &security, mode, surroundings, required);
        draft.route = route.map(|route| AnyRoute::ToMsmq(Box::new(route)));
        unsupported::check(root, unsupported::File::RouteToMsmq);
    } else {
        draft.queue = read_queue(&from, machine);
        draft.private_id = read_private_id(&from, draft.queue.as_ref());
        draft.guid = read_guid(&from, draft.queue.as_ref());
        let from = read_from_msmq(&from, &draft);
        let to = read_to_amqp(&to, connectors);
        let unroutable = read_on_failure(&root.section("on_failure"));
        let reseal = read_reseal(&security, mode, surroundings);
        let route = from.zip(to).map(|(from, to)| Route { name, from, to, mode, reseal, unroutable, required });
        draft.route = route.map(|route| AnyRoute::ToAmqp(Box::new(route)));
        unsupported::check(root, unsupported::File::RouteToAmqp);
    }
    security.finish();
    root.finish();
    draft
}

fn read_queue(from: &Section<'_>, machine: Option<&QueueManagerConfig>) -> Option<At<QueuePath>> {
    let Some(text) = from.text("queue") else {
        if !from.has("queue") {
            from.missing("queue", "write the MSMQ queue of this machine, such as queue = 'private$\\orders'");
        }
        return None;
    };
    from.parsed("queue", &text, |text| queue_name::parse_local(text, machine))
}

fn read_private_id(from: &Section<'_>, queue: Option<&At<QueuePath>>) -> Option<At<u32>> {
    /// The number of `order_queue$` on every queue manager.
    const ORDER_QUEUE: u32 = 4;
    let id = from.integer("private_id", 1..=u64::from(u32::MAX))?;
    let value = u32::try_from(id.value).ok()?;
    if value == ORDER_QUEUE {
        from.error("private_id", id.line, "4 is the number of the queue manager's own order_queue$".to_owned());
    }
    if let Some(QueuePath::Public { .. }) = queue.map(|queue| &queue.value) {
        let text = "a public queue has no such number; write guid, or private$\\ before the queue's name".to_owned();
        from.error("private_id", id.line, text);
    }
    Some(At { value, line: id.line, from_environment: id.from_environment })
}

fn read_guid(from: &Section<'_>, queue: Option<&At<QueuePath>>) -> Option<At<Guid>> {
    let text = from.text("guid")?;
    let guid = from.parsed("guid", &text, str::parse::<Guid>)?;
    if guid.value.is_null() {
        from.error("guid", guid.line, "the null GUID identifies nothing".to_owned());
    }
    if let Some(QueuePath::Private { .. }) = queue.map(|queue| &queue.value) {
        from.error("guid", guid.line, "a private queue has no GUID of its own; write private_id".to_owned());
    }
    Some(guid)
}

fn read_from_msmq(from: &Section<'_>, draft: &RouteDraft) -> Option<MsmqSource> {
    let accepts = from.choice(
        "transactional",
        &[("true", Accepts::Transactional), ("false", Accepts::NonTransactional), ("both", Accepts::Both)],
    );
    let authenticate =
        from.choice("authenticate", &[("required", Authenticate::Required), ("optional", Authenticate::Optional)]);
    let privacy = from.choice(
        "privacy",
        &[("required", Privacy::Required), ("optional", Privacy::Optional), ("none", Privacy::None)],
    );
    let senders = from.texts("senders").map_or(Senders::Everyone, |senders| read_senders(from, senders));
    let min_hash = from.choice(
        "min_hash",
        &[
            ("md2", Hash::Md2),
            ("md4", Hash::Md4),
            ("md5", Hash::Md5),
            ("sha1", Hash::Sha1),
            ("sha256", Hash::Sha256),
            ("sha512", Hash::Sha512),
        ],
    );
    let ciphers = from.choices(
        "ciphers",
        &[
            ("aes128", CipherChoice::Aes128),
            ("aes192", CipherChoice::Aes192),
            ("aes256", CipherChoice::Aes256),
            ("rc2", CipherChoice::Rc2),
            ("rc4", CipherChoice::Rc4),
            ("rsa512", CipherChoice::Rsa512),
        ],
    );
    let quota = from.size("quota", 1 << 20..=1 << 50).map_or(1 << 30, |size| size.value);
    let on_quota = from.choice("on_quota", &[("hold", OnQuota::Hold), ("refuse", OnQuota::Refuse)]);
    let ignore_expiry = from.flag("ignore_expiry").is_some_and(|flag| flag.value);
    let _ = from.flag("journal");
    let _ = from.texts("trust");
    from.finish();
    Some(MsmqSource {
        queue: draft.queue.as_ref()?.value.clone(),
        private_id: draft.private_id.as_ref().map(|id| id.value),
        guid: draft.guid.as_ref().map(|guid| guid.value),
        accepts: accepts.map_or(Accepts::NonTransactional, |accepts| accepts.value),
        authenticate: authenticate.map_or(Authenticate::Optional, |authenticate| authenticate.value),
        privacy: privacy.map_or(Privacy::Optional, |privacy| privacy.value),
        senders,
        min_hash: min_hash.map_or(Hash::Sha1, |hash| hash.value),
        ciphers: ciphers.map_or_else(
            || CipherChoice::DEFAULT.to_vec(),
            |ciphers| ciphers.into_iter().map(|cipher| cipher.value).collect(),
        ),
        quota,
        on_quota: on_quota.map_or(OnQuota::Hold, |on_quota| on_quota.value),
        ignore_expiry,
    })
}

fn read_senders(from: &Section<'_>, senders: Vec<At<String>>) -> Senders {
    if from.is_empty_list("senders") {
        from.fault("senders", "nobody may send; write senders = [\"everyone\"] or remove the route".to_owned());
    }
    if senders.iter().any(|sender| sender.value.eq_ignore_ascii_case("everyone")) {
        return Senders::Everyone;
    }
    for sender in senders.iter().filter(|sender| sender.value.contains('\\')) {
        let text = format!("{} is a user's name; write the SID, or a group that the user is in", Quoted(&sender.value));
        from.error("senders", sender.line, text);
    }
    Senders::Listed(senders.into_iter().map(|sender| sender.value).collect())
}

fn read_to_amqp(to: &Section<'_>, connectors: Option<&Connectors>) -> Option<AmqpTarget> {
    let connector = to.text("connector");
    match &connector {
        Some(connector) => check_connector(to, connector, connectors),
        None if !to.has("connector") => to.missing("connector", "write the name of a section [connectors.NAME]"),
        None => {}
    }
    let exchange = to.text("exchange");
    match &exchange {
        // Exchange names are short strings (AMQP 0-9-1, 4.2.5.3).
        Some(exchange) if exchange.value.len() > 255 => {
            to.error("exchange", exchange.line, "the name of an exchange has at most 255 bytes".to_owned());
        }
        None if !to.has("exchange") => {
            to.missing(
                "exchange",
                "write exchange = \"\" for the default exchange, which takes the routing key for a queue",
            );
        }
        _ => {}
    }
    let routing_key = match to.text("routing_key") {
        Some(text) => to.parsed("routing_key", &text, str::parse::<RoutingKeyTemplate>).map(|template| template.value),
        None => "{queue}".parse().ok(),
    };
    let content_type = to.text("content_type");
    if let Some(text) = content_type.as_ref().filter(|text| text.value.is_empty() || text.value.len() > 255) {
        to.error("content_type", text.line, "a content type has 1 to 255 bytes".to_owned());
    }
    let max_in_flight = to.integer("max_in_flight", 1..=65_535);
    let strict_order = to.flag("strict_order").is_some_and(|flag| flag.value);
    let extension_limit = to.size("extension_limit", 0..=4 << 20).map_or(64 << 10, |size| size.value);
    let extension_policy =
        to.choice("extension_policy", &[("omit", ExtensionPolicy::Omit), ("dead-letter", ExtensionPolicy::DeadLetter)]);
    to.anything("unpack");
    to.finish();
    Some(AmqpTarget {
        connector: connector?.value,
        exchange: exchange?.value,
        routing_key: routing_key?,
        content_type: content_type.map(|text| text.value),
        max_in_flight: max_in_flight.and_then(|number| u16::try_from(number.value).ok()).unwrap_or(512),
        strict_order,
        extension_limit,
        extension_policy: extension_policy.map_or(ExtensionPolicy::Omit, |policy| policy.value),
    })
}

pub(super) fn check_connector(section: &Section<'_>, connector: &At<String>, connectors: Option<&Connectors>) {
    // Without a readable main file nobody knows which there are.
    let Some(connectors) = connectors else { return };
    if connectors.names.contains(&connector.value) {
        return;
    }
    let names = connectors.names.iter().map(String::as_str);
    let hint = suggestion(&connector.value, names, "there are");
    section.error("connector", connector.line, format!("there is no connector {}{hint}", Quoted(&connector.value)));
}

fn read_reseal(security: &Section<'_>, mode: SecurityMode, surroundings: Surroundings<'_>) -> Option<Reseal> {
    let machine = security.text("reseal_for");
    let form = security.choice("reseal_as", &[("msmq", ResealForm::Msmq), ("jwe", ResealForm::Jwe)]);
    let Some(machine) = machine else {
        if let Some(form) = form.filter(|_| !security.has("reseal_for")) {
            security.error(
                "reseal_as",
                form.line,
                "says how, and reseal_for does not say for which machine".to_owned(),
            );
        }
        return None;
    };
    if machine.value.is_empty() {
        security.error("reseal_for", machine.line, "write the name of a machine in the directory".to_owned());
    }
    if mode == SecurityMode::Transparent {
        let text = "a transparent route opens nothing that could be encrypted again; write mode = \"non-transparent\"";
        security.error("reseal_for", machine.line, text.to_owned());
        return None;
    }
    surroundings.need_directory(security, "reseal_for", machine.line);
    Some(Reseal { machine: machine.value, form: form.map_or(ResealForm::Msmq, |form| form.value) })
}

fn read_on_failure(section: &Section<'_>) -> Unroutable {
    let unroutable =
        section.choice("unroutable", &[("retry", Unroutable::Retry), ("dead-letter", Unroutable::DeadLetter)]);
    section.finish();
    unroutable.map_or(Unroutable::Retry, |unroutable| unroutable.value)
}

/// Checks what concerns several routes: no two may receive for the same queue, whatever it is called.
pub(super) fn check_all(context: &Context<'_>, drafts: &[RouteDraft], surroundings: Surroundings<'_>) {
    let mut names: HashMap<String, &RouteDraft> = HashMap::new();
    let mut queues: HashMap<String, &RouteDraft> = HashMap::new();
    let mut private_ids: HashMap<u32, &RouteDraft> = HashMap::new();
    let mut guids: HashMap<Guid, &RouteDraft> = HashMap::new();
    for draft in drafts {
        let report = |line: Option<u32>, key: Option<&str>, what: String, other: &RouteDraft| {
            let text = format!("{what} of route {} ({})", Quoted(&other.name), other.file.display());
            context.report(Severity::Error, &draft.file, line, key.map(str::to_owned), text);
        };
        if let Some(other) = names.insert(draft.name.to_lowercase(), draft) {
            report(None, None, "the file's name differs only in case from that".to_owned(), other);
        }
        // Without knowing who we are, queues of two machines can't be told apart.
        if surroundings.machine.is_some()
            && let Some(queue) = &draft.queue
            && let Some(other) = queues.insert(queue_name::identity(&queue.value), draft)
        {
            report(Some(queue.line), Some("from.queue"), format!("{} is also the queue", queue.value), other);
        }
        if let Some(id) = &draft.private_id
            && let Some(other) = private_ids.insert(id.value, draft)
        {
            report(Some(id.line), Some("from.private_id"), format!("{} is also the number", id.value), other);
        }
        if let Some(guid) = &draft.guid
            && let Some(other) = guids.insert(guid.value, draft)
        {
            report(Some(guid.line), Some("from.guid"), format!("{} is also the GUID", guid.value), other);
        }
    }
}

impl RouteDraft {
    /// The route, when nothing was missing in its file.
    pub(super) fn into_route(self) -> Option<AnyRoute> {
        self.route
    }
}
