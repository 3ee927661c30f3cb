//! Two bridges in a row, AMQP to MSMQ to AMQP, both killed again and again.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc;
use std::time::Duration;

use lapin::BasicProperties;
use mqbridge::mqqb::wire::Guid;
use testkit::{PortBlock, SharedBroker};

use crate::broker::{Application, Publisher, Received, unique};
use crate::process::{Bridge, RETURNING, Site, return_route, route};
use crate::sender::runtime;

const MESSAGES: u32 = 2_000;
const KILLS: usize = 20;
/// Of this machine are the identifiers of every other message; the rest have names that mean nothing to MSMQ.
const SOURCE: [u8; 16] = *b"where they began";

#[test]
fn nothing_is_lost_between_two_bridges_that_are_killed_twenty_times() {
    let uri = SharedBroker::uri().unwrap();
    let (source, sink) = (unique("source"), unique("sink"));
    runtime().block_on(async {
        Publisher::connect(&uri).await.declare(&source, None).await;
        drop(Application::declare(&uri, &sink).await);
    });
    let ports = PortBlock::claim().unwrap();
    let address = format!("127.0.0.1:{}", ports.port(0));
    let second = Site::called("second", &address, &uri, "", &[("in", &route("in", &sink, "in", "", ""))]);
    let back = return_route(&source, r"DIRECT=OS:second\private$\in", "", "delivery = \"recoverable\"");
    let first = Site::called("first", "127.0.0.1:0", &uri, RETURNING, &[("back", &back)]);
    first.know("second", Guid::from_random([2; 16]), address.parse().unwrap());

    let mut bridges = [first.start(), second.start()].map(Some);
    let sites = [first, second];
    let (done, is_done) = mpsc::channel();
    let feeder = {
        let (uri, source) = (uri.clone(), source.clone());
        std::thread::spawn(move || {
            runtime().block_on(feed(&uri, &source));
            let _ = done.send(());
        })
    };
    let mut chance = Chance(0x2545_F491_4F6C_DD1D);
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        let victim = chance.below(2) as usize;
        bridges[victim].take().unwrap().kill();
        std::thread::sleep(Duration::from_millis(chance.below(100)));
        bridges[victim] = Some(sites[victim].start());
    }
    let fed_while_killing = is_done.try_recv().is_ok();
    feeder.join().unwrap();

    let received = runtime().block_on(async {
        let application = Application::declare(&uri, &sink).await;
        let all = |messages: &[Received]| {
            // Counting them anew each time is slow; the last one sent is the last one to come for the first time.
            messages.last().is_some_and(|it| number(it) == MESSAGES - 1)
                && messages.iter().map(number).collect::<HashSet<_>>().len() == MESSAGES as usize
        };
        let mut received = Vec::new();
        application.receive_until(all, &mut received).await;
        received
    });
    assert!(bridges.into_iter().flatten().map(Bridge::stop).all(|status| status.success()));

    let mut ids = HashMap::new();
    let mut expected = 0;
    for message in &received {
        let (number, id) = (number(message), message.id());
        if let Some(first) = ids.get(&number) {
            assert_eq!(*first, id, "message {number} came again as another");
            continue;
        }
        assert_eq!(number, expected, "message {number} came out of order");
        expected += 1;
        if let Some(own) = own_id(number) {
            assert_eq!(id, own, "an identifier of MSMQ is kept");
        }
        ids.insert(number, id);
    }
    assert_eq!(expected, MESSAGES);
    assert_eq!(ids.values().collect::<HashSet<_>>().len(), ids.len(), "no two messages are called the same");
    eprintln!(
        "relay: {MESSAGES} messages, {KILLS} kills{}, {} repeats",
        if fed_while_killing { ", the last ones after all were published" } else { "" },
        received.len() - ids.len()
    );
}

fn number(message: &Received) -> u32 {
    std::str::from_utf8(message.body()).unwrap().parse().unwrap()
}

/// The identifier that the message brings, when it is one of MSMQ's.
fn own_id(number: u32) -> Option<String> {
    number.is_multiple_of(2).then(|| format!("{}\\{}", Guid::from_wire(SOURCE), number + 1))
}

/// Slowly enough to be interrupted.
async fn feed(uri: &str, queue: &str) {
    let publisher = Publisher::connect(uri).await;
    for number in 0..MESSAGES {
        let id = own_id(number).unwrap_or_else(|| format!("order {number}"));
        let properties = BasicProperties::default().with_delivery_mode(2).with_message_id(id.into());
        publisher.publish(queue, properties, number.to_string().as_bytes()).await;
        if number.is_multiple_of(5) {
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }
}

/// xorshift: the same moments each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
