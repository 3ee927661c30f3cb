//! What it costs to cut, decode and encode one message.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(missing_docs, reason = "the macros of criterion make public items")]

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mqbridge::mqqb::wire::{
    DeliveryMode, FormatName, Frame, FrameCutter, Guid, MAX_PACKET_SIZE, MessageId, Packet, QueueField, SecurityHeader,
    SecurityItem, SessionHeader, TransactionHeader, TxSequenceId, UserMessage, WideText, append_session_header,
};

const BODY_SIZES: [usize; 2] = [1024, 64 * 1024];

/// A transactional message to a direct name, with a label, a response queue and the sender's SID.
fn message(body_size: usize) -> UserMessage {
    let direct = |text| QueueField::direct(&FormatName::parse_direct(text).unwrap());
    let id = MessageId { source: Guid::from_random([7; 16]), ordinal: 4711 };
    let mut message = UserMessage::new(id, 1_753_805_055, Guid::NULL, direct(r"OS:bridge01\private$\orders"));
    message.user.admin = direct(r"OS:win-a\private$\acks");
    message.user.response = direct(r"OS:win-a\private$\replies");
    message.delivery = DeliveryMode::Transactional(TransactionHeader {
        flags: TransactionHeader::FIRST | TransactionHeader::LAST | TransactionHeader::FINAL_ACK,
        sequence_id: TxSequenceId { timestamp: 1_753_000_000, ordinal: 1 },
        sequence_number: 42,
        previous_sequence_number: 41,
        connector_queue_manager: None,
    });
    message.security = Some(SecurityHeader {
        flags: 1 | SecurityHeader::DATA_PRESENT,
        sender_id: SecurityItem::new(Bytes::from_static(&[1; 28])),
        ..SecurityHeader::default()
    });
    message.properties.label = Some(WideText::from_text("order 4711 of 2025-07-29"));
    message.properties.set_body(vec![b'x'; body_size].into(), 0x1011);
    message
}

fn codec(criterion: &mut Criterion) {
    for size in BODY_SIZES {
        let packet = message(size).to_packet().unwrap();
        let frame = Frame::new(packet.clone()).unwrap();
        let decoded = Packet::decode(&frame).unwrap();
        let with_ack = append_session_header(&packet, &SessionHeader::default());
        let header = SessionHeader::default();

        let mut group = criterion.benchmark_group("codec");
        group.throughput(Throughput::Bytes(packet.len() as u64));
        group.bench_function(BenchmarkId::new("decode", size), |bencher| {
            bencher.iter(|| Packet::decode(black_box(&frame)));
        });
        group.bench_function(BenchmarkId::new("encode", size), |bencher| {
            let mut out = BytesMut::with_capacity(packet.len());
            bencher.iter(|| {
                out.clear();
                black_box(&decoded).encode(&mut out)
            });
        });
        for (name, bytes) in [("cut", &packet), ("cut with session header", &with_ack)] {
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                let cutter = FrameCutter::new(MAX_PACKET_SIZE);
                bencher.iter_batched_ref(
                    || BytesMut::from(&bytes[..]),
                    |buffer| cutter.cut(buffer),
                    BatchSize::SmallInput,
                );
            });
        }
        group.bench_function(BenchmarkId::new("append session header", size), |bencher| {
            bencher.iter(|| append_session_header(black_box(&packet), &header));
        });
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
