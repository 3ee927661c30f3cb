use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::intake::ReturnEntry;
use super::outgoing::Outgoing;
use super::{Opener, RouteTable, StateBoard};
use crate::net::{Clock, Stop};
use crate::security::CacheFigures;
use crate::store::Store;
use crate::telemetry::{Counters, RouteReading};

/// A line for each route every ten seconds, and for each destination where something waits or was sent: the log is the
/// monitor.
pub(super) struct Summary {
    pub(super) routes: RouteTable,
    pub(super) return_routes: Vec<Arc<ReturnEntry>>,
    pub(super) outgoing: Outgoing,
    pub(super) store: Store,
    pub(super) counters: Arc<Counters>,
    pub(super) states: StateBoard,
    pub(super) opener: Opener,
    pub(super) clock: Clock,
}

const EVERY: Duration = Duration::from_secs(10);

/// What the last lines said.
struct Before {
    routes: Vec<RouteReading>,
    return_routes: Vec<RouteReading>,
    /// Messages sent, by destination.
    sent: HashMap<String, u64>,
}

impl Summary {
    pub(super) async fn run(self, mut shutdown: Stop) {
        let mut before = Before {
            routes: vec![RouteReading::default(); self.routes.entries().len()],
            return_routes: vec![RouteReading::default(); self.return_routes.len()],
            sent: HashMap::new(),
        };
        let mut cache = CacheFigures::default();
        loop {
            tokio::select! {
                () = self.clock.sleep(EVERY) => {}
                () = shutdown.requested() => {
                    self.log(&mut before);
                    return;
                }
            }
            self.log(&mut before);
            self.opener.sweep();
            self.log_keys(&mut cache);
            // What it says, it logs itself.
            let _ = self.store.look_for_file();
            if let Err(error) = self.store.expire_history(self.clock.unix_now()).await {
                tracing::warn!(event = "history_not_expired", reason = %error, "old message ids could not be forgotten");
            }
        }
    }

    /// Says what the key cache has done, when it has done anything.
    fn log_keys(&self, before: &mut CacheFigures) {
        let now = self.opener.figures();
        let is_news = (now.hits, now.misses, now.joined) != (before.hits, before.misses, before.joined);
        *before = now;
        if is_news {
            tracing::info!(
                event = "key_cache_summary",
                key_cache_hits = now.hits + now.joined,
                key_cache_misses = now.misses,
                key_cache_evictions = now.evictions,
                rsa_operations = now.rsa_operations,
                machines = now.machines,
                keys = now.keys,
                "how encrypted bodies were opened, since the start"
            );
        }
    }

    fn log(&self, before: &mut Before) {
        self.log_routes(&mut before.routes);
        self.log_return_routes(&mut before.return_routes);
        self.log_destinations(&mut before.sent);
    }

    fn log_return_routes(&self, before: &mut [RouteReading]) {
        for (entry, before) in self.return_routes.iter().zip(before) {
            let reading = entry.counters.read();
            let name = &entry.config.name;
            tracing::info!(
                event = "route_summary",
                route = %name,
                state = self.states.of(name).word(),
                received_messages = reading.received(),
                rejected_messages = self.counters.rejected_by(name),
                duplicates = reading.duplicates,
                rate = (reading.received() - before.received()) / EVERY.as_secs(),
                "what the route has done"
            );
            *before = reading;
        }
    }

    fn log_destinations(&self, before: &mut HashMap<String, u64>) {
        for queue in self.outgoing.report(self.clock.unix_now()) {
            let sent = queue.sent_messages - before.get(&queue.destination).copied().unwrap_or(0);
            if sent == 0 && queue.queue_messages == 0 {
                continue;
            }
            tracing::info!(
                event = "outgoing_summary",
                queue = %queue.destination,
                state = %queue.state,
                sent_messages = queue.sent_messages,
                expired_messages = queue.expired_messages,
                queue_messages = queue.queue_messages,
                queue_bytes = queue.queue_bytes,
                queue_oldest_seconds = queue.queue_oldest_seconds,
                rate = sent / EVERY.as_secs(),
                "what was sent"
            );
            before.insert(queue.destination, queue.sent_messages);
        }
    }

    fn log_routes(&self, before: &mut [RouteReading]) {
        let now = self.clock.unix_now();
        let nowhere = self.counters.rejected_by("");
        if nowhere > 0 {
            tracing::info!(
                event = "refusals_without_route",
                rejected_messages = nowhere,
                "messages that were for none of the routes, since the start"
            );
        }
        for (entry, before) in self.routes.entries().iter().zip(before) {
            let reading = entry.counters.read();
            let depth = self.store.depth(entry.queue);
            let oldest = self.store.oldest(entry.queue).ok().flatten();
            let name = &entry.config.name;
            tracing::info!(
                event = "route_summary",
                route = %name,
                state = self.states.of(name).word(),
                received_messages = reading.received(),
                confirmed_messages = reading.confirmed,
                rejected_messages = self.counters.rejected_by(name),
                duplicates = reading.duplicates,
                dead_lettered_messages = reading.dead_lettered,
                queue_messages = depth.messages,
                queue_bytes = depth.bytes,
                queue_oldest_seconds = oldest.map_or(0, |came| now.saturating_sub(came)),
                rate = (reading.confirmed - before.confirmed) / EVERY.as_secs(),
                "what the route has done"
            );
            *before = reading;
        }
    }
}
