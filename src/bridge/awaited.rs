use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use connector_api::Receipt;

use crate::mqqb::Moment;
use crate::store::{Position, QueueId};

/// Deliveries from foreign systems whose messages are on their way. Each is settled when its message has left our store,
/// or when its time is up: then the message is still on our disk, and the foreign system need not wait for it.
///
/// The store tells of a stored message and of a removal on the same thread, one after the other, so that a message can't
/// be gone before its delivery is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Awaited(Arc<Mutex<HashMap<(QueueId, Position), Waiting>>>);

#[derive(Debug)]
struct Waiting {
    receipt: Receipt,
    due: Moment,
}

impl Awaited {
    /// Keeps the receipt of a message's delivery until the message has gone, at the latest until `due`.
    pub(super) fn keep(&self, queue: QueueId, position: Position, receipt: Receipt, due: Moment) {
        self.locked().insert((queue, position), Waiting { receipt, due });
    }

    /// These messages have left the store.
    pub(super) fn gone(&self, queue: QueueId, positions: &[Position]) {
        let settled: Vec<_> = {
            let mut waiting = self.locked();
            positions.iter().filter_map(|position| waiting.remove(&(queue, *position))).collect()
        };
        for Waiting { receipt, .. } in settled {
            receipt.accept();
        }
    }

    /// Settles those whose time is up. To be called every second or so.
    pub(super) fn settle_due(&self, now: Moment) {
        let due: Vec<_> = self.locked().extract_if(|_, waiting| waiting.due <= now).collect();
        for (_, Waiting { receipt, .. }) in due {
            receipt.accept();
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<(QueueId, Position), Waiting>> {
        // Each change is a single step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
