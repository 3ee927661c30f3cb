//! Everybody is found by every name they have, and by no other.

use std::sync::Arc;

use futures_util::future::FutureExt;
use mqbridge::directory::{Directory, Trustee, Unavailable, digest};
use mqbridge::mqqb::wire::{Guid, Sid};

use super::{ALICE, ORDERS, Site, WIN01, certificate};

fn sid(text: &str) -> Sid {
    text.parse().unwrap()
}

fn guid(text: &str) -> Guid {
    text.parse().unwrap()
}

#[tokio::test]
async fn everybody_is_found_by_every_name_and_strangers_are_absent() {
    let site = Site::new(&format!("{ALICE}{WIN01}{ORDERS}"));
    let directory: Arc<dyn Directory> = Arc::new(site.open());

    let alice = directory.user_by_sid(&sid("S-1-5-21-1-2-3-1104")).await.unwrap().unwrap();
    assert_eq!(alice.name, r"CORP\alice");
    assert_eq!(
        (&alice.groups[..], &alice.group_sids[..]),
        (&["orders-senders".to_owned()][..], &[sid("S-1-5-32-545")][..])
    );
    assert_eq!(alice.certificates, [certificate("alice")]);
    let by_certificate = directory.user_by_certificate(digest(&certificate("alice"))).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&alice, &by_certificate));
    assert_eq!(directory.user_by_sid(&sid("S-1-5-21-1-2-3-1105")).await, Ok(None));
    // A machine's certificate is no user's.
    assert_eq!(directory.user_by_certificate(digest(&certificate("bob"))).await, Ok(None));

    let win01 = directory.machine_by_guid(guid("C778CA24-7C5A-4060-80C0-AEEE428D53AE")).await.unwrap().unwrap();
    let addresses: Vec<_> = win01.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.1.2.3", "10.1.2.4:1802", "win01.corp.example"]);
    assert_eq!(win01.certificates, [certificate("bob")]);
    for name in ["win01", "WIN01", "Win01"] {
        assert!(Arc::ptr_eq(&win01, &directory.machine_by_name(name).await.unwrap().unwrap()), "{name}");
    }
    assert_eq!(directory.machine_by_name("win01.corp.example").await, Ok(None), "an address is not the name");
    assert_eq!(directory.machine_by_guid(Guid::NULL).await, Ok(None));

    let orders = directory.queue_by_guid(guid("a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a")).await.unwrap().unwrap();
    assert_eq!(
        orders.access.as_deref().unwrap()[..2],
        [Trustee::Group("orders-senders".to_owned()), Trustee::Everyone]
    );
    let by_path = directory.queue_by_path(&r"BRIDGE01\Orders".parse().unwrap()).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&orders, &by_path));
    let audit = directory.queue_by_path(&r"bridge01\PRIVATE$\AUDIT".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((audit.private_id, audit.guid, &audit.access), (Some(10), None, &None));
    assert_eq!(directory.queue_by_path(&r"bridge01\audit".parse().unwrap()).await, Ok(None));
    assert_eq!(directory.queue_by_path(&r"bridge02\orders".parse().unwrap()).await, Ok(None));
}

/// The digests are those of MSMQ, so that certificates are found that Windows has listed: MD5 over the whole DER.
#[test]
fn certificates_are_listed_by_their_md5() {
    assert_eq!(digest(b"").to_string(), "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!(digest(b"abc").to_string(), "900150983cd24fb0d6963f7d28e17f72");
}

#[test]
fn absent_and_unavailable_are_different_answers() {
    let down = Unavailable { reason: "no answer from ldaps://dc1 for 10s".to_owned() };
    assert_eq!(down.to_string(), "the directory can't be asked: no answer from ldaps://dc1 for 10s");
    // A file that was read is never unavailable, not even when it is gone.
    let site = Site::new(ALICE);
    let directory = site.open();
    std::fs::remove_file(site.file()).unwrap();
    let answer = directory.user_by_sid(&sid("S-1-5-21-9-9-9-9")).now_or_never().expect("nothing to wait for");
    assert_eq!(answer, Ok(None));
}

#[tokio::test]
async fn a_new_reading_replaces_the_old_one_or_leaves_it_alone() {
    let site = Site::new(ALICE);
    let directory = site.open();
    let clone = directory.clone();
    let before = directory.snapshot();

    site.write("directory.toml", "[[user]]\nsid = 7\n");
    assert!(directory.reload(&|_| None).is_err());
    assert!(Arc::ptr_eq(&before, &directory.snapshot()), "what was right stays in force");
    assert!(directory.user_by_sid(&sid("S-1-5-21-1-2-3-1104")).await.unwrap().is_some());

    site.write("directory.toml", WIN01);
    directory.reload(&|_| None).unwrap();
    assert_eq!(clone.user_by_sid(&sid("S-1-5-21-1-2-3-1104")).await, Ok(None), "clones see it too");
    assert!(clone.machine_by_name("win01").await.unwrap().is_some());
    assert_eq!(before.users().len(), 1, "whoever holds an old answer keeps it");
}
