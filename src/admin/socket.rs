//! The control socket: one request a line, one answer a line, both JSON. Owner only.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
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
            tokio::spawn(async move {
                match tokio::time::timeout(PATIENCE, answer(stream, &view)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        tracing::debug!(event = "control_failed", reason = %error, "a control connection broke");
                    }
                    Err(_) => tracing::debug!(
                        event = "control_failed",
                        reason = "too slow",
                        "a control connection was dropped"
                    ),
                }
            });
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A file that stays is replaced at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(stream: UnixStream, view: &View) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader.take(MAX_REQUEST)).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match serde_json::from_str(&line) {
            Ok(Request::Status) => {
                serde_json::to_value(view.report()).map(|report| serde_json::json!({ "ok": report }))
            }
            Err(error) => Ok(serde_json::json!({ "error": format!("not a request: {error}") })),
        };
        let mut text = answer.map_err(io::Error::other)?.to_string();
        text.push('\n');
        writer.write_all(text.as_bytes()).await?;
    }
    Ok(())
}

/// Asks a running bridge for its status.
pub async fn ask_status(path: &Path) -> Result<StatusReport, AskError> {
    let answer = ask(path, Request::Status).await?;
    serde_json::from_value(answer).map_err(|_| AskError::Unknown { socket: path.display().to_string() })
}

async fn ask(path: &Path, request: Request) -> Result<serde_json::Value, AskError> {
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
    let mut answer: serde_json::Value =
        serde_json::from_str(&answer).map_err(|_| AskError::Unknown { socket: socket() })?;
    match answer.get_mut("ok").map(serde_json::Value::take) {
        Some(answer) => Ok(answer),
        None => Err(AskError::Refused(
            answer.get("error").and_then(|error| error.as_str()).unwrap_or("no answer").to_owned(),
        )),
    }
}
