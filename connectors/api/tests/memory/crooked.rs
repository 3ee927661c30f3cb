//! Connectors that break the contract are caught: a check that can't fail checks nothing.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use connector_api::conformance::{self, Arrived, Rig, Source};
use connector_api::memory::MemoryConnector;
use connector_api::{
    Address, Connector, Delivery, Disposition, Headers, Inlet, InletError, InletOptions, Message, Outlet,
    OutletOptions, Place, Receipt, Settlement, Status,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::Memory;

/// A way to break the contract.
#[derive(Clone, Copy, Debug)]
enum Crime {
    /// Says that everything was taken.
    AlwaysSaysYes,
    /// Hands the messages of a burst over from the last to the first.
    Reverses,
    /// Leaves the headers out.
    DropsHeaders,
    /// Marks every message as durable.
    IgnoresDurability,
    /// Hands the first message of each burst over twice.
    SendsTwice,
    /// Never settles what fails.
    SaysNothingOfFailures,
    /// Settles everything again and again as to be repeated.
    NeverSaysYes,
    /// Needs its outlet to settle.
    SettlesOnlyWithItsOutlet,
    /// Takes its time to close.
    ClosesSlowly,
    /// Has the password in its status.
    TellsThePassword,
    /// Says that it is connected when it is not.
    HidesAbsence,
    /// Accepts what it delivers before anybody has it.
    AcceptsTooEarly,
    /// Keeps to itself what was accepted.
    ForgetsToAccept,
    /// Puts back what was refused.
    RequeuesRefused,
    /// Accepts what was dropped or put back.
    AcceptsRequeued,
    /// Delivers as much as there is.
    IgnoresThePrefetch,
    /// Says of every delivery that it is the first.
    HidesRepeats,
    /// Waits for ever instead of failing.
    HidesErrors,
    /// Loses the delivery when receiving is given up at the wrong moment.
    IsNotCancelSafe,
    /// Finds every place.
    FindsEverything,
    /// Keeps the contract.
    None,
}

macro_rules! caught {
    ($($name:ident: $crime:ident by $check:ident;)*) => {
        $(
            /// In virtual time: what never resolves is given up at once.
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let crooked = Crooked { honest: Memory::default(), crime: Crime::$crime };
                let outcome = AssertUnwindSafe(conformance::$check(&crooked)).catch_unwind().await;
                assert!(outcome.is_err(), "{:?} goes unnoticed", crooked.crime);
            }
        )*
    };
}

caught! {
    a_yes_to_unroutable_messages: AlwaysSaysYes by tells_unroutable_messages_from_those_around_them;
    a_yes_to_negative_confirms: AlwaysSaysYes by retries_after_a_negative_confirm;
    a_yes_to_lost_messages: AlwaysSaysYes by loses_nothing_when_the_connection_breaks;
    a_yes_after_closing: AlwaysSaysYes by closes_in_bounded_time;
    a_yes_from_a_frozen_system: AlwaysSaysYes by resolves_everything_when_the_system_freezes;
    a_wrong_order: Reverses by keeps_the_order_of_the_calls;
    lost_headers: DropsHeaders by carries_every_property_unchanged;
    ignored_durability: IgnoresDurability by carries_every_property_unchanged;
    repeated_messages: SendsTwice by confirms_what_has_arrived;
    open_ends: SaysNothingOfFailures by loses_nothing_when_the_connection_breaks;
    a_needless_retry: NeverSaysYes by forgives_dropped_settlements;
    a_needless_retry_after_a_block: NeverSaysYes by shows_that_it_is_blocked;
    settlements_that_die_with_their_outlet: SettlesOnlyWithItsOutlet by settles_after_the_outlet_is_gone;
    a_slow_end: ClosesSlowly by closes_in_bounded_time;
    a_slow_end_of_a_frozen_system: ClosesSlowly by closes_in_bounded_time_when_the_system_is_frozen;
    a_told_secret: TellsThePassword by waits_for_a_system_that_is_not_there;
    a_told_secret_in_a_probe: TellsThePassword by probes_once_with_a_sentence;
    a_hidden_absence: HidesAbsence by waits_for_a_system_that_is_not_there;
    lost_incoming_headers: DropsHeaders by brings_in_every_property_unchanged;
    an_early_acceptance: AcceptsTooEarly by delivers_again_what_was_open_when_the_connection_broke;
    an_early_acceptance_at_closing: AcceptsTooEarly by closes_its_inlets;
    an_early_acceptance_of_a_frozen_system: AcceptsTooEarly by notices_when_the_system_freezes_under_an_inlet;
    a_forgotten_acceptance: ForgetsToAccept by forgets_what_was_accepted;
    a_forgotten_acceptance_that_fills_the_prefetch: ForgetsToAccept by loses_no_delivery_when_receiving_is_given_up;
    a_refused_message_that_comes_again: RequeuesRefused by sends_refused_ones_to_the_dead_letters;
    an_accepted_drop: AcceptsRequeued by delivers_again_what_was_put_back;
    an_accepted_drop_of_an_inlet: AcceptsRequeued by leaves_nothing_behind_when_an_inlet_is_dropped;
    a_full_memory: IgnoresThePrefetch by keeps_within_the_prefetch;
    a_hidden_repeat: HidesRepeats by delivers_again_what_was_put_back;
    a_silent_missing_queue: HidesErrors by tells_that_a_queue_is_missing;
    a_silent_deleted_queue: HidesErrors by fails_when_its_queue_is_deleted;
    a_silent_end: HidesErrors by closes_its_inlets;
    a_silent_end_of_a_frozen_system: HidesErrors by closes_its_inlets_when_the_system_is_frozen;
    a_lost_delivery: IsNotCancelSafe by loses_no_delivery_when_receiving_is_given_up;
    a_hidden_absence_from_inlets: HidesAbsence by waits_with_inlets_for_a_system_that_is_not_there;
    a_found_absentee: FindsEverything by says_which_places_are_missing;
}

/// What is caught above is caught for its crime and not for its disguise.
#[tokio::test(start_paused = true)]
async fn an_honest_one_passes() {
    let honest = || Crooked { honest: Memory::default(), crime: Crime::None };
    conformance::tells_unroutable_messages_from_those_around_them(&honest()).await;
    conformance::retries_after_a_negative_confirm(&honest()).await;
    conformance::loses_nothing_when_the_connection_breaks(&honest()).await;
    conformance::closes_in_bounded_time(&honest()).await;
    conformance::resolves_everything_when_the_system_freezes(&honest()).await;
    conformance::keeps_the_order_of_the_calls(&honest()).await;
    conformance::carries_every_property_unchanged(&honest()).await;
    conformance::confirms_what_has_arrived(&honest()).await;
    conformance::forgives_dropped_settlements(&honest()).await;
    conformance::shows_that_it_is_blocked(&honest()).await;
    conformance::settles_after_the_outlet_is_gone(&honest()).await;
    conformance::closes_in_bounded_time_when_the_system_is_frozen(&honest()).await;
    conformance::waits_for_a_system_that_is_not_there(&honest()).await;
    conformance::probes_once_with_a_sentence(&honest()).await;
    conformance::brings_in_every_property_unchanged(&honest()).await;
    conformance::delivers_again_what_was_open_when_the_connection_broke(&honest()).await;
    conformance::closes_its_inlets(&honest()).await;
    conformance::notices_when_the_system_freezes_under_an_inlet(&honest()).await;
    conformance::forgets_what_was_accepted(&honest()).await;
    conformance::loses_no_delivery_when_receiving_is_given_up(&honest()).await;
    conformance::sends_refused_ones_to_the_dead_letters(&honest()).await;
    conformance::delivers_again_what_was_put_back(&honest()).await;
    conformance::leaves_nothing_behind_when_an_inlet_is_dropped(&honest()).await;
    conformance::keeps_within_the_prefetch(&honest()).await;
    conformance::tells_that_a_queue_is_missing(&honest()).await;
    conformance::fails_when_its_queue_is_deleted(&honest()).await;
    conformance::closes_its_inlets_when_the_system_is_frozen(&honest()).await;
    conformance::waits_with_inlets_for_a_system_that_is_not_there(&honest()).await;
    conformance::says_which_places_are_missing(&honest()).await;
}

const PASSWORD: &str = "hunter2";

struct Crooked {
    honest: Memory,
    crime: Crime,
}

impl Rig for Crooked {
    fn connector(&self) -> Box<dyn Connector> {
        let connector = CrookedConnector {
            honest: self.honest.system.connector("crooked"),
            crime: self.crime,
            status: watch::Sender::new(Status::Up { peer: "somewhere".to_owned() }),
        };
        Box::new(connector)
    }

    async fn destination(&self) -> Address {
        self.honest.destination().await
    }

    async fn unroutable(&self) -> Address {
        self.honest.unroutable().await
    }

    async fn refusing(&self) -> Address {
        self.honest.refusing().await
    }

    async fn source(&self) -> Source {
        self.honest.source().await
    }

    async fn delete(&self, queue: &str) {
        self.honest.delete(queue).await;
    }

    async fn arrived(&self, address: &Address) -> Vec<Arrived> {
        self.honest.arrived(address).await
    }

    async fn disconnect(&self) {
        let secret = if matches!(self.crime, Crime::TellsThePassword) { PASSWORD } else { "***" };
        self.honest.system.disconnect(format!("can't log in as someone:{secret}"));
    }

    async fn freeze(&self) {
        self.honest.freeze().await;
    }

    async fn reconnect(&self) {
        self.honest.reconnect().await;
    }

    async fn block(&self) {
        self.honest.block().await;
    }

    async fn unblock(&self) {
        self.honest.unblock().await;
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }
}

#[derive(Debug)]
struct CrookedConnector {
    honest: MemoryConnector,
    crime: Crime,
    status: watch::Sender<Status>,
}

impl Connector for CrookedConnector {
    fn name(&self) -> &str {
        self.honest.name()
    }

    fn status(&self) -> watch::Receiver<Status> {
        if matches!(self.crime, Crime::HidesAbsence) { self.status.subscribe() } else { self.honest.status() }
    }

    fn outlet(&self, options: OutletOptions) -> BoxFuture<'_, Box<dyn Outlet>> {
        let crime = self.crime;
        self.honest
            .outlet(options)
            .map(move |honest| {
                Box::new(CrookedOutlet { honest, crime, alive: watch::Sender::new(()) }) as Box<dyn Outlet>
            })
            .boxed()
    }

    fn inlet_status(&self) -> watch::Receiver<Status> {
        if matches!(self.crime, Crime::HidesAbsence) { self.status.subscribe() } else { self.honest.inlet_status() }
    }

    fn inlet(&self, mut options: InletOptions) -> BoxFuture<'_, Box<dyn Inlet>> {
        let crime = self.crime;
        if matches!(crime, Crime::IgnoresThePrefetch) {
            options.prefetch = 1000;
        }
        let honest = self.honest.inlet(options);
        honest.map(move |honest| Box::new(CrookedInlet { honest, crime }) as Box<dyn Inlet>).boxed()
    }

    fn probe(&self, timeout: Duration) -> BoxFuture<'_, Result<(), String>> {
        self.honest.probe(timeout)
    }

    fn missing<'a>(&'a self, wanted: &'a [Place], timeout: Duration) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let wanted = if matches!(self.crime, Crime::FindsEverything) { &[] } else { wanted };
        self.honest.missing(wanted, timeout)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            if matches!(self.crime, Crime::ClosesSlowly) {
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            self.honest.close().await;
        }
        .boxed()
    }
}

struct CrookedOutlet {
    honest: Box<dyn Outlet>,
    crime: Crime,
    alive: watch::Sender<()>,
}

impl Outlet for CrookedOutlet {
    fn deliver(&mut self, mut burst: Vec<Message>) -> BoxFuture<'_, Vec<Settlement>> {
        match self.crime {
            Crime::Reverses => burst.reverse(),
            Crime::DropsHeaders => burst.iter_mut().for_each(|message| message.headers = Headers::new()),
            Crime::IgnoresDurability => burst.iter_mut().for_each(|message| message.durable = true),
            Crime::SendsTwice => burst.extend(burst.first().cloned()),
            _ => {}
        }
        let wanted = if matches!(self.crime, Crime::SendsTwice) { burst.len().saturating_sub(1) } else { burst.len() };
        let (crime, alive) = (self.crime, self.alive.subscribe());
        let settlements = self.honest.deliver(burst);
        async move {
            let mut settlements = settlements.await;
            settlements.truncate(wanted);
            settlements.into_iter().map(|honest| distort(honest, crime, alive.clone())).collect()
        }
        .boxed()
    }
}

struct CrookedInlet {
    honest: Box<dyn Inlet>,
    crime: Crime,
}

impl Inlet for CrookedInlet {
    fn receive(&mut self) -> BoxFuture<'_, Result<Delivery, InletError>> {
        let crime = self.crime;
        async move {
            let received = self.honest.receive().await;
            if matches!(crime, Crime::IsNotCancelSafe) {
                tokio::task::yield_now().await;
            }
            let Ok(Delivery { mut message, receipt: honest }) = received else {
                return if matches!(crime, Crime::HidesErrors) { std::future::pending().await } else { received };
            };
            match crime {
                Crime::DropsHeaders => message.headers = Headers::new(),
                Crime::HidesRepeats => message.redelivered = false,
                _ => {}
            }
            if matches!(crime, Crime::AcceptsTooEarly) {
                honest.accept();
                return Ok(Delivery { message, receipt: Receipt::new(|_| {}) });
            }
            let receipt = Receipt::new(move |disposition| match (crime, disposition) {
                (Crime::ForgetsToAccept, Disposition::Accept) => std::mem::forget(honest),
                (Crime::AcceptsRequeued, Disposition::Requeue) | (_, Disposition::Accept) => honest.accept(),
                (Crime::RequeuesRefused, Disposition::Refuse) | (_, Disposition::Requeue) => honest.requeue(),
                (_, Disposition::Refuse) => honest.refuse(),
            });
            Ok(Delivery { message, receipt })
        }
        .boxed()
    }
}

fn distort(honest: Settlement, crime: Crime, mut alive: watch::Receiver<()>) -> Settlement {
    async move {
        match crime {
            Crime::AlwaysSaysYes => Ok(()),
            Crime::NeverSaysYes => Err(connector_api::DeliveryError::retry("again")),
            Crime::SaysNothingOfFailures => match honest.await {
                Ok(()) => Ok(()),
                Err(_) => std::future::pending().await,
            },
            Crime::SettlesOnlyWithItsOutlet if alive.changed().now_or_never().is_some() => {
                Err(connector_api::DeliveryError::retry("the outlet is gone"))
            }
            _ => honest.await,
        }
    }
    .boxed()
}
