//! Two machines that crash, and the connections between them. Several may be there at once: a machine that learned of
//! the end of one calls again while the other machine still has it, with bytes on the way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::{CloseCause, Session, SessionSettings};
use mqbridge::mqqb::wire::Guid;

use crate::disk::{DESTINATIONS, Pace};
use crate::ledger::Ledger;
use crate::machine::{Ledgers, Machine, Said};
use crate::packets::{Chance, guid, start};
use crate::wire::{Arrival, Wire};

/// Once the faults are over, the next acknowledgment must come within this.
const PATIENCE: Duration = Duration::from_mins(10);
/// More steps than any run needs.
const MOST_STEPS: usize = 200_000;

pub(crate) struct Network {
    chance: Chance,
    now: Moment,
    machines: [Machine; 2],
    /// Whether each of them calls the other. The first one does.
    calls: [bool; 2],
    /// Whether a session is asked for by the other's identifier.
    by_identifier: bool,
    /// Of each connection, the wires from either machine.
    connections: BTreeMap<u64, [Wire; 2]>,
    /// Of the messages that each machine sends.
    ledgers: [Ledger; 2],
    latency: Duration,
    next_fault: Option<Moment>,
    /// Milliseconds from one fault to the next, on average.
    fault_pace: u64,
    faults_end: Moment,
    last_progress: Moment,
    plans_end: Moment,
    report: Report,
}

crate::report::report! {
    steps: "a step",
    connections: "a connection",
    failed_calls: "a call of a machine that is down",
    crossed: "a second connection at a time",
    cuts: "a cut",
    crashes: "a crash",
    failed_writes: "a write that failed",
    local_closes: "a close of our own",
    acknowledged: "an acknowledgment",
    duplicates: "a duplicate",
    ack_timeouts: "the end of the Session Ack Wait Timer",
    idle_ends: "the end of the Session Cleanup Timer",
    late_handshakes: "the end of the Session Initialization Timer",
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let fault_pace = [100, 1000, 10_000][chance.below(3) as usize];
        let faults_end = start() + Duration::from_millis(chance.below(fault_pace * 12));
        let machines = [1, 2].map(|last| {
            let settings = SessionSettings {
                window: [1, 2, 64][chance.below(3) as usize],
                // Long enough at times that it ends no session on which somebody waits.
                cleanup_timeout: Duration::from_secs(if chance.percent(50) { chance.between(20, 90) } else { 3600 }),
                initialization_timeout: Duration::from_secs(chance.between(20, 60)),
                ..SessionSettings::new(guid(last))
            };
            let pace = Pace {
                usual: Duration::from_millis(chance.below(200)),
                worst: Duration::from_secs(chance.between(1, 70)),
                slow_percent: if chance.percent(20) { 5 } else { 0 },
            };
            Machine::new(settings, plan(&mut chance), pace, start())
        });
        let plans_end = machines.iter().filter_map(|machine| machine.plan.back()).map(|(at, ..)| *at).max();
        let latency = if chance.percent(10) { chance.below(3000) } else { chance.below(50) };
        let mut network = Self {
            now: start(),
            machines,
            calls: [true, chance.percent(50)],
            by_identifier: chance.percent(50),
            connections: BTreeMap::new(),
            ledgers: Default::default(),
            latency: Duration::from_millis(latency),
            next_fault: None,
            fault_pace,
            faults_end,
            last_progress: start(),
            plans_end: plans_end.unwrap_or(start()),
            report: Report::default(),
            chance,
        };
        network.plan_fault();
        network
    }

    pub(crate) fn run(mut self) -> Report {
        for step in 0..MOST_STEPS {
            if self.now >= self.faults_end && self.machines.iter().all(Machine::is_done) {
                for from in 0..2 {
                    self.ledgers[from].audit(&self.machines[1 - from].disk.inbox, self.machines[from].life);
                    assert!(self.machines[from].disk.outgoing.iter().all(VecDeque::is_empty), "still on disk");
                }
                self.report.steps = step as u64;
                self.report.duplicates = self.ledgers.iter().map(|ledger| ledger.duplicates).sum();
                return self.report;
            }
            self.now = self.next_moment().expect("something is going to happen").max(self.now);
            let calm_since = self.last_progress.max(self.faults_end).max(self.plans_end);
            assert!(self.now <= calm_since + PATIENCE, "stuck at {:?}", self.now - start());
            self.step();
            let acknowledged = self.ledgers.iter().map(|ledger| ledger.acknowledgments).sum();
            if acknowledged > self.report.acknowledged {
                self.report.acknowledged = acknowledged;
                self.last_progress = self.now;
            }
        }
        panic!("no end after {MOST_STEPS} steps");
    }

    fn next_moment(&self) -> Option<Moment> {
        let machines = self.machines.iter().filter_map(Machine::next_moment);
        let calls = (0..2).filter_map(|at| self.call_moment(at));
        let wires = self.connections.values().flatten().filter_map(Wire::next_arrival);
        let end = (self.now < self.faults_end).then_some(self.faults_end);
        machines.chain(calls).chain(wires).chain(self.next_fault).chain(end).min()
    }

    /// A machine that does not call may have to wait until it is called: the other one does so now and then.
    fn call_moment(&self, at: usize) -> Option<Moment> {
        let caller = if self.calls[at] { at } else { 1 - at };
        let wanted = self.machines[at].wants_to_call_at()?;
        self.machines[caller].memory.as_ref().map(|_| wanted)
    }

    fn step(&mut self) {
        if self.next_fault.is_some_and(|at| at <= self.now) {
            self.fault();
            self.plan_fault();
        }
        for at in 0..2 {
            if self.call_moment(at).is_some_and(|moment| moment <= self.now) {
                self.call(at);
            }
        }
        for connection in self.connections.keys().copied().collect::<Vec<_>>() {
            for from in 0..2 {
                let wires = self.connections.get_mut(&connection);
                match wires.and_then(|wires| wires[from].take(self.now)) {
                    Some(Arrival::Bytes(bytes)) => self.machines[1 - from].hears(self.now, connection, &bytes),
                    Some(Arrival::End) => {
                        self.machines[1 - from].hears_end(self.now, connection);
                        if let Some(wires) = self.connections.get_mut(&connection) {
                            wires[1 - from].finish();
                        }
                    }
                    None => {}
                }
            }
        }
        for at in 0..2 {
            let said = self.with_ledgers(at, |machine, now, ledgers, chance| {
                machine.advance(now, ledgers);
                machine.speaks(now, ledgers, chance)
            });
            self.said(at, said);
        }
        let machines = &self.machines;
        self.connections.retain(|connection, _| machines.iter().any(|machine| machine.has_end(*connection)));
    }

    fn with_ledgers<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Machine, Moment, &mut Ledgers<'_>, &mut Chance) -> T,
    ) -> T {
        let [first, second] = &mut self.ledgers;
        let (sending, receiving) = if at == 0 { (first, second) } else { (second, first) };
        act(&mut self.machines[at], self.now, &mut Ledgers { sending, receiving }, &mut self.chance)
    }

    /// `wanting` needs a connection.
    fn call(&mut self, wanting: usize) {
        let caller = if self.calls[wanting] { wanting } else { 1 - wanting };
        let called = 1 - caller;
        if self.machines[called].memory.is_none() {
            self.report.failed_calls += 1;
            self.machines[wanting].call_failed(self.now);
            return;
        }
        self.report.connections += 1;
        self.report.crossed += u64::from(!self.connections.is_empty());
        let connection = self.report.connections;
        let server = if self.by_identifier { self.machines[called].settings.local } else { Guid::NULL };
        let initiator = Session::initiator(self.machines[caller].settings, server, self.now);
        let acceptor = Session::acceptor(self.machines[called].settings, self.now);
        self.connections.insert(connection, Default::default());
        self.machines[caller].connect(connection, initiator);
        self.machines[called].connect(connection, acceptor);
    }

    fn said(&mut self, at: usize, said: Vec<Said>) {
        for said in said {
            let (Said::Packet(connection, _) | Said::Closed(connection, _)) = &said;
            let Some(wires) = self.connections.get_mut(connection) else { continue };
            match said {
                Said::Packet(_, packet) => wires[at].put(self.now, packet, self.latency, &mut self.chance),
                Said::Closed(_, cause) => {
                    wires[at].finish();
                    self.report.note(&cause);
                }
            }
        }
    }

    fn plan_fault(&mut self) {
        let at = self.now + Duration::from_millis(self.chance.between(1, self.fault_pace * 2));
        self.next_fault = (at < self.faults_end).then_some(at);
    }

    fn fault(&mut self) {
        let at = self.chance.below(2) as usize;
        match self.chance.below(100) {
            0..35 => {
                let victim = self.chance.below(self.connections.len() as u64) as usize;
                if let Some(wires) = self.connections.values_mut().nth(victim) {
                    self.report.cuts += 1;
                    for wire in wires {
                        wire.cut(&mut self.chance);
                    }
                }
            }
            35..65 => {
                let until = self.now + Duration::from_millis(self.chance.between(1, self.fault_pace));
                let ended = self.with_ledgers(at, |machine, _, ledgers, chance| machine.crash(until, ledgers, chance));
                self.report.crashes += 1;
                for connection in ended {
                    // What has left the machine flies on, or some of it.
                    if let Some(wires) = self.connections.get_mut(&connection) {
                        if self.chance.percent(50) { wires[at].finish() } else { wires[at].cut(&mut self.chance) }
                    }
                }
            }
            65..85 => {
                let failed = self.machines[at].fail_write(self.now, &mut self.chance);
                self.report.failed_writes += u64::from(failed);
            }
            _ => {
                self.machines[at].close_one(self.now, &mut self.chance);
            }
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
            other => panic!("two honest machines end their session: {other}"),
        }
    }
}

/// What one machine's applications will send, and when.
fn plan(chance: &mut Chance) -> VecDeque<(Moment, usize, bool)> {
    let count = match chance.below(10) {
        0 => 0,
        1 => chance.below(200),
        _ => chance.below(40),
    };
    let bursts = chance.percent(50);
    let recoverable_percent = [0, 50, 90, 100][chance.below(4) as usize];
    let mut at = start();
    (0..count)
        .map(|_| {
            let pause = if bursts && !chance.percent(5) { 0 } else { chance.below(3000) };
            at = at + Duration::from_millis(pause);
            (at, chance.below(DESTINATIONS as u64) as usize, chance.percent(recoverable_percent))
        })
        .collect()
}
