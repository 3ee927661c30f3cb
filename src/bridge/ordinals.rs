use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::mqqb::wire::{Guid, MessageId};
use crate::store::{Store, StoreError};

/// Identifiers for messages of our own: none is given out twice, whatever happens to the process. They are taken from
/// the store in blocks, so that none costs a commit.
#[derive(Clone, Debug)]
pub struct Ordinals {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    own: Guid,
    store: Store,
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Range<u32>>,
    filling: bool,
}

/// Numbers taken at once; what is left of them at a stop is never used.
/// Taken anew when half are left: far more than can wait for the store at a time.
const BLOCK: u32 = 65_536;

impl Ordinals {
    /// Of the queue manager `own`, beginning with a first block.
    pub async fn new(own: Guid, store: Store) -> Result<Self, StoreError> {
        let first = store.take_ordinals(BLOCK).await?;
        let state = State { blocks: std::iter::once(first..first.saturating_add(BLOCK)).collect(), filling: false };
        let shared = Shared { own, store, state: Mutex::new(state), filled: Notify::new() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The next identifier; `None` when there is none at hand because the store does not write.
    pub fn try_next(&self) -> Option<MessageId> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ordinal = None;
        while let Some(block) = state.blocks.front_mut() {
            ordinal = block.next();
            if ordinal.is_some() {
                break;
            }
            state.blocks.pop_front();
        }
        let left: usize = state.blocks.iter().map(ExactSizeIterator::len).sum();
        if left < BLOCK as usize / 2 && !state.filling {
            state.filling = true;
            self.fill();
        }
        drop(state);
        ordinal.map(|ordinal| MessageId { source: self.shared.own, ordinal })
    }

    /// The next identifier, once there is one. Cancel safe.
    pub async fn next(&self) -> MessageId {
        loop {
            let mut filled = std::pin::pin!(self.shared.filled.notified());
            filled.as_mut().enable();
            if let Some(id) = self.try_next() {
                return id;
            }
            filled.await;
        }
    }

    fn fill(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let taken = shared.store.take_ordinals(BLOCK).await;
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.filling = false;
            match taken {
                Ok(first) => state.blocks.push_back(first..first.saturating_add(BLOCK)),
                // Whoever wants a number asks again; the store says what is the matter with it.
                Err(error) => {
                    tracing::debug!(event = "ordinals_not_taken", reason = %error, "no numbers for messages of our own");
                }
            }
            drop(state);
            shared.filled.notify_waiters();
        });
    }
}
