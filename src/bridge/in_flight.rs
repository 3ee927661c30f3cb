use std::pin::Pin;
use std::task::{Context, Poll};

use connector_api::{DeliveryError, Settlement};
use futures_util::Stream;
use futures_util::stream::FuturesOrdered;

use crate::mqqb::wire::{MessageId, UserMessage};
use crate::store::Position;

/// Messages that were handed over and are not settled yet, in the order of the queue.
#[derive(Default)]
pub(super) struct InFlight {
    settlements: FuturesOrdered<Tagged>,
    bytes: usize,
}

/// How the delivery of one message ended.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) ticket: Ticket,
    pub(super) outcome: Result<(), DeliveryError>,
}

/// Which message it was.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) position: Position,
    pub(super) id: MessageId,
    pub(super) size: usize,
    /// The message, when its sender asked for acknowledgments.
    pub(super) asks: Option<Box<UserMessage>>,
}

struct Tagged {
    /// Taken when it is settled.
    ticket: Option<Ticket>,
    settlement: Settlement,
}

impl Future for Tagged {
    type Output = Delivered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Delivered> {
        let Poll::Ready(outcome) = self.settlement.as_mut().poll(context) else { return Poll::Pending };
        match self.ticket.take() {
            Some(ticket) => Poll::Ready(Delivered { ticket, outcome }),
            // Settled before: there is nothing more to say.
            None => Poll::Pending,
        }
    }
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.settlements.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.settlements.is_empty()
    }

    /// Bytes of the packets on their way.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, ticket: Ticket, settlement: Settlement) {
        self.bytes += ticket.size;
        self.settlements.push_back(Tagged { ticket: Some(ticket), settlement });
    }

    /// Waits for the oldest to be settled, and takes those behind it that are settled too. Never resolves while
    /// nothing is in flight. Cancel safe.
    pub(super) async fn settled(&mut self) -> Vec<Delivered> {
        std::future::poll_fn(|context| {
            let mut settled = Vec::new();
            while let Poll::Ready(Some(delivered)) = Pin::new(&mut self.settlements).poll_next(context) {
                self.bytes -= delivered.ticket.size;
                settled.push(delivered);
            }
            if settled.is_empty() { Poll::Pending } else { Poll::Ready(settled) }
        })
        .await
    }
}
