use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::config::{NotAQuantity, parse_time};
use crate::mqqb::wire::{FormatName, Guid, MessageId};
use crate::security::Cipher;

/// Arguments of `send`.
#[derive(Args, Clone, Debug)]
pub struct SendArgs {
    /// The queue, such as 'DIRECT=OS:bridge01\private$\orders'
    #[arg(long, value_name = "FORMATNAME", value_parser = FormatName::from_str)]
    pub to: FormatName,

    /// The machine to connect to, when it is not the one in the queue's name
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,

    /// Its port
    #[arg(long, value_name = "PORT", default_value_t = 1801)]
    pub port: u16,

    /// The label, at most 249 characters
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = label)]
    pub label: String,

    /// The body as text, sent as UTF-8
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,

    /// A file with the body, byte for byte, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,

    /// The type of the body as a number, such as 8 (text) or 0x1011 (bytes)
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = number)]
    pub body_type: u32,

    /// Whether the message survives a restart of the receiver
    #[arg(long, value_enum, default_value_t = Delivery::Recoverable)]
    pub delivery: Delivery,

    /// 0 to 7; higher ones are read first
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: u8,

    /// The message that this one answers, as GUID\NUMBER
    #[arg(long, value_name = "ID", value_parser = message_id)]
    pub correlation_id: Option<MessageId>,

    /// Where answers are to go
    #[arg(long, value_name = "FORMATNAME", value_parser = FormatName::from_str)]
    pub response_queue: Option<FormatName>,

    /// Where acknowledgments are to go
    #[arg(long, value_name = "FORMATNAME", value_parser = FormatName::from_str)]
    pub admin_queue: Option<FormatName>,

    /// A number of the application's own
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = number)]
    pub app_specific: u32,

    /// How long the message may take to the queue, such as 4d or infinite
    #[arg(long, value_name = "TIME", default_value = "infinite")]
    pub time_to_reach_queue: Lifetime,

    /// How long the message may take until somebody reads it, such as 1h or infinite
    #[arg(long, value_name = "TIME", default_value = "infinite")]
    pub time_to_be_received: Lifetime,

    /// A file with the extension, byte for byte
    #[arg(long, value_name = "FILE")]
    pub extension_file: Option<PathBuf>,

    /// Signs with this private key (PKCS#8 PEM) and its certificate (DER or PEM), SHA-256, without a sender id
    #[arg(long, value_name = "KEY,CERT", value_parser = SignWith::from_str)]
    pub sign: Option<SignWith>,

    /// Encrypts the body with aes128, aes192, aes256, rc2 or rc4 for the receiver's public key (PEM or PUBLICKEYBLOB)
    #[arg(long, value_name = "CIPHER,KEYFILE", value_parser = EncryptWith::from_str)]
    pub encrypt: Option<EncryptWith>,

    /// How many times it is sent
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,

    /// How long all of it may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub timeout: Duration,
}

/// `--delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Delivery {
    /// Kept in memory: lost when a machine on the way stops.
    Express,
    /// Kept on disk.
    Recoverable,
}

/// `--sign`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignWith {
    /// The private key.
    pub key: PathBuf,
    /// The certificate with its public half.
    pub certificate: PathBuf,
}

impl FromStr for SignWith {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(',') {
            Some((key, certificate)) if !key.is_empty() && !certificate.is_empty() => {
                Ok(Self { key: key.into(), certificate: certificate.into() })
            }
            _ => Err("two files are expected, such as alice.pem,alice.der"),
        }
    }
}

/// `--encrypt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptWith {
    /// The cipher.
    pub cipher: Cipher,
    /// The receiver's public key.
    pub key: PathBuf,
}

impl FromStr for EncryptWith {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "aes128, aes192, aes256, rc2 or rc4 and a file are expected, such as aes256,bridge01.pem";
        let (name, key) = text.split_once(',').filter(|(_, key)| !key.is_empty()).ok_or(EXPECTED)?;
        let cipher = Cipher::ALL.into_iter().find(|cipher| cipher.name().eq_ignore_ascii_case(name));
        Ok(Self { cipher: cipher.ok_or(EXPECTED)?, key: key.into() })
    }
}

/// How long a message is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For so long.
    For(Duration),
    /// For ever.
    Infinite,
}

impl FromStr for Lifetime {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        if text == "infinite" { Ok(Self::Infinite) } else { parse_time(text).map(Self::For) }
    }
}

/// Labels have at most 249 UTF-16 code units and a NUL.
fn label(text: &str) -> Result<String, String> {
    const MAX_UNITS: usize = 249;
    match text.encode_utf16().count() {
        0..=MAX_UNITS => Ok(text.to_owned()),
        units => Err(format!("a label has at most {MAX_UNITS} characters, not {units}")),
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Result<u32, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = hexadecimal.map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    number.map_err(|_| "a number of 32 bits is expected, decimal or hexadecimal with 0x".to_owned())
}

/// `guid\ordinal`, as .NET and our AMQP `message-id` write it; with braces, as COM does.
fn message_id(text: &str) -> Result<MessageId, String> {
    let parsed = text.split_once('\\').and_then(|(guid, ordinal)| {
        Some(MessageId { source: guid.parse::<Guid>().ok()?, ordinal: ordinal.parse().ok()? })
    });
    parsed.ok_or_else(|| "GUID\\NUMBER is expected, such as c778ca24-7c5a-4060-80c0-aeee428d53ae\\17".to_owned())
}
