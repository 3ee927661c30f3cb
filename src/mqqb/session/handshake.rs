use bytes::BytesMut;

use super::open::Open;
use super::settings::{Timeouts, as_milliseconds};
use super::{CloseCause, Event, Session, State};
use crate::mqqb::timers::Timer;
use crate::mqqb::wire::{ConnectionParameters, EstablishConnection};

/// The four packets that open a session (MS-MQQB 3.1.5.2.3, 3.1.5.3, 3.1.5.4).
impl Session {
    pub(super) fn handle_establish(&mut self, packet: &EstablishConnection) -> Result<(), CloseCause> {
        match &mut self.state {
            State::WaitingForRequest { refusal } => {
                let refusal = refusal.take();
                self.answer_request(packet, refusal)
            }
            State::WaitingForAnswer { .. } => self.handle_answer(packet),
            _ => Err(self.unexpected("EstablishConnection")),
        }
    }

    pub(super) fn handle_parameters(&mut self, packet: &ConnectionParameters) -> Result<(), CloseCause> {
        match self.state {
            State::WaitingForParameters { direct } => self.answer_parameters(packet, direct),
            State::WaitingForAnsweredParameters { timeouts } => self.handle_answered_parameters(packet, timeouts),
            _ => Err(self.unexpected("ConnectionParameters")),
        }
    }

    /// 3.1.5.3.1. Our own GUID is in the answer even when it refuses.
    fn answer_request(&mut self, request: &EstablishConnection, refusal: Option<String>) -> Result<(), CloseCause> {
        if request.internal.refused {
            return Err(CloseCause::Refused);
        }
        let own = self.settings.local;
        self.remote = Some(request.client);
        let cause = match refusal {
            _ if !request.server.is_null() && request.server != own => {
                Some(CloseCause::WrongServer { wanted: request.server, own })
            }
            Some(reason) => Some(CloseCause::Local(reason)),
            None => None,
        };
        self.put_establish(&request.response(own, cause.is_some()));
        self.state = State::WaitingForParameters { direct: request.server.is_null() };
        cause.map_or(Ok(()), Err)
    }

    /// 3.1.5.3.2. A direct format name leaves open which queue manager answers.
    ///
    /// The round trip is measured with the moment we remember, not with the time stamp that the answer repeats.
    fn handle_answer(&mut self, answer: &EstablishConnection) -> Result<(), CloseCause> {
        let State::WaitingForAnswer { server, asked } = self.state else { return Ok(()) };
        let own = self.settings.local;
        if answer.internal.refused {
            return Err(CloseCause::Refused);
        }
        if answer.client != own {
            return Err(CloseCause::WrongClient { own, got: answer.client });
        }
        if !server.is_null() && answer.server != server {
            return Err(CloseCause::WrongAnswer { wanted: server, got: answer.server });
        }
        self.remote = Some(answer.server);
        let recoverable_ack = as_milliseconds(self.clock - asked).saturating_mul(8);
        let ack = as_milliseconds(self.settings.ack_timeout);
        let timeouts = Timeouts::new(ack, recoverable_ack, server.is_null());
        self.put_parameters(ConnectionParameters::new(
            timeouts.recoverable_ack(),
            timeouts.ack(),
            self.settings.own_window(),
        ));
        self.state = State::WaitingForAnsweredParameters { timeouts };
        Ok(())
    }

    /// 3.1.5.4.1: the initiator's time-outs hold for both sides, and are repeated to it as they came.
    fn answer_parameters(&mut self, request: &ConnectionParameters, direct: bool) -> Result<(), CloseCause> {
        if request.internal.refused {
            return Err(CloseCause::Refused);
        }
        self.put_parameters(ConnectionParameters::new(
            request.recoverable_ack_timeout,
            request.ack_timeout,
            self.settings.own_window(),
        ));
        self.open(Timeouts::new(request.ack_timeout, request.recoverable_ack_timeout, direct), request.window_size);
        Ok(())
    }

    /// 3.1.5.4.2: of the answer only the window counts.
    fn handle_answered_parameters(
        &mut self,
        answer: &ConnectionParameters,
        timeouts: Timeouts,
    ) -> Result<(), CloseCause> {
        if answer.internal.refused {
            return Err(CloseCause::Refused);
        }
        self.open(timeouts, answer.window_size);
        Ok(())
    }

    fn open(&mut self, timeouts: Timeouts, peer_window: u16) {
        self.timers.stop(Timer::Initialization);
        self.timers.start(Timer::Cleanup, self.clock, self.settings.cleanup_timeout);
        self.state = State::Open(Box::new(Open::new(self.settings.own_window(), peer_window, timeouts)));
        self.events.push_back(Event::Opened { remote: self.remote.unwrap_or_default() });
    }

    pub(super) fn put_establish(&mut self, packet: &EstablishConnection) {
        let mut bytes = BytesMut::with_capacity(EstablishConnection::PACKET_SIZE);
        packet.encode(&mut bytes);
        self.transmit.push_back(bytes.freeze());
    }

    fn put_parameters(&mut self, packet: ConnectionParameters) {
        let mut bytes = BytesMut::with_capacity(ConnectionParameters::PACKET_SIZE);
        packet.encode(&mut bytes);
        self.transmit.push_back(bytes.freeze());
    }
}
