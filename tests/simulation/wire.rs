//! One direction of a TCP connection: bytes arrive in order, later, in pieces that respect no packet, until they don't.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mqbridge::mqqb::Moment;

use crate::packets::Chance;

#[derive(Default)]
pub(crate) struct Wire {
    flying: VecDeque<(Moment, Bytes)>,
    last_arrival: Moment,
    end: End,
}

/// How the direction ends.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    /// Not at all yet.
    #[default]
    Open,
    /// The receiver is told after the last byte.
    Told,
    /// The receiver never learns of it; only its timers help.
    Silent,
}

/// What a wire brings.
pub(crate) enum Arrival {
    Bytes(Bytes),
    End,
}

impl Wire {
    pub(crate) fn put(&mut self, now: Moment, mut bytes: Bytes, latency: Duration, chance: &mut Chance) {
        if self.end != End::Open {
            return;
        }
        while !bytes.is_empty() {
            let whole = chance.percent(70);
            let length = if whole { bytes.len() } else { chance.between(1, bytes.len() as u64) as usize };
            let jitter = if chance.percent(10) { chance.below(300) } else { chance.below(3) };
            self.last_arrival = self.last_arrival.max(now + latency + Duration::from_millis(jitter));
            self.flying.push_back((self.last_arrival, bytes.split_to(length)));
        }
    }

    /// Nothing more will be put; what flies arrives.
    pub(crate) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Told;
        }
    }

    /// The connection breaks: some of what flies arrives, up to any byte.
    pub(crate) fn cut(&mut self, chance: &mut Chance) {
        let survivors = chance.below(self.flying.len() as u64 + 1) as usize;
        self.flying.truncate(survivors);
        if let Some((_, last)) = self.flying.back_mut() {
            last.truncate(chance.between(1, last.len() as u64) as usize);
        }
        self.end = if chance.percent(20) { End::Silent } else { End::Told };
    }

    pub(crate) fn next_arrival(&self) -> Option<Moment> {
        match self.flying.front() {
            Some((arrival, _)) => Some(*arrival),
            None => (self.end == End::Told).then_some(self.last_arrival),
        }
    }

    pub(crate) fn take(&mut self, now: Moment) -> Option<Arrival> {
        if self.next_arrival()? > now {
            return None;
        }
        let Some((_, bytes)) = self.flying.pop_front() else {
            self.end = End::Silent;
            return Some(Arrival::End);
        };
        Some(Arrival::Bytes(bytes))
    }
}
