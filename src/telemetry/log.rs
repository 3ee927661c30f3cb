//! The log: one event, one line, on stderr.
//!
//! # How to write a line
//! ```
//! # let (route, class, why) = ("orders", "NACK_BAD_DST_Q", "no such queue");
//! tracing::warn!(event = "message_refused", route = %route, class = %class, reason = why, "refused a message");
//! ```
//! comes out as
//!
//! ```text
//! 2026-11-30T06:22:23.123Z  WARN message_refused route=orders class=NACK_BAD_DST_Q reason="no such queue"  refused a message
//! {"ts":"2026-11-30T06:22:23.123Z","level":"warn","event":"message_refused","route":"orders",…,"message":"refused a message"}
//! ```
//!
//! `event` is the stable name of what happened. Lines without one come from libraries: they get their target for a
//! name, are shown from WARN up unless the level is `debug` or `trace`, and keep only the fields that can't hold a
//! message or a password. Control characters in values are escaped, so that no peer can forge a line; values are cut at
//! 2 KiB.
//!
//! # What is limited
//! WARN and ERROR lines, by event and route: the first `repeat_limit` in ten seconds are shown, the others counted, and
//! the count follows as one line with `suppressed` once the ten seconds are over and anything else is logged or
//! [`LogHandle::settle`] is called. So are the INFO lines that any sender can bring about as often as it likes: sessions
//! that are opened and closed. Other INFO lines are not limited: each is a state change or a summary, and the summary is
//! what operators watch. Nor are DEBUG lines: whoever asks for every message gets every message.
//!
//! # What it costs
//! A line is formatted by whoever logs it and written by a thread of its own. When stderr takes nothing for so long that
//! 4 MiB of lines wait, further lines are lost and counted; nobody else is held up.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::config::{LogConfig, LogFormat, LogLevel};

use super::limit::{Limiter, Subject, Suppressed};
use super::line::{Line, Value};
use super::sink::Background;
pub use super::sink::Sink;

/// Why the log can't be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is one already.
    #[error("the log was started before")]
    AlreadyStarted,
    /// The thread that writes it.
    #[error("the log's thread can't be started: {0}")]
    Thread(io::Error),
}

/// Starts the log of the process on stderr.
///
/// `quiet` names the targets of libraries that are never heard, at no level: they repeat what the bridge logs in words of
/// their own, and print messages with their bodies.
pub fn init(config: &LogConfig, quiet: &'static [&'static str]) -> Result<LogHandle, LogError> {
    let sink = Background::start(io::stderr()).map_err(LogError::Thread)?;
    let (layer, handle) = layer(config, quiet, sink, Timestamp::now);
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadyStarted)?;
    Ok(handle)
}

/// The log as a layer, with a sink and a clock of the caller's choice.
pub fn layer(
    config: &LogConfig,
    quiet: &'static [&'static str],
    sink: impl Sink + 'static,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> (LogLayer, LogHandle) {
    let log = Arc::new(Log {
        format: config.format,
        level: AtomicU8::new(rank(config.level)),
        quiet,
        limiter: Mutex::new(Limiter::new(config.repeat_limit)),
        lost: AtomicU64::new(0),
        sink: Box::new(sink),
        clock: Box::new(clock),
    });
    (LogLayer(Arc::clone(&log)), LogHandle(log))
}

/// A running log. Cheap to clone.
#[derive(Clone)]
pub struct LogHandle(Arc<Log>);

impl LogHandle {
    /// The least important lines that are shown.
    pub fn level(&self) -> LogLevel {
        self.0.level()
    }

    /// Changes that, from the next line on.
    pub fn set_level(&self, level: LogLevel) {
        self.0.level.store(rank(level), Ordering::Relaxed);
        // Every place that logs remembers whether it is listened to.
        tracing::callsite::rebuild_interest_cache();
    }

    /// Shows the counts of suppressed lines that are due, for when nothing else is logged.
    pub fn settle(&self) {
        let now = (self.0.clock)();
        let due = self.0.limiter().take_over(now);
        self.0.show_suppressed(due, now);
    }

    /// Shows all counts and waits until everything is written, for two seconds at most. To be called before the
    /// process ends.
    pub fn flush(&self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let all = self.0.limiter().take_all();
        self.0.show_suppressed(all, (self.0.clock)());
        self.0.sink.flush(PATIENCE);
    }
}

impl fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogHandle").field("level", &self.level()).finish_non_exhaustive()
    }
}

/// What `tracing` hands its events to.
#[derive(Clone)]
pub struct LogLayer(Arc<Log>);

impl fmt::Debug for LogLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLayer")
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // Somebody who only asks whether a level is shown is no event, and no span either.
        !metadata.is_span() && self.0.shows(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(level_of(self.0.level())))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Formatted before any lock is taken: printing a value may log something itself.
        let line = Line::of(event, is_ours(event.metadata()));
        self.0.put(&line);
    }
}

struct Log {
    format: LogFormat,
    level: AtomicU8,
    quiet: &'static [&'static str],
    limiter: Mutex<Limiter>,
    /// Lines that the sink had no room for.
    lost: AtomicU64,
    sink: Box<dyn Sink>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Log {
    fn level(&self) -> LogLevel {
        let rank_now = self.level.load(Ordering::Relaxed);
        LEVELS.into_iter().find(|level| rank(*level) == rank_now).unwrap_or(LogLevel::Info)
    }

    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        let level = self.level();
        // `tracing` orders levels by how much they show.
        *metadata.level() <= level_of(level) && (is_ours(metadata) || self.is_worth_a_line(metadata, level))
    }

    /// Whether a line of a library is shown.
    fn is_worth_a_line(&self, metadata: &Metadata<'_>, level: LogLevel) -> bool {
        let is_quiet = |quiet: &&str| metadata.target().split("::").next() == Some(*quiet);
        !self.quiet.iter().any(is_quiet) && (*metadata.level() <= Level::WARN || level >= LogLevel::Debug)
    }

    fn put(&self, line: &Line) {
        let now = (self.clock)();
        let mut limiter = self.limiter();
        let due = limiter.take_over(now);
        let is_info = line.level == Level::INFO;
        let is_limited = line.level <= Level::WARN || (is_info && AT_WILL.contains(&line.event.as_str()));
        let is_shown = !is_limited || {
            let route = line.text("route").map(str::to_owned);
            let subject = Subject { event: line.event.clone(), route, is_info };
            limiter.admit(now, line.level, subject)
        };
        drop(limiter);
        self.show_suppressed(due, now);
        if is_shown {
            self.show(line, now);
        }
    }

    fn show_suppressed(&self, suppressed: Vec<Suppressed>, now: Timestamp) {
        for Suppressed { subject, level, count } in suppressed {
            let route = subject.route.map(|route| ("route".to_owned(), Value::Text(route)));
            let count = ("suppressed".to_owned(), Value::Number(count.to_string()));
            let fields = route.into_iter().chain([count]).collect();
            let message = "more lines like this were left out".to_owned();
            self.show(&Line { level, event: subject.event, fields, message }, now);
        }
    }

    fn show(&self, line: &Line, now: Timestamp) {
        if !self.sink.put(line.render(self.format, now)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let line = Line {
                level: Level::WARN,
                event: "log_lines_lost".to_owned(),
                fields: vec![("lost".to_owned(), Value::Number(lost.to_string()))],
                message: "stderr was not read for too long".to_owned(),
            };
            if !self.sink.put(line.render(self.format, now)) {
                self.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
    }

    fn limiter(&self) -> std::sync::MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// INFO lines that a sender can bring about as often as it likes.
const AT_WILL: [&str; 2] = ["session_opened", "session_closed"];

/// Whether a line has a stable name, which those of libraries don't.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.fields().field("event").is_some()
}

const LEVELS: [LogLevel; 5] = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

const fn rank(level: LogLevel) -> u8 {
    level as u8
}

const fn level_of(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}
