use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::lane::{Consignment, Lane, LaneEnd};
use super::sessions::{Seat, SessionRole};
use super::verdict::{Intake, Reception, Told, Verdict};
use super::{Arrival, Clock, Peer, Sessions, Stop};
use crate::mqqb::Moment;
use crate::mqqb::session::{CloseCause, Event, Outgoing, SendToken, Session, SessionSettings};
use crate::mqqb::wire::{EstablishConnection, FrameCutter, Guid};

/// What every link is configured with.
#[derive(Clone, Copy, Debug)]
pub struct LinkSettings {
    /// The protocol's own settings.
    pub session: SessionSettings,
    /// The largest packet.
    pub max_packet: u32,
    /// A packet that has begun must be complete after this, and a second more for each 8 KiB of it.
    pub slow_sender_timeout: Duration,
}

/// Bytes a second that a slow line is allowed for, in addition to the slow-sender time-out.
const SLOWEST_RATE: u64 = 8 * 1024;

/// A link stops reading while this many bytes of its messages wait for their verdicts. A sender that ignores the
/// window fills its own TCP connection, not our memory.
const MAX_UNSETTLED_BYTES: usize = 8 * 1024 * 1024;

/// No more messages are sent while this much waits to be written.
const MAX_OUTPUT: usize = 1024 * 1024;

/// Room for reading: little for a connection that says little, more for one that fills it.
const READ_ROOM: std::ops::RangeInclusive<usize> = 4 * 1024..=128 * 1024;

/// Who called whom.
#[derive(Debug)]
pub(super) enum Role {
    /// We were called.
    Acceptor,
    /// We called, for a queue manager or, with a null identifier, for a direct name.
    Initiator {
        /// Whom we called.
        server: Guid,
        /// Whether it was asked by ping before.
        pinged: bool,
        /// Who waits for the session, and is told why there is none.
        caller: oneshot::Sender<Result<Lane, String>>,
    },
}

/// Drives one connection until it ends.
pub(super) struct Link {
    clock: Clock,
    settings: LinkSettings,
    session: Session,
    cutter: FrameCutter,
    reception: Arc<dyn Reception>,
    intake: Box<dyn Intake>,
    peer: Peer,
    seat: Seat,
    input: BytesMut,
    output: BytesMut,
    read_room: usize,
    /// When the packet at the front of the input began to arrive.
    packet_began: Option<Moment>,
    unsettled: Unsettled,
    told: (mpsc::UnboundedSender<Told>, mpsc::UnboundedReceiver<Told>),
    received: u64,
    progress: Progress,
    /// Messages to be sent, and those that are sent and not acknowledged, by the session's token.
    outbox: mpsc::Receiver<Consignment>,
    lane: Lane,
    end: LaneEnd,
    sent: HashMap<u64, (u64, mpsc::UnboundedSender<u64>)>,
    next_token: u64,
    /// Who waits for the session to open, when we called.
    caller: Option<oneshot::Sender<Result<Lane, String>>>,
    called: bool,
}

/// How far the other side has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Silent,
    Speaking,
    Open,
}

#[derive(Debug, Default)]
struct Unsettled {
    messages: usize,
    bytes: usize,
}

/// Why a link ended, besides the session's own causes.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Session(CloseCause),
    #[error("the other side closed the connection{}", if *.0 { " in the middle of a packet" } else { "" })]
    PeerClosed(bool),
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    #[error("made room: too many connections that never spoke")]
    Evicted,
    #[error("a packet was still incomplete after {0:?}")]
    SlowSender(Duration),
    #[error("shutting down")]
    Shutdown,
}

impl Link {
    pub(super) fn new(
        clock: Clock,
        settings: LinkSettings,
        reception: Arc<dyn Reception>,
        peer: Peer,
        sessions: &Sessions,
        role: Role,
    ) -> Self {
        let now = clock.now();
        let end = LaneEnd::default();
        let (lane, outbox) = Lane::new(peer, end.clone());
        let called = matches!(role, Role::Initiator { .. });
        let (session, seat, caller) = match role {
            Role::Acceptor => (Session::acceptor(settings.session, now), sessions.admit(), None),
            Role::Initiator { server, pinged, caller } => {
                let call = if pinged { Session::initiator_after_ping } else { Session::initiator };
                (call(settings.session, server, now), sessions.own(), Some(caller))
            }
        };
        Self {
            clock,
            settings,
            session,
            // Until the session is open nothing comes that is larger than the packet that opens it.
            cutter: FrameCutter::new(EstablishConnection::PACKET_SIZE as u32),
            intake: reception.begin(),
            reception,
            peer,
            seat,
            input: BytesMut::new(),
            output: BytesMut::new(),
            read_room: *READ_ROOM.start(),
            packet_began: None,
            unsettled: Unsettled::default(),
            told: mpsc::unbounded_channel(),
            received: 0,
            progress: if called { Progress::Speaking } else { Progress::Silent },
            outbox,
            lane,
            end,
            sent: HashMap::new(),
            next_token: 0,
            caller,
            called,
        }
    }

    /// Runs until the session is over, and logs the one line that says why.
    pub(super) async fn run(mut self, stream: TcpStream, mut shutdown: Stop) {
        // Acknowledgments are small and should not wait for each other. A failure costs latency, nothing else.
        let _ = stream.set_nodelay(true);
        let (mut reader, mut writer) = stream.into_split();
        let ended = self.exchange(&mut reader, &mut writer, &mut shutdown).await;
        // Whoever sends on this session is told before the goodbye, which may take a while.
        self.end.set(ended.to_string());
        self.outbox.close();
        if let Some(caller) = self.caller.take() {
            // Nobody waits any more when the whole bridge stops.
            let _ = caller.send(Err(ended.to_string()));
        }
        self.say_goodbye(&mut writer).await;
        self.log(&ended);
    }

    async fn exchange(
        &mut self,
        reader: &mut OwnedReadHalf,
        writer: &mut OwnedWriteHalf,
        shutdown: &mut Stop,
    ) -> Ended {
        loop {
            if let Err(ended) = self.drain() {
                return ended;
            }
            let deadline = self.deadline();
            let may_read = self.may_read();
            let may_send = self.session.window_left() > 0 && self.output.len() < MAX_OUTPUT;
            let room = self.read_room;
            tokio::select! {
                biased;
                told = self.told.1.recv() => {
                    if let Some(told) = told {
                        self.settle(told);
                    }
                }
                // Before reading: the window bounds it, and whoever reads without end must not keep us from sending.
                Some(consignment) = self.outbox.recv(), if may_send => self.send(consignment),
                written = writer.write_buf(&mut self.output), if !self.output.is_empty() => {
                    if let Err(error) = written {
                        return error.into();
                    }
                }
                read = read_some(self.reception.ready(), reader, &mut self.input, room), if may_read => match read {
                    Ok(0) => return Ended::PeerClosed(!self.input.is_empty()),
                    Ok(count) if count == room => self.read_room = (2 * room).min(*READ_ROOM.end()),
                    Ok(_) => {}
                    Err(error) => return error.into(),
                },
                () = sleep_until(&self.clock, deadline) => {
                    let now = self.clock.now();
                    if let Some(ended) = self.overdue(now) {
                        return ended;
                    }
                    self.session.handle_timeout(now);
                }
                () = self.seat.evicted.notified(), if self.progress != Progress::Open && !self.called => return Ended::Evicted,
                () = shutdown.requested() => {
                    self.session.close(self.clock.now(), CloseCause::Local(Ended::Shutdown.to_string()));
                    return match self.drain() {
                        // An orderly end, not one for cause.
                        Ok(()) | Err(Ended::Session(CloseCause::Local(_))) => Ended::Shutdown,
                        Err(ended) => ended,
                    };
                }
            }
        }
    }

    /// Moves everything that can move without waiting: input to the session, its events to the reception, its bytes
    /// to the output.
    fn drain(&mut self) -> Result<(), Ended> {
        loop {
            let mut moved = false;
            while let Some(event) = self.session.poll_event() {
                moved = true;
                self.react(event)?;
            }
            while let Some(bytes) = self.session.poll_transmit() {
                moved = true;
                self.output.extend_from_slice(&bytes);
            }
            if self.may_read() && !self.input.is_empty() {
                moved |= self.cut();
            }
            if !moved {
                return Ok(());
            }
        }
    }

    fn react(&mut self, event: Event) -> Result<(), Ended> {
        match event {
            Event::Opened { remote } => self.on_opened(remote),
            Event::Received { message, frame, receipt } => {
                self.received += 1;
                let size = frame.bytes().len();
                self.unsettled.messages += 1;
                self.unsettled.bytes += size;
                let verdict = Verdict::new(receipt, size, self.told.0.clone());
                self.intake.receive(Arrival { message, frame, peer: self.peer }, verdict);
            }
            Event::Closed(cause) => {
                while let Some(bytes) = self.session.poll_transmit() {
                    self.output.extend_from_slice(&bytes);
                }
                return Err(Ended::Session(cause));
            }
            Event::Acknowledged(SendToken(token)) => {
                if let Some((token, sender)) = self.sent.remove(&token) {
                    // A sender that is gone reads its queue anew when it comes back.
                    let _ = sender.send(token);
                }
            }
            // The window is asked before each message.
            Event::Writable => {}
        }
        Ok(())
    }

    fn on_opened(&mut self, remote: Guid) {
        self.progress = Progress::Open;
        self.cutter = FrameCutter::new(self.settings.max_packet);
        self.peer.queue_manager = remote;
        self.lane = self.lane.with_peer(self.peer);
        let role = if self.called { SessionRole::Initiator } else { SessionRole::Acceptor };
        let twin = self.seat.open(self.peer, self.clock.now(), role, self.lane.clone());
        tracing::info!(
            event = "session_opened", peer = %self.peer, source_machine = %remote, role = role.word(), "a session is open"
        );
        if let Some(caller) = self.caller.take() {
            // A caller that is gone leaves a session that others may use, and that closes when it is idle.
            let _ = caller.send(Ok(self.lane.clone()));
        }
        if let Some(twin) = twin {
            tracing::warn!(
                event = "duplicate_queue_manager", peer = %self.peer, source_machine = %remote, other = %twin,
                "two addresses use one queue manager identifier: a cloned machine?"
            );
        }
    }

    /// Sends as many of the waiting messages as the window and the output have room for, this one first.
    fn send(&mut self, consignment: Consignment) {
        let mut next = Some(consignment);
        let mut unwritten = self.output.len();
        while let Some(Consignment { token, packet, recoverable, acknowledged }) = next {
            unwritten += packet.len();
            let own = self.next_token;
            self.next_token += 1;
            let outgoing = Outgoing { token: SendToken(own), packet, recoverable };
            if self.session.send(self.clock.now(), outgoing).is_ok() {
                self.sent.insert(own, (token, acknowledged));
            }
            let room = self.session.window_left() > 0 && unwritten < MAX_OUTPUT;
            next = if room { self.outbox.try_recv().ok() } else { None };
        }
    }

    /// Cuts one frame off the input. Says whether there was one.
    fn cut(&mut self) -> bool {
        let now = self.clock.now();
        match self.cutter.cut(&mut self.input) {
            Ok(Some(frame)) => {
                self.packet_began = (!self.input.is_empty()).then_some(now);
                if self.progress == Progress::Silent {
                    self.on_first_words(now);
                }
                self.session.handle_frame(now, frame);
                true
            }
            Ok(None) => {
                self.packet_began.get_or_insert(now);
                false
            }
            Err(malformed) => {
                self.input.clear();
                self.session.close(now, CloseCause::Malformed(malformed));
                true
            }
        }
    }

    /// Only now is the place of a session wanted: whoever stays silent takes none.
    fn on_first_words(&mut self, now: Moment) {
        self.progress = Progress::Speaking;
        if !self.seat.is_there_room() {
            let reason = "refused: queue_manager.max_sessions are open".to_owned();
            self.session = Session::refusing_acceptor(self.settings.session, reason, now);
        }
    }

    fn settle(&mut self, told: Told) {
        let now = self.clock.now();
        let paused = !self.may_read();
        let mut next = Some(told);
        // One commit of the store settles many messages: they share one acknowledgment.
        while let Some(told) = next {
            match told {
                Told::Settled { receipt, size, how } => {
                    self.unsettled.messages -= 1;
                    self.unsettled.bytes -= size;
                    self.session.settle(now, receipt, how);
                }
                Told::Hold(why) => self.session.close(now, CloseCause::Local(why)),
            }
            next = self.told.1.try_recv().ok();
        }
        if paused && self.may_read() {
            // The sender could not go on while we did not read.
            self.packet_began = self.packet_began.map(|_| now);
        }
        self.seat.count(self.received);
    }

    fn may_read(&self) -> bool {
        self.unsettled.bytes < MAX_UNSETTLED_BYTES
            && self.unsettled.messages < 2 * usize::from(self.settings.session.window.max(1))
    }

    /// A packet that has begun and that nothing keeps from being read must come to its end.
    fn packet_deadline(&self) -> Option<(Moment, Duration)> {
        let began = self.packet_began.filter(|_| self.may_read())?;
        let line = Duration::from_secs(self.input.len() as u64 / SLOWEST_RATE);
        let allowed = self.settings.slow_sender_timeout + line;
        Some((began + allowed, allowed))
    }

    fn overdue(&self, now: Moment) -> Option<Ended> {
        let (deadline, allowed) = self.packet_deadline()?;
        (now >= deadline).then_some(Ended::SlowSender(allowed))
    }

    fn deadline(&self) -> Option<Moment> {
        let packet = self.packet_deadline().map(|(deadline, _)| deadline);
        [self.session.deadline(), packet].into_iter().flatten().min()
    }

    /// The last acknowledgments, for as long as a peer that reads would need.
    async fn say_goodbye(&mut self, writer: &mut OwnedWriteHalf) {
        const GOODBYE: Duration = Duration::from_secs(2);
        let last_words = async {
            while self.output.has_remaining() && writer.write_buf(&mut self.output).await.is_ok_and(|n| n > 0) {}
            // The connection is given up in any case.
            let _ = writer.shutdown().await;
        };
        let _ = tokio::time::timeout(GOODBYE, last_words).await;
    }

    fn log(&self, ended: &Ended) {
        let peer = self.peer;
        let source_machine = peer.queue_manager;
        let received = self.received;
        match ended {
            Ended::Session(CloseCause::Idle(_)) | Ended::PeerClosed(false) | Ended::Shutdown
                if self.progress == Progress::Open =>
            {
                tracing::info!(
                    event = "session_closed", peer = %peer, source_machine = %source_machine, received, reason = %ended,
                    "a session is closed"
                );
            }
            // Whoever called says why nothing came of it.
            _ if self.called && self.progress != Progress::Open => {
                tracing::debug!(event = "connection_closed", peer = %peer, reason = %ended, "no session came of it");
            }
            // Port scans and health checks connect and leave.
            Ended::PeerClosed(false) => {
                tracing::debug!(event = "connection_closed", peer = %peer, reason = %ended, "no session came of it");
            }
            _ => {
                tracing::warn!(
                    event = "session_closed", peer = %peer, source_machine = %source_machine, received, reason = %ended,
                    "a session was closed for cause"
                );
            }
        }
    }
}

/// Reads what there is, `room` bytes at the most. Memory grows with what has come, never with what a packet claims: a
/// claim costs the sender its bytes first. Cancel safe.
async fn read_some(
    ready: impl Future<Output = ()>,
    reader: &mut OwnedReadHalf,
    input: &mut BytesMut,
    room: usize,
) -> io::Result<usize> {
    // Bytes first: a connection that is silent must not ask again and again.
    reader.readable().await?;
    ready.await;
    input.reserve(room);
    reader.read_buf(&mut (&mut *input).limit(room)).await
}

async fn sleep_until(clock: &Clock, deadline: Option<Moment>) {
    match deadline {
        Some(deadline) => clock.sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
