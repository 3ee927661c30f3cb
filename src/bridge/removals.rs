use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::net::Clock;
use crate::store::{NewMessage, Position, QueueId, Store, StoreError};

/// Messages of a removal that is tried again.
const PIECE: usize = 32;
/// How long after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Removals of one queue on their way to the disk. One that fails is tried again: until it succeeds its messages would
/// go out again after a restart, marked as repeats where there is a mark, and so nothing is lost.
pub(super) struct Removals {
    store: Store,
    clock: Clock,
    queue: QueueId,
    /// The route or the destination, for the log.
    name: String,
    running: FuturesUnordered<BoxFuture<'static, Removal>>,
    /// Those that met a closed store.
    given_up: VecDeque<Vec<Position>>,
}

/// What became of the removal of these messages.
struct Removal {
    positions: Vec<Position>,
    companions: Vec<NewMessage>,
    result: Result<(), StoreError>,
}

impl Removals {
    pub(super) fn new(store: Store, clock: Clock, queue: QueueId, name: String) -> Self {
        Self { store, clock, queue, name, running: FuturesUnordered::new(), given_up: VecDeque::new() }
    }

    /// Removes messages, and stores what is to be said of it in the same transaction.
    pub(super) fn start(&self, positions: Vec<Position>, companions: Vec<NewMessage>) {
        let removal = self.store.remove_with(self.queue, positions.clone(), companions.clone());
        self.running.push(Box::pin(async move { Removal { positions, companions, result: removal.await } }));
    }

    /// Whether any is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Waits for the next one to end, and says which messages are gone with it: none when it failed and is tried again.
    /// Never resolves while none is on its way. Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<Position> {
        let Some(Removal { positions, companions, result }) = self.running.next().await else {
            return std::future::pending().await;
        };
        match result {
            Ok(()) => positions,
            Err(StoreError::Closed) => {
                self.given_up.push_back(positions);
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(
                    event = "removal_failed", route = %self.name, count = positions.len(), reason = %error,
                    "messages that are done with could not be removed from the store yet"
                );
                self.try_again(&positions, companions);
                Vec::new()
            }
        }
    }

    /// Whether nothing was given up.
    pub(super) fn is_clean(&self) -> bool {
        self.given_up.is_empty()
    }

    /// In small pieces: on a full disk a small one may go through, and makes room for the next.
    fn try_again(&self, positions: &[Position], companions: Vec<NewMessage>) {
        let mut companions = Some(companions);
        for piece in positions.chunks(PIECE) {
            let (store, clock, queue) = (self.store.clone(), self.clock, self.queue);
            let positions = piece.to_vec();
            let companions = companions.take().unwrap_or_default();
            self.running.push(Box::pin(async move {
                clock.sleep(PAUSE).await;
                let result = store.remove_with(queue, positions.clone(), companions.clone()).await;
                Removal { positions, companions, result }
            }));
        }
    }
}
