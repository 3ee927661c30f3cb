use serde::{Deserialize, Serialize};

/// What `mqbridge status --json` prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// This queue manager.
    pub queue_manager: QueueManagerStatus,
    /// Messages refused since the start because they were for none of the routes.
    pub rejected_without_route: u64,
    /// The routes, by name.
    pub routes: Vec<RouteStatus>,
    /// The routes from foreign systems, by name.
    #[serde(default)]
    pub return_routes: Vec<ReturnRouteStatus>,
    /// The destinations of what is sent.
    #[serde(default)]
    pub outgoing: Vec<OutgoingStatus>,
    /// All queues of the store.
    pub queues: Vec<QueueStatus>,
    /// The open sessions.
    pub sessions: Vec<SessionStatus>,
    /// The connectors, by name.
    pub connectors: Vec<ConnectorStatus>,
}

/// This queue manager.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueManagerStatus {
    /// Its computer name.
    pub name: String,
    /// Its identifier.
    pub guid: String,
    /// `mqbridge version`.
    pub version: String,
    /// Where it listens.
    pub listen: Vec<String>,
    /// How long it runs.
    pub uptime_s: u64,
}

/// One route.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouteStatus {
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// The format names that senders can use besides the direct one.
    pub format_names: Vec<String>,
    /// Its connector.
    pub connector: String,
    /// `waiting`, `forwarding`, `failing` or `stopped`.
    pub state: String,
    /// Why it fails.
    pub reason: Option<String>,
    /// Messages stored since the start.
    pub received_messages: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages confirmed by the foreign system.
    pub confirmed_messages: u64,
    /// Messages refused.
    pub rejected_messages: u64,
    /// Messages set aside.
    pub dead_lettered_messages: u64,
    /// Messages that wait.
    pub queue_messages: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Age of the oldest.
    pub queue_oldest_seconds: u64,
}

/// One queue: the fields of a `queue list --json` row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Its name, as in MSMQ.
    pub name: String,
    /// `route`, `outgoing`, `dead-letter`, or `no-route` when nothing takes its messages.
    pub kind: String,
    /// Messages in it.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Age of the oldest.
    pub oldest_age_s: Option<u64>,
}

/// One session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The address of the other end.
    pub peer: String,
    /// Its queue manager.
    pub source_machine: String,
    /// Who called whom.
    pub role: String,
    /// How long it is open.
    pub age_s: u64,
    /// Messages received on it.
    pub received_messages: u64,
}

/// One connector.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectorStatus {
    /// Its name.
    pub name: String,
    /// `up`, `blocked`, `connecting` or `closed`.
    pub state: String,
    /// Where it is connected to.
    pub peer: Option<String>,
    /// Why it is not connected, or blocked.
    pub reason: Option<String>,
    /// Attempts since it was last connected.
    pub attempt: u32,
}

impl ConnectorStatus {
    /// From what the connector says of itself.
    pub fn new(name: &str, status: &connector_api::Status) -> Self {
        use connector_api::Status;
        let (state, peer, reason, attempt) = match status {
            Status::Connecting { attempt, reason } => ("connecting", None, reason.clone(), *attempt),
            Status::Up { peer } => ("up", Some(peer.clone()), None, 0),
            Status::Blocked { peer, reason } => ("blocked", Some(peer.clone()), Some(reason.clone()), 0),
            Status::Closed => ("closed", None, None, 0),
        };
        Self { name: name.to_owned(), state: state.to_owned(), peer, reason, attempt }
    }
}

/// One outgoing queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OutgoingStatus {
    /// Its name among the queues.
    pub queue: String,
    /// Where its messages go.
    pub destination: String,
    /// `idle`, `waiting`, `connected`, `failing` or `stopped`.
    pub state: String,
    /// Why it fails.
    pub reason: Option<String>,
    /// For how long it has failed.
    pub failing_for_s: Option<u64>,
    /// Failures since something last went through.
    pub attempt: u32,
    /// Messages that the other side has acknowledged since the start.
    pub sent_messages: u64,
    /// Messages that were given up since the start.
    pub expired_messages: u64,
    /// Messages that wait.
    pub queue_messages: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Age of the oldest.
    pub queue_oldest_seconds: u64,
}

/// One route from a foreign system to MSMQ.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReturnRouteStatus {
    /// Its name.
    pub name: String,
    /// The foreign queue.
    pub queue: String,
    /// Its connector.
    pub connector: String,
    /// Where its messages go; `{reply_to}` for where each one says.
    pub destination: String,
    /// `waiting`, `forwarding`, `failing` or `stopped`.
    pub state: String,
    /// Why it fails.
    pub reason: Option<String>,
    /// Messages taken from the foreign system since the start.
    pub received_messages: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages refused.
    pub rejected_messages: u64,
}
