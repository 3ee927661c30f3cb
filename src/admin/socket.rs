//! The control socket: one request a line, one answer a line, both JSON. Owner only.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::bridge::{StatusReport, View};
use crate::net::Stop;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// Everything `mqbridge status` shows.
    Status,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no bridge answers at {socket}: {source}; is \"mqbridge run\" running, and are you its user or root?")]
    NotRunning {
        /// The socket.
        socket: String,
        /// Why.
        source: io::Error,
    },
    /// It was cut off.
    #[error("the bridge at {socket} did not answer: {source}")]
    NoAnswer {
        /// The socket.
        socket: String,
        /// Why.
        source: io::Error,
    },
    /// It is of another version.
    #[error("the bridge at {socket} answers in words this version does not know; are both of one version?")]
    Unknown {
        /// The socket.
        socket: String,
    },
    /// It says no.
    #[error("{0}")]
    Refused(String),
}

/// The control socket can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the control socket {socket}: {source}")]
pub struct SocketError {
    /// The socket.
    pub socket: String,
    /// Why.
    pub source: io::Error,
}

/// The longest request.
const MAX_REQUEST: u64 = 64 * 1024;
/// For a whole conversation.
const PATIENCE: Duration = Duration::from_secs(10);

/// The socket of a running bridge; the file is removed at the end.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Opens the socket. A file left by a bridge that was killed is replaced; one that answers is not.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError { socket: path.display().to_string(), source };
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(failed(io::Error::new(io::ErrorKind::AddrInUse, "another bridge answers there")));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers until shutdown.
    pub async fn run(self, view: Arc<View>, mut shutdown: Stop) {
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(event = "control_failed", reason = %error, "a control connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = shutdown.requested() => return,
            };
            let view = Arc::clone(&view);
            tokio::spawn(attend(stream, move |request| perform(request, &view)));
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A file that stays is replaced at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A conversation, for as long as it may take.
async fn attend(stream: UnixStream, perform: impl Fn(Request) -> serde_json::Result<Value>) {
    match tokio::time::timeout(PATIENCE, converse(stream, perform)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(event = "control_failed", reason = %error, "a control connection broke");
        }
        Err(_) => tracing::debug!(event = "control_failed", reason = "too slow", "a control connection was dropped"),
    }
}

async fn converse(stream: UnixStream, perform: impl Fn(Request) -> serde_json::Result<Value>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = (&mut reader).take(MAX_REQUEST + 1).read_until(b'\n', &mut line).await?;
        if length == 0 {
            return Ok(());
        }
        let is_too_long = length as u64 > MAX_REQUEST;
        let answer = if is_too_long {
            json!({ "error": format!("a request has at most {MAX_REQUEST} bytes, its line feed among them") })
        } else {
            match serde_json::from_slice(&line) {
                Ok(request) => perform(request).map(|answer| json!({ "ok": answer })).map_err(io::Error::other)?,
                Err(error) => json!({ "error": format!("not a request: {error}") }),
            }
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
        if is_too_long {
            // Where the next request would begin is anybody's guess.
            return Ok(());
        }
    }
}

fn perform(request: Request, view: &View) -> serde_json::Result<Value> {
    match request {
        Request::Status => serde_json::to_value(view.report()),
    }
}

/// Asks a running bridge for its status.
pub async fn ask_status(path: &Path) -> Result<StatusReport, AskError> {
    let answer = ask(path, Request::Status).await?;
    serde_json::from_value(answer).map_err(|_| AskError::Unknown { socket: path.display().to_string() })
}

async fn ask(path: &Path, request: Request) -> Result<Value, AskError> {
    let socket = || path.display().to_string();
    let mut stream =
        UnixStream::connect(path).await.map_err(|source| AskError::NotRunning { socket: socket(), source })?;
    let conversation = async {
        let mut line = serde_json::to_string(&request).map_err(io::Error::other)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        stream.shutdown().await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, conversation)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing for {PATIENCE:?}"))))
        .map_err(|source| AskError::NoAnswer { socket: socket(), source })?;
    let mut answer: Value = serde_json::from_str(&answer).map_err(|_| AskError::Unknown { socket: socket() })?;
    match answer.get_mut("ok").map(Value::take) {
        Some(answer) => Ok(answer),
        None => Err(AskError::Refused(
            answer.get("error").and_then(|error| error.as_str()).unwrap_or("no answer").to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// What comes back for these bytes.
    async fn answers(bytes: &[u8]) -> Vec<Value> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let served = tokio::spawn(async { converse(ours, |_| Ok(json!("report"))).await });
        theirs.write_all(bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        served.await.unwrap().unwrap();
        let mut lines = BufReader::new(theirs).lines();
        let mut answers = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            answers.push(serde_json::from_str(&line).unwrap());
        }
        answers
    }

    #[tokio::test]
    async fn every_request_is_answered_and_what_is_none_with_a_sentence() {
        const STATUS: &[u8] = b"{\"command\":\"status\"}\n";
        let ok = || json!({ "ok": "report" });
        assert_eq!(answers(STATUS).await, [ok()]);
        assert_eq!(answers(&STATUS[..STATUS.len() - 1]).await, [ok()], "the last line needs no line feed");
        for oddity in [&b"\xFF\xFE\n"[..], b"\n", b"{\"command\":\"\xC3\x28\"}\n", b"GET / HTTP/1.1\r\n", b"\0\n"] {
            let answers = answers(&[oddity, STATUS].concat()).await;
            let sentence = answers[0]["error"].as_str().unwrap();
            assert!(sentence.starts_with("not a request: "), "{sentence}");
            assert_eq!(answers[1..], [ok()], "the next request is understood");
        }
    }

    #[tokio::test]
    async fn a_request_that_is_too_long_is_refused_and_not_kept() {
        let longest = format!("{:>width$}\n", "{\"command\":\"status\"}", width = MAX_REQUEST as usize - 1);
        assert_eq!(answers(longest.repeat(2).as_bytes()).await, [json!({ "ok": "report" }), json!({ "ok": "report" })]);
        let answers = answers(format!(" {longest}").as_bytes()).await;
        assert!(answers[0]["error"].as_str().unwrap().contains("at most 65536 bytes"), "{answers:?}");
        assert_eq!(answers.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_is_dropped() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let report = "x".repeat(1 << 20);
        let served = tokio::spawn(attend(ours, move |_| Ok(json!(report))));
        theirs.write_all(b"{\"command\":\"status\"}\n").await.unwrap();
        // Virtual time: what is never dropped is given up after a minute.
        tokio::time::timeout(Duration::from_mins(1), served).await.unwrap().unwrap();
    }
}
