//! Certificates and keys, in every form that people have them in.

use mqbridge::directory::PublicKeys;
use mqbridge::security::{PrivateKey, PublicKey};

use super::{KEY_PEM, Site, certificate, key_blob, pem};

fn certificates(bytes: impl AsRef<[u8]>) -> Result<Vec<u8>, String> {
    let site = Site::new("[[user]]\nsid = \"S-1-1-0\"\nname = \"x\"\ncertificates = [\"file\"]\n");
    site.write("file", bytes);
    let problems = site.problems();
    if problems.is_empty() { Ok(site.read().users()[0].certificates[0].to_vec()) } else { Err(problems.concat()) }
}

fn keys(key_files: &str, bytes: impl AsRef<[u8]>) -> Result<PublicKeys, String> {
    let site = Site::new(&format!(
        "[[machine]]\nguid = \"c778ca24-7c5a-4060-80c0-aeee428d53ae\"\nname = \"x\"\nkey_files = {key_files}\n"
    ));
    site.write("file", bytes);
    let problems = site.problems();
    if problems.is_empty() { Ok(site.read().machines()[0].keys.clone()) } else { Err(problems.concat()) }
}

#[test]
fn a_certificate_is_der_or_pem() {
    let der = certificate("carol");
    let text = pem("CERTIFICATE", &der);
    assert_eq!(certificates(&der).as_ref(), Ok(&der));
    assert_eq!(certificates(&text).as_ref(), Ok(&der));
    assert_eq!(certificates(text.replace('\n', "\r\n")).as_ref(), Ok(&der), "as Windows writes it");
    assert_eq!(certificates(format!("subject=CN = carol\n\n{text}\n")).as_ref(), Ok(&der), "as openssl prints it");
    let with_letters = certificate("-----BEGIN CERTIFICATE-----");
    assert_eq!(certificates(&with_letters).as_ref(), Ok(&with_letters));

    for (bytes, why) in [
        (vec![], "is not a certificate"),
        (der[..der.len() - 1].to_vec(), "is not a certificate"),
        ([&der[..], b"x"].concat(), "is not a certificate"),
        (b"certificate".to_vec(), "is not a certificate"),
        (KEY_PEM.into(), "is not a certificate"),
        (pem("CERTIFICATE", b"no certificate").into(), "is not a certificate"),
        (pem("PRIVATE KEY", &der).into(), "holds a private key"),
        (text.repeat(2).into(), "more than one certificate"),
        (text.replace("END", "FIN").into(), "is not PEM"),
        (vec![0x30; (64 << 10) + 1], "is longer than 64 KiB"),
    ] {
        let error = certificates(&bytes).unwrap_err();
        assert!(error.contains("file") && error.contains(why), "{why}: {error}");
    }
}

#[test]
fn a_key_is_pem_or_publickeyblob_for_all_providers_or_for_each() {
    let key = PublicKey::from_pem(KEY_PEM).unwrap();
    assert_eq!(key.bits(), 1024);
    for bytes in [KEY_PEM.as_bytes(), KEY_PEM.replace('\n', "\r\n").as_bytes(), &key_blob()] {
        assert_eq!(keys("[\"file\"]", bytes), Ok(PublicKeys::all(key.clone())));
    }
    let base_alone = PublicKeys { base: Some(key.clone()), ..PublicKeys::default() };
    assert_eq!(keys("{ base = \"file\" }", KEY_PEM), Ok(base_alone));
    assert_eq!(
        keys("{ base = \"key.pem\", enhanced = \"key.blob\", aes = \"file\" }", key_blob()),
        Ok(PublicKeys::all(key))
    );
    assert_eq!(keys("[]", ""), Ok(PublicKeys::default()));

    let private = PrivateKey::generate(&mut rand::rng()).unwrap().to_pem().unwrap();
    for (key_files, bytes, why) in [
        ("[\"file\"]", private.as_bytes(), "holds a private key"),
        ("[\"file\"]", &key_blob()[1..], "neither PEM (BEGIN PUBLIC KEY) nor a PUBLICKEYBLOB"),
        ("{ aes = \"file\" }", b"", "machine.key_files.aes: "),
        ("{ rsa = \"file\" }", b"", "machine.key_files.rsa: unknown key"),
        ("\"file\"", b"", "a list of strings is expected"),
    ] {
        let error = keys(key_files, bytes).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
}
