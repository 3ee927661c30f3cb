//! What it costs to find a body's key, to open a body, and to verify and make a signature.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "counts of tries are small")]
#![allow(missing_docs, reason = "the macros of criterion make public items")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::wire::{FormatName, Frame, Guid, MessageId, QueueField, UserMessage};
use mqbridge::security::{
    Authenticity, CacheLimits, Certificate, Cipher, CipherPolicy, ClearBody, HashAlgorithm, KeyCache, Keyring, Lookup,
    PrivateKey, Provider, SealedBody, SealingKey, SignatureForm, SignaturePolicy, SignatureVersion, Signer,
};

const MACHINES: u32 = 1000;
const KEYS_PER_MACHINE: usize = 4;
const BODY_SIZES: [usize; 2] = [1024, 64 * 1024];

fn message(machine: u32, body: &[u8]) -> UserMessage {
    let direct = |text| QueueField::direct(&FormatName::parse_direct(text).unwrap());
    let id = MessageId { source: Guid::derived(Guid::NULL, &machine.to_string()), ordinal: 1 };
    let mut message = UserMessage::new(id, 1_753_805_055, Guid::NULL, direct(r"OS:bridge01\private$\orders"));
    message.user.response = direct(r"OS:win-a\private$\replies");
    message.properties.set_body(Bytes::copy_from_slice(body), 8);
    message
}

fn key(file: &str) -> PrivateKey {
    let path = format!("{}/tests/fixtures/vectors/keys/{file}.pem", env!("CARGO_MANIFEST_DIR"));
    PrivateKey::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn policy() -> CipherPolicy {
    CipherPolicy { ciphers: Cipher::ALL.to_vec(), min_key_bits: 512 }
}

fn sealing_key(receiver: &PrivateKey) -> SealingKey {
    SealingKey::generate(Provider::Aes, Cipher::Aes256, receiver.public(), &mut rand::rng()).unwrap()
}

/// A hit among 1,000 machines with 4 keys each, beside two general caches with as many entries.
fn cache(criterion: &mut Criterion) {
    let receiver = key("qm-local-1024");
    let keyring = Keyring::new(&receiver);
    let keys: Vec<SealingKey> = (0..KEYS_PER_MACHINE).map(|_| sealing_key(&receiver)).collect();
    let cache = KeyCache::new(CacheLimits {
        machines: 1024.try_into().unwrap(),
        keys_per_machine: 16.try_into().unwrap(),
        lifetime: Duration::from_secs(3600),
    });
    let total = MACHINES as usize * KEYS_PER_MACHINE;
    let moka = moka::sync::Cache::new(2 * total as u64);
    let quick_cache = quick_cache::sync::Cache::new(2 * total);
    let mut bodies = Vec::with_capacity(total);
    for machine in 0..MACHINES {
        for key in &keys {
            let mut message = message(machine, b"body");
            key.seal(&mut message).unwrap();
            let body = SealedBody::of(&message, &policy()).unwrap();
            // RSA once for each key is enough to fill a cache.
            let first = if machine == 0 { None } else { bodies.get(bodies.len() % KEYS_PER_MACHINE) };
            let opened: Arc<_> = match first {
                Some((_, opened)) => Arc::clone(opened),
                None => Arc::new(keyring.unwrap(&body, &mut rand::rng())),
            };
            let (_, proven) = body.open(&opened, &policy()).unwrap();
            cache.put(&proven, Moment::ZERO);
            let id = (body.source(), body.provider(), body.cipher(), body.encryption_key().clone());
            moka.insert(id.clone(), Arc::clone(&opened));
            quick_cache.insert(id, Arc::clone(&opened));
            bodies.push((body, opened));
        }
    }
    // Another order than they came in.
    let order: Vec<usize> = (0..total).map(|at| at * 1579 % total).collect();

    let mut group = criterion.benchmark_group("security/hit");
    group.throughput(Throughput::Elements(total as u64));
    group.bench_function("KeyCache", |bencher| {
        bencher.iter(|| {
            for at in &order {
                let Lookup::Hit(keys) = cache.look_up(&bodies[*at].0, Moment::ZERO) else { panic!("all are there") };
                black_box(keys);
            }
        });
    });
    let id = |body: &SealedBody| (body.source(), body.provider(), body.cipher(), body.encryption_key().clone());
    group.bench_function("moka", |bencher| {
        bencher.iter(|| order.iter().for_each(|at| drop(black_box(moka.get(&id(&bodies[*at].0))))));
    });
    group.bench_function("quick_cache", |bencher| {
        bencher.iter(|| order.iter().for_each(|at| drop(black_box(quick_cache.get(&id(&bodies[*at].0))))));
    });
    group.finish();
}

fn bodies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("security");
    for bits in [512, 1024, 2048, 4096] {
        let receiver = key(&format!("qm-local-{bits}"));
        let (keyring, sealing) = (Keyring::new(&receiver), sealing_key(&receiver));
        let mut message = message(1, b"body");
        sealing.seal(&mut message).unwrap();
        let sealed = SealedBody::of(&message, &policy()).unwrap();
        group.bench_function(BenchmarkId::new("unwrap a key, RSA", bits), |bencher| {
            bencher.iter(|| keyring.unwrap(black_box(&sealed), &mut rand::rng()));
        });
    }
    let receiver = key("qm-local-2048");
    let (keyring, sealing) = (Keyring::new(&receiver), sealing_key(&receiver));
    for size in BODY_SIZES {
        let clear = message(1, &vec![b'x'; size]);
        let mut message = clear.clone();
        sealing.seal(&mut message).unwrap();
        let sealed = SealedBody::of(&message, &policy()).unwrap();
        let keys = keyring.unwrap(&sealed, &mut rand::rng());
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("open, AES-256", size), |bencher| {
            bencher.iter(|| black_box(&sealed).open(&keys, &policy()).unwrap());
        });
        group.bench_function(BenchmarkId::new("seal, AES-256", size), |bencher| {
            bencher.iter(|| sealing.seal(&mut black_box(&clear).clone()).unwrap());
        });
    }
    group.finish();
}

fn signatures(criterion: &mut Criterion) {
    let policy = SignaturePolicy { min_hash: HashAlgorithm::Sha1, min_key_bits: 1024 };
    let mut group = criterion.benchmark_group("security");
    for bits in [1024, 2048] {
        let path = format!("{}/tests/fixtures/vectors/keys/user-a-{bits}-internal.der", env!("CARGO_MANIFEST_DIR"));
        let (key, certificate) =
            (key(&format!("user-a-{bits}")), Certificate::from_der(std::fs::read(path).unwrap().into()).unwrap());
        let signer =
            Signer { key: &key, certificate: &certificate, hash: HashAlgorithm::Sha512, form: SignatureForm::Property };
        let mut message = message(1, &[b'x'; 1024]);
        group.bench_function(BenchmarkId::new("sign 1 KiB", bits), |bencher| {
            bencher.iter(|| signer.sign(&mut message, SignatureVersion::V2, &mut rand::rng()).unwrap());
        });
        group.bench_function(BenchmarkId::new("verify 1 KiB", bits), |bencher| {
            bencher.iter(|| {
                let mut body = ClearBody::of(&message).unwrap();
                Authenticity::of(black_box(&message), &mut body, &policy).unwrap()
            });
        });
        // The worst there is: signed well, but something else, so that every reading is tried.
        let mut altered = message.clone();
        altered.properties.correlation_id = [1; 20];
        group.bench_function(BenchmarkId::new("refuse 1 KiB", bits), |bencher| {
            bencher.iter(|| {
                let mut body = ClearBody::of(&altered).unwrap();
                Authenticity::of(black_box(&altered), &mut body, &policy).unwrap_err()
            });
        });
    }
    group.finish();
}

/// Whether the refusals of bodies can be told apart by their time: each of the four kinds 20,000 times, by turns.
#[expect(clippy::disallowed_methods, reason = "a difference of means is no measurement of criterion's")]
#[expect(clippy::print_stdout, reason = "what it found")]
fn refusals(_: &mut Criterion) {
    const KINDS: [(&str, &str); 4] = [
        ("RSA block", "bad-enc-rsa-block"),
        ("key length", "bad-enc-key-length"),
        ("wrong key", "bad-enc-wrong-recipient"),
        ("body padding", "bad-enc-padding-aes256"),
    ];
    const TRIES: usize = 20_000;
    let (keyring, policy) = (Keyring::new(&key("qm-local-1024")), policy());
    let bodies = KINDS.map(|(_, vector)| {
        let path = format!("{}/tests/fixtures/vectors/{vector}.json", env!("CARGO_MANIFEST_DIR"));
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let packet = vector["packet"].as_str().unwrap().as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
        let packet = packet.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
        let message = UserMessage::decode(&Frame::new(packet).unwrap()).unwrap();
        SealedBody::of(&message, &policy).unwrap()
    });
    let mut times = KINDS.map(|_| Vec::with_capacity(TRIES));
    for round in 0..TRIES {
        // Each kind comes after each other one equally often: what ran before leaves its traces in the caches.
        let orders = [[0, 1, 2, 3], [1, 3, 0, 2], [2, 0, 3, 1], [3, 2, 1, 0]];
        for kind in orders[round % orders.len()] {
            let body = &bodies[kind];
            let began = Instant::now();
            let keys = keyring.unwrap(black_box(body), &mut rand::rng());
            assert!(black_box(body.open(&keys, &policy)).is_err());
            times[kind].push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    for ((kind, _), times) in KINDS.iter().zip(&mut times) {
        // The slowest tenth is the machine's other work.
        times.sort_by(f64::total_cmp);
        times.truncate(TRIES / 10 * 9);
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        println!(
            "refusal, {kind}: median {:.2} µs, mean {mean:.2} ± {:.2} µs",
            times[times.len() / 2],
            (variance / count).sqrt()
        );
    }
}

criterion_group!(benches, cache, bodies, signatures, refusals);
criterion_main!(benches);
