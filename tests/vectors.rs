//! smoke
use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::wire::{Frame, FrameCutter, Packet, Ping};
#[test]
fn smoke() {
    let mut n = 0;
    for e in std::fs::read_dir("tests/fixtures/vectors").unwrap() {
        let p = e.unwrap().path();
        if p.extension().is_none_or(|x| x != "json") {
            continue;
        }
        let v: serde_json::Value = serde_json::from_slice(&std::fs::read(&p).unwrap()).unwrap();
        let hex = v["packet"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        let verdict = v["expect"]["verdict"].as_str().unwrap();
        n += 1;
        if v["transport"] == "udp" {
            assert_eq!(Ping::decode(&bytes).is_some(), verdict == "accept", "{p:?}");
            continue;
        }
        let mut buf = BytesMut::from(&bytes[..]);
        let r = FrameCutter::new(u32::MAX).cut(&mut buf);
        let r = match r {
            Ok(None) => {
                assert_eq!(verdict, "incomplete", "{p:?}");
                continue;
            }
            Ok(Some(f)) => Packet::decode(&f),
            Err(e) => Err(e),
        };
        match r {
            Ok(pk) => {
                assert!(matches!(verdict, "accept" | "reject" | "either"), "{p:?} {verdict}");
                assert!(buf.is_empty(), "{p:?}");
                let mut out = BytesMut::new();
                pk.encode(&mut out).unwrap();
                assert_eq!(&out[..], &bytes[..], "{p:?}");
                Frame::new(Bytes::from(bytes)).unwrap();
            }
            Err(e) => {
                println!("{:?} {} | {}", p.file_stem().unwrap(), e, v["expect"]["error"]["field"]);
                assert!(matches!(verdict, "malformed" | "either"), "{p:?} {e}");
            }
        }
    }
    println!("{n}");
}
