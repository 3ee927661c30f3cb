//! The two sides, the network between them, and everything that goes wrong.

use std::collections::VecDeque;
use std::time::Duration;

use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::{CloseCause, Session, SessionSettings};
use mqbridge::mqqb::wire::Guid;

use crate::auditor::{Auditor, Id};
use crate::packets::{Chance, guid, start};
use crate::side::{Books, Said, Side, Store};
use crate::wire::{Arrival, Wire};

/// Once the faults are over, the next acknowledgment must come within this.
const PATIENCE: Duration = Duration::from_mins(10);
/// More steps than any run needs.
const MOST_STEPS: usize = 100_000;

pub(crate) struct World {
    chance: Chance,
    now: Moment,
    /// The first one calls, the second one is called.
    sides: [Side; 2],
    /// From each side to the other.
    wires: [Wire; 2],
    /// Of the messages that each side sends.
    auditors: [Auditor; 2],
    latency: Duration,
    connections: u64,
    /// When the first side calls again.
    call_at: Option<Moment>,
    next_fault: Option<Moment>,
    /// Milliseconds from one fault to the next, on average.
    fault_pace: u64,
    faults_end: Moment,
    /// When the last acknowledgment came.
    last_progress: Moment,
    /// When the last message was made.
    plans_end: Moment,
    report: Report,
}

crate::report::report! {
    steps: "a step",
    connections: "a connection",
    cuts: "a cut",
    crashes: "a crash",
    lost_receipts: "a lost receipt",
    local_closes: "a close of our own",
    acknowledged: "an acknowledgment",
    repeats: "a repeated message",
    ack_timeouts: "the end of the Session Ack Wait Timer",
    idle_ends: "the end of the Session Cleanup Timer",
    late_handshakes: "the end of the Session Initialization Timer",
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        // Many faults in a short time, or few in a long one.
        let fault_pace = [100, 1000, 10_000][chance.below(3) as usize];
        let faults_end = start() + Duration::from_millis(chance.below(fault_pace * 12));
        let direct = chance.percent(50);
        let sides = [1, 2].map(|last| {
            let settings = SessionSettings {
                window: [1, 2, 3, 8, 64, 64, 64, 1000][chance.below(8) as usize],
                cleanup_timeout: Duration::from_secs(chance.between(20, 90)),
                initialization_timeout: Duration::from_secs(chance.between(20, 60)),
                ..SessionSettings::new(guid(last))
            };
            let slow_percent = if chance.percent(20) { 10 } else { 0 };
            let refuse_percent = if chance.percent(30) { 5 } else { 0 };
            let store = Store {
                usual: Duration::from_millis(chance.below(30)),
                worst: Duration::from_secs(chance.between(1, 70)),
                slow_percent,
                refuse_percent,
            };
            Side::new(settings, plan(&mut chance), store)
        });
        let plans_end = sides.iter().filter_map(Side::plan_end).max().unwrap_or(start());
        let latency = if chance.percent(10) { chance.below(3000) } else { chance.below(50) };
        let mut world = Self {
            chance,
            now: start(),
            sides,
            wires: Default::default(),
            auditors: Default::default(),
            latency: Duration::from_millis(latency),
            connections: 0,
            call_at: Some(start()),
            next_fault: None,
            fault_pace,
            faults_end,
            last_progress: start(),
            plans_end,
            report: Report::default(),
        };
        world.sides[0].settings.ack_timeout = Duration::from_secs(if direct { 20 } else { 40 });
        world.plan_fault();
        world
    }

    pub(crate) fn run(mut self) -> Report {
        for step in 0..MOST_STEPS {
            if self.is_done() {
                self.report.steps = step as u64;
                self.report.connections = self.connections;
                self.report.repeats = self.auditors.iter().map(|auditor| auditor.repeats).sum();
                self.final_audit();
                return self.report;
            }
            self.now = self.next_moment().expect("something is going to happen").max(self.now);
            let calm_since = self.last_progress.max(self.faults_end).max(self.plans_end);
            assert!(self.now <= calm_since + PATIENCE, "stuck: {}", self.describe());
            self.step();
            let acknowledged = self.auditors.iter().map(Auditor::acknowledged_count).sum();
            if acknowledged > self.report.acknowledged {
                self.report.acknowledged = acknowledged;
                self.last_progress = self.now;
            }
        }
        panic!("no end after {MOST_STEPS} steps: {}", self.describe());
    }

    /// Every recoverable message that was ever made is on disk or refused, and its sender knows.
    fn final_audit(&self) {
        for (side, auditor) in self.sides.iter().zip(&self.auditors) {
            for id in &side.made_recoverable {
                assert!(auditor.is_settled(*id) && auditor.is_acknowledged(*id), "{id} never arrived");
            }
        }
    }

    fn is_done(&self) -> bool {
        self.now >= self.faults_end && self.sides.iter().all(Side::is_done)
    }

    fn describe(&self) -> String {
        let sides = self.sides.each_ref().map(|side| {
            format!("{} planned, {:?} outgoing, session {:?}", side.plan.len(), side.outgoing, side.session)
        });
        format!("at {:?}, {sides:#?}", self.now - start())
    }

    fn next_moment(&self) -> Option<Moment> {
        let sides = self.sides.iter().map(Side::next_moment);
        let wires = self.wires.iter().map(Wire::next_arrival);
        let end = (self.now < self.faults_end).then_some(self.faults_end);
        sides.chain(wires).chain([self.call_at, self.next_fault, end]).flatten().min()
    }

    fn step(&mut self) {
        if self.next_fault.is_some_and(|at| at <= self.now) {
            self.fault();
            self.plan_fault();
        }
        if self.call_at.is_some_and(|at| at <= self.now) {
            self.call();
        }
        for from in 0..2 {
            if let Some(arrival) = self.wires[from].take(self.now) {
                self.deliver(arrival, 1 - from);
            }
        }
        for side in 0..2 {
            self.with_books(side, |side, now, books, _| side.advance(now, books));
            self.speak(side);
        }
        let work = self.sides.iter().any(Side::has_work);
        if work && self.call_at.is_none() && self.sides[0].session.is_none() {
            self.call_at = Some(self.now + Duration::from_millis(self.chance.between(1, self.fault_pace)));
        }
    }

    fn with_books<T>(&mut self, at: usize, act: impl FnOnce(&mut Side, Moment, &mut Books<'_>, &mut Chance) -> T) -> T {
        let [first, second] = &mut self.auditors;
        let (sending, receiving) = if at == 0 { (first, second) } else { (second, first) };
        act(&mut self.sides[at], self.now, &mut Books { sending, receiving }, &mut self.chance)
    }

    /// The first side calls. It gets through when both are up.
    fn call(&mut self) {
        self.call_at = None;
        if self.sides.iter().any(|side| side.down_until.is_some()) {
            self.call_at = Some(self.now + Duration::from_millis(self.chance.between(1, self.fault_pace)));
            return;
        }
        self.connections += 1;
        self.wires = Default::default();
        for auditor in &mut self.auditors {
            auditor.connect(self.connections);
        }
        let direct = self.sides[0].settings.ack_timeout == Duration::from_secs(20);
        let server = if direct { Guid::NULL } else { self.sides[1].settings.local };
        let initiator = Session::initiator(self.sides[0].settings, server, self.now);
        let acceptor = Session::acceptor(self.sides[1].settings, self.now);
        // A session that the called side still has is one whose end it never learned of.
        self.sides[0].connect(initiator, self.connections);
        self.sides[1].connect(acceptor, self.connections);
        self.speak(0);
    }

    fn deliver(&mut self, arrival: Arrival, to: usize) {
        if self.sides[to].session.is_none() {
            return;
        }
        match arrival {
            Arrival::Bytes(bytes) => {
                let said = self.with_books(to, |side, now, books, chance| side.hears(now, &bytes, books, chance));
                self.said(to, said);
            }
            Arrival::End => {
                self.wires[to].finish();
                self.sides[to].disconnect();
            }
        }
    }

    fn speak(&mut self, at: usize) {
        let said = self.with_books(at, Side::speaks);
        self.said(at, said);
    }

    fn said(&mut self, at: usize, said: Said) {
        for packet in said.packets {
            self.wires[at].put(self.now, packet, self.latency, &mut self.chance);
        }
        if let Some(cause) = said.closed {
            self.report.note(&cause);
            self.wires[at].finish();
            self.sides[at].disconnect();
        }
    }

    fn plan_fault(&mut self) {
        let at = self.now + Duration::from_millis(self.chance.between(1, self.fault_pace * 2));
        self.next_fault = (at < self.faults_end).then_some(at);
    }

    fn fault(&mut self) {
        let side = self.chance.below(2) as usize;
        match self.chance.below(100) {
            0..40 => {
                self.report.cuts += 1;
                for wire in &mut self.wires {
                    wire.cut(&mut self.chance);
                }
            }
            40..60 => {
                self.report.crashes += 1;
                let until = self.now + Duration::from_millis(self.chance.between(1, self.fault_pace));
                self.with_books(side, |side, _, books, chance| side.crash(until, books, chance));
                for wire in &mut self.wires {
                    wire.cut(&mut self.chance);
                }
            }
            60..80 => {
                let lost = self.sides[side].lose_one(&mut self.chance);
                self.report.lost_receipts += u64::from(lost);
                // Some stores say so, some don't.
                if lost && self.chance.percent(50) {
                    self.close(side);
                }
            }
            _ => self.close(side),
        }
    }

    fn close(&mut self, at: usize) {
        let cause = CloseCause::Local("the operator wants it".into());
        if let Some(session) = &mut self.sides[at].session {
            session.close(self.now, cause);
            self.speak(at);
        }
    }
}

impl Report {
    fn note(&mut self, cause: &CloseCause) {
        match cause {
            CloseCause::Local(_) => self.local_closes += 1,
            CloseCause::AckTimeout { .. } => self.ack_timeouts += 1,
            CloseCause::Idle(_) => self.idle_ends += 1,
            CloseCause::Initialization(_) => self.late_handshakes += 1,
            other => panic!("two honest sides end their session: {other}"),
        }
    }
}

/// What one side's applications will send, and when.
fn plan(chance: &mut Chance) -> VecDeque<(Moment, Id, bool)> {
    let count = match chance.below(10) {
        0 => 0,
        1 => chance.below(400),
        _ => chance.below(40),
    };
    let bursts = chance.percent(50);
    let recoverable_percent = [0, 50, 90, 100][chance.below(4) as usize];
    let mut at = start();
    (1..=count)
        .map(|id| {
            let pause = if bursts && !chance.percent(5) { 0 } else { chance.below(3000) };
            at = at + Duration::from_millis(pause);
            (at, id as Id, chance.percent(recoverable_percent))
        })
        .collect()
}
