//! Connectors that break the contract are caught: a check that can't fail checks nothing.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use connector_api::conformance::{self, Arrived, Rig, Source};
use connector_api::memory::MemoryConnector;
use connector_api::{
    Address, Connector, Headers, Inlet, InletOptions, Message, Outlet, OutletOptions, Place, Settlement, Status,
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
        self.honest.inlet_status()
    }

    fn inlet(&self, options: InletOptions) -> BoxFuture<'_, Box<dyn Inlet>> {
        self.honest.inlet(options)
    }

    fn probe(&self, timeout: Duration) -> BoxFuture<'_, Result<(), String>> {
        self.honest.probe(timeout)
    }

    fn missing<'a>(&'a self, wanted: &'a [Place], timeout: Duration) -> BoxFuture<'a, Result<Vec<String>, String>> {
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
