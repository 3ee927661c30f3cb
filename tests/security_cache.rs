//! The key cache saves RSA operations and nothing else: it has bounds, forgets, and gives nobody another one's key.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test file uses its part of it")]
mod security;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::wire::{Guid, UserMessage};
use mqbridge::security::{
    CacheLimits, Cipher, ClearBody, KeyCache, Keyring, Lookup, Provider, SealedBody, SealingKey, SendKeyCache,
};
use security::{any_cipher, key, message};

const LIFETIME: Duration = Duration::from_secs(3600);

fn cache(machines: usize, keys_per_machine: usize) -> KeyCache {
    let count = |count| NonZeroUsize::new(count).unwrap();
    KeyCache::new(CacheLimits {
        machines: count(machines),
        keys_per_machine: count(keys_per_machine),
        lifetime: LIFETIME,
    })
}

fn at(seconds: u64) -> Moment {
    Moment::from_start(Duration::from_secs(seconds))
}

/// The shortest keys: their RSA operations take the least time.
fn keyring() -> Keyring {
    Keyring::new(&key("qm-local-512"))
}

fn sealing_key() -> SealingKey {
    SealingKey::generate(Provider::Aes, Cipher::Aes128, key("qm-local-512").public(), &mut rand::rng()).unwrap()
}

/// A message of the machine with that number.
fn sealed(machine: u32, key: &SealingKey) -> UserMessage {
    let mut message = message(b"the body");
    message.user.source_queue_manager = Guid::derived(Guid::NULL, &machine.to_string());
    key.seal(&mut message).unwrap();
    message
}

/// Receives a message as a caller without threads does.
fn receive(cache: &KeyCache, keyring: &Keyring, message: &UserMessage, now: Moment) -> Option<Bytes> {
    let sealed = SealedBody::of(message, &any_cipher()).unwrap();
    let opened = match cache.look_up(&sealed, now) {
        Lookup::Hit(keys) => sealed.open(&keys, &any_cipher()),
        Lookup::Miss(flight) => {
            let keys = keyring.unwrap(&sealed, &mut rand::rng());
            flight.land(&keys);
            let opened = sealed.open(&keys, &any_cipher());
            if let Ok((_, proven)) = &opened {
                cache.put(proven, now);
            }
            opened
        }
        Lookup::Joined(_) => panic!("nobody else is there"),
    };
    opened.ok().map(|(body, _): (ClearBody, _)| body.plaintext().clone())
}

#[test]
fn a_key_costs_one_rsa_operation_while_it_lives() {
    let (cache, keyring, key) = (cache(4, 4), keyring(), sealing_key());
    let message = sealed(1, &key);
    for second in [0, 1, LIFETIME.as_secs() - 1] {
        assert!(receive(&cache, &keyring, &message, at(second)).is_some());
    }
    assert_eq!((cache.figures().rsa_operations, cache.figures().hits), (1, 2));
    // Use does not make it younger.
    assert!(receive(&cache, &keyring, &message, at(LIFETIME.as_secs())).is_some());
    let figures = cache.figures();
    assert_eq!((figures.rsa_operations, figures.hits, figures.evictions, figures.keys), (2, 2, 1, 1));

    cache.sweep(at(2 * LIFETIME.as_secs() - 1));
    assert_eq!(cache.figures().keys, 1);
    cache.sweep(at(2 * LIFETIME.as_secs()));
    let figures = cache.figures();
    assert_eq!((figures.machines, figures.keys, figures.evictions), (0, 0, 2));
}

#[test]
fn a_machine_that_floods_loses_its_own_keys() {
    let (cache, keyring) = (cache(8, 4), keyring());
    let quiet = sealed(1, &sealing_key());
    let mine: Vec<_> = (0..10).map(|_| sealed(2, &sealing_key())).collect();
    receive(&cache, &keyring, &quiet, at(0)).unwrap();
    for message in &mine {
        receive(&cache, &keyring, message, at(1)).unwrap();
    }
    let figures = cache.figures();
    assert_eq!((figures.machines, figures.keys, figures.evictions), (2, 5, 6));
    receive(&cache, &keyring, &quiet, at(2)).unwrap();
    // The four newest are there, the one before is not.
    for message in &mine[6..] {
        receive(&cache, &keyring, message, at(2)).unwrap();
    }
    assert_eq!(cache.figures().hits, 5);
    receive(&cache, &keyring, &mine[5], at(2)).unwrap();
    assert_eq!((cache.figures().hits, cache.figures().evictions), (5, 7));
}

#[test]
fn beyond_the_machines_the_quietest_goes() {
    let (cache, keyring) = (cache(3, 4), keyring());
    let key = sealing_key();
    for (machine, second) in [(1, 0), (2, 1), (3, 2), (1, 3), (4, 4)] {
        receive(&cache, &keyring, &sealed(machine, &key), at(second)).unwrap();
    }
    let figures = cache.figures();
    assert_eq!((figures.machines, figures.keys, figures.evictions, figures.hits), (3, 3, 1, 1));
    for machine in [1, 3, 4] {
        receive(&cache, &keyring, &sealed(machine, &key), at(5)).unwrap();
    }
    assert_eq!(cache.figures().hits, 4, "the second machine went");
    cache.clear();
    assert_eq!((cache.figures().machines, cache.figures().keys, cache.figures().evictions), (0, 0, 4));
}

/// Guesses never get in, not even for a moment.
#[test]
fn only_keys_that_opened_a_body_are_kept() {
    let (cache, keyring) = (cache(4, 4), keyring());
    let mut bad = sealed(1, &sealing_key());
    let mut body = bad.properties.body.to_vec();
    body[0] ^= 1;
    // One block of something else: with this key it has no padding, or the key is another one next time.
    bad.properties.body = body.into();
    let mut tried = 0;
    while receive(&cache, &keyring, &bad, at(0)).is_some() {
        cache.clear();
        bad = sealed(1, &sealing_key());
        let mut body = bad.properties.body.to_vec();
        body[0] ^= 1;
        bad.properties.body = body.into();
        tried += 1;
        assert!(tried < 20, "a wrong body opens once in 256 times");
    }
    assert_eq!((cache.figures().keys, cache.figures().machines), (0, 0));
}

#[test]
fn the_key_of_one_machine_is_not_another_ones() {
    let (cache, keyring, key) = (cache(4, 4), keyring(), sealing_key());
    receive(&cache, &keyring, &sealed(1, &key), at(0)).unwrap();
    receive(&cache, &keyring, &sealed(2, &key), at(0)).unwrap();
    assert_eq!((cache.figures().hits, cache.figures().rsa_operations), (0, 2));
    // Nor is it found for another cipher, whatever the message says.
    let mut lying = sealed(1, &key);
    lying.properties.encryption_algorithm = Cipher::Aes256.calg();
    assert!(SealedBody::of(&lying, &any_cipher()).is_err());
}

/// As the daemon does it: RSA where blocking is allowed, behind as few permits as one likes.
async fn receive_among_others(
    cache: Arc<KeyCache>,
    keyring: Arc<Keyring>,
    permits: Arc<tokio::sync::Semaphore>,
    message: UserMessage,
) -> bool {
    let sealed = SealedBody::of(&message, &any_cipher()).unwrap();
    for _ in 0..10 {
        let (keys, _flight) = match cache.look_up(&sealed, Moment::ZERO) {
            Lookup::Hit(keys) => return sealed.open(&keys, &any_cipher()).is_ok(),
            Lookup::Joined(landing) => match landing.await {
                Some(keys) => (keys, None),
                None => continue,
            },
            Lookup::Miss(flight) => {
                let _permit = permits.acquire().await.unwrap();
                let (keyring, body) = (Arc::clone(&keyring), sealed.clone());
                let keys = tokio::task::spawn_blocking(move || keyring.unwrap(&body, &mut rand::rng()));
                let keys = keys.await.unwrap();
                flight.land(&keys);
                (keys, Some(flight))
            }
        };
        let opened = sealed.open(&keys, &any_cipher());
        if let Ok((_, proven)) = &opened {
            cache.put(proven, Moment::ZERO);
        }
        return opened.is_ok();
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_misses_cost_one_rsa_operation_for_each_key() {
    const MACHINES: u32 = 50;
    const KEYS: usize = 4;
    const MESSAGES: usize = 8;
    let (cache, keyring) = (Arc::new(cache(MACHINES as usize, KEYS)), Arc::new(keyring()));
    let permits = Arc::new(tokio::sync::Semaphore::new(2));
    let keys: Vec<_> = (0..KEYS).map(|_| sealing_key()).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..MESSAGES {
        for machine in 0..MACHINES {
            for key in &keys {
                tasks.spawn(receive_among_others(
                    Arc::clone(&cache),
                    Arc::clone(&keyring),
                    Arc::clone(&permits),
                    sealed(machine, key),
                ));
            }
        }
    }
    assert!(tasks.join_all().await.into_iter().all(|opened| opened));
    let figures = cache.figures();
    let expected = u64::from(MACHINES) * KEYS as u64;
    assert_eq!((figures.rsa_operations, figures.misses), (expected, expected));
    assert_eq!(figures.hits + figures.joined, expected * (MESSAGES as u64 - 1));
    assert_eq!((figures.keys as u64, figures.evictions), (expected, 0));
}

#[tokio::test]
async fn whoever_gives_up_lets_the_next_one_try() {
    let (cache, keyring, key) = (Arc::new(cache(4, 4)), keyring(), sealing_key());
    let message = sealed(1, &key);
    let body = SealedBody::of(&message, &any_cipher()).unwrap();
    let Lookup::Miss(flight) = cache.look_up(&body, at(0)) else { panic!("the first one is to do it") };
    let woken = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let Lookup::Joined(landing) = cache.look_up(&body, at(0)) else { panic!("the others are to wait") };
            let woken = Arc::clone(&woken);
            tokio::spawn(async move {
                let landed = landing.await;
                woken.fetch_add(1, Ordering::Relaxed);
                landed.is_none()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(woken.load(Ordering::Relaxed), 0, "nothing has landed");
    drop(flight);
    for waiting in waiting {
        assert!(waiting.await.unwrap(), "it never landed");
    }
    assert!(receive(&cache, &keyring, &message, at(0)).is_some());
    assert_eq!((cache.figures().misses, cache.figures().joined, cache.figures().rsa_operations), (2, 3, 1));
}

#[test]
fn keys_for_receivers_are_made_once_too() {
    let sends = SendKeyCache::new(2.try_into().unwrap(), LIFETIME);
    let (first, second) = (key("qm-local-1024"), key("qm-other-1024"));
    let machine = |number: u32| Guid::derived(Guid::NULL, &number.to_string());
    let make = |number, receiver: &mqbridge::security::PrivateKey, cipher, now| {
        sends.key_for(machine(number), receiver.public(), Provider::Aes, cipher, now, &mut rand::rng()).unwrap()
    };
    let key = make(1, &first, Cipher::Aes256, at(0));
    assert!(Arc::ptr_eq(&key, &make(1, &first, Cipher::Aes256, at(LIFETIME.as_secs() - 1))));
    for other in [
        make(1, &first, Cipher::Aes128, at(0)),
        make(1, &second, Cipher::Aes256, at(0)),
        make(1, &second, Cipher::Aes256, at(LIFETIME.as_secs())),
    ] {
        assert!(!Arc::ptr_eq(&key, &other));
    }
    // The two newest stay.
    let kept = make(1, &second, Cipher::Aes256, at(LIFETIME.as_secs()));
    make(2, &first, Cipher::Aes256, at(LIFETIME.as_secs()));
    make(3, &first, Cipher::Aes256, at(LIFETIME.as_secs()));
    assert!(!Arc::ptr_eq(&kept, &make(1, &second, Cipher::Aes256, at(LIFETIME.as_secs()))));
    let none = sends.key_for(machine(1), first.public(), Provider::Base, Cipher::Aes128, at(0), &mut rand::rng());
    assert!(none.is_err());
}
