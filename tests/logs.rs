//! The log is the monitor: one event, one line, whatever is in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mqbridge::config::{LogConfig, LogFormat, LogLevel};
use mqbridge::telemetry::log::{self, LogHandle, Sink};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;

/// A log in virtual time, in memory.
struct Log {
    handle: LogHandle,
    memory: Memory,
    now: Arc<Mutex<Timestamp>>,
    dispatch: tracing::Dispatch,
}

#[derive(Clone)]
struct Memory {
    lines: Arc<Mutex<Vec<String>>>,
    /// Lines it has room for.
    room: Arc<Mutex<usize>>,
}

impl Sink for Memory {
    fn put(&self, line: String) -> bool {
        let mut room = self.room.lock().unwrap();
        if *room == 0 {
            return false;
        }
        *room -= 1;
        self.lines.lock().unwrap().push(line);
        true
    }

    fn flush(&self, _: Duration) {}
}

impl Log {
    fn new(config: LogConfig) -> Self {
        let memory = Memory { lines: Arc::default(), room: Arc::new(Mutex::new(usize::MAX)) };
        let now = Arc::new(Mutex::new("2026-11-30T06:22:23.123Z".parse().unwrap()));
        let clock = Arc::clone(&now);
        let (layer, handle) = log::layer(&config, &["noisy"], memory.clone(), move || *clock.lock().unwrap());
        let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
        Self { handle, memory, now, dispatch }
    }

    fn text() -> Self {
        Self::new(LogConfig::default())
    }

    fn json() -> Self {
        Self::new(LogConfig { format: LogFormat::Json, ..LogConfig::default() })
    }

    /// Does something that logs, and gives the lines.
    fn lines(&self, act: impl FnOnce()) -> Vec<String> {
        tracing::dispatcher::with_default(&self.dispatch, act);
        self.taken()
    }

    fn taken(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.memory.lines.lock().unwrap());
        for line in &lines {
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "one event, one line: {line:?}");
        }
        lines.into_iter().map(|line| line.trim_end_matches('\n').to_owned()).collect()
    }

    fn objects(&self, act: impl FnOnce()) -> Vec<Value> {
        self.lines(act).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn set_level(&self, level: LogLevel) {
        // With a single subscriber, `tracing` asks the one of the thread.
        tracing::dispatcher::with_default(&self.dispatch, || self.handle.set_level(level));
    }

    fn pass(&self, time: SignedDuration) {
        *self.now.lock().unwrap() += time;
    }
}

fn refuse(route: &str) {
    tracing::warn!(event = "message_refused", route = %route, "refused a message");
}

#[test]
fn text_is_one_readable_line() {
    let lines = Log::text().lines(|| {
        let class = "NACK_BAD_DST_Q";
        tracing::warn!(
            event = "message_refused", route = %"orders", class = %class, queue = %r"private$\orders", attempt = 3,
            elapsed_ms = 1.5, reason = "no such queue", redelivered = false, label = "", "refused a message"
        );
        tracing::info!(event = "started");
        tracing::error!(event = "store_failed", answer = "a=b", path = %r#"C:\a "b""#, "the store failed");
    });
    assert_eq!(
        lines,
        [
            "2026-11-30T06:22:23.123Z  WARN message_refused route=orders class=NACK_BAD_DST_Q queue=private$\\orders attempt=3 \
         elapsed_ms=1.5 reason=\"no such queue\" redelivered=false label=\"\"  refused a message",
            "2026-11-30T06:22:23.123Z  INFO started",
            "2026-11-30T06:22:23.123Z ERROR store_failed answer=\"a=b\" path=\"C:\\\\a \\\"b\\\"\"  the store failed",
        ]
    );
}

#[test]
fn json_is_flat_and_keeps_types() {
    let objects = Log::json().objects(|| {
        tracing::warn!(
            event = "message_refused", route = %"orders", attempt = 3, offset = -7_i64, big = u64::MAX, ratio = 0.5,
            endless = f64::INFINITY, redelivered = true, reason = ?Some("x"), r#type = "a", "refused {} message", "a"
        );
        tracing::info!(event = "started");
    });
    assert_eq!(
        objects[0],
        json!({
            "ts": "2026-11-30T06:22:23.123Z", "level": "warn", "event": "message_refused", "route": "orders", "attempt": 3,
            "offset": -7, "big": u64::MAX, "ratio": 0.5, "endless": "inf", "redelivered": true, "reason": "Some(\"x\")",
            "type": "a", "message": "refused a message",
        })
    );
    assert_eq!(objects[1], json!({ "ts": "2026-11-30T06:22:23.123Z", "level": "info", "event": "started" }));
    let first = Log::json().lines(|| refuse("orders")).remove(0);
    assert!(
        first.starts_with("{\"ts\":\"2026-11-30T06:22:23.123Z\",\"level\":\"warn\",\"event\":\"message_refused\","),
        "{first}"
    );
}

#[test]
fn no_peer_can_forge_a_line() {
    let hostile = [
        "a\n2026-11-30T06:22:23.123Z ERROR forged",
        "\r\x1b[2J\x07\x00",
        "\u{85}\u{9b}31m",
        "\u{2028}\u{2029}",
        "\u{202E}gnp.exe\u{2066}",
        "\"},{\"level\":\"error\"",
        "\\\" \\u0000 \u{1F4A9} ä",
        "\u{7f}",
    ];
    for value in hostile {
        let (text, json) = (Log::text(), Log::json());
        let act = || tracing::warn!(event = "message_refused", label = %value, reason = value, "{value}");
        for line in text.lines(act).iter().chain(&json.lines(act)) {
            assert!(
                !line.chars().any(|character| {
                    character.is_control() || matches!(character, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
                }),
                "{line:?}"
            );
        }
        let objects = json.objects(act);
        assert_eq!(objects.len(), 1);
        assert_eq!(
            (&objects[0]["label"], &objects[0]["reason"], &objects[0]["message"]),
            (&json!(value), &json!(value), &json!(value))
        );
    }
}

#[test]
fn fields_can_not_take_the_place_of_ours() {
    let objects = Log::json().objects(|| {
        tracing::warn!(event = "x", ts = "never", level = 7, "a message");
    });
    assert_eq!(
        objects[0],
        json!({
            "ts": "2026-11-30T06:22:23.123Z", "level": "warn", "event": "x", "ts_": "never", "level_": 7, "message": "a message",
        })
    );
}

#[test]
fn long_values_are_cut() {
    /// Writes for ever, unless it is stopped.
    struct Endless;
    impl std::fmt::Debug for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            loop {
                f.write_str("ä")?;
            }
        }
    }
    let lines = Log::json().lines(|| tracing::warn!(event = "x", a = ?Endless, b = "ä".repeat(100_000)));
    assert!(lines[0].len() < 5000, "{}", lines[0].len());
    let object: Value = serde_json::from_str(&lines[0]).unwrap();
    assert!(object["a"].as_str().unwrap().ends_with("ä…") && object["b"].as_str().unwrap().ends_with("ä…"));
}

#[test]
fn libraries_speak_up_only_when_something_is_wrong_and_never_show_a_message() {
    let log = Log::text();
    let speak = || {
        tracing::warn!(target: "lapin::returned", message = "returned", body = ?b"s3cret", frame = %"s3cret", error = %"x y", channel = 7);
        tracing::info!(target: "lapin", "connected");
        tracing::debug!(target: "lapin", response = "s3cret", "start-ok");
        tracing::trace!(target: "lapin", command = ?"s3cret", "frame");
        tracing::debug!(event = "ours", reason = "y");
    };
    let warning = "2026-11-30T06:22:23.123Z  WARN lapin::returned error=\"x y\" channel=7  returned";
    assert_eq!(log.lines(speak), [warning]);
    log.set_level(LogLevel::Trace);
    assert_eq!(
        log.lines(speak),
        [
            warning,
            "2026-11-30T06:22:23.123Z  INFO lapin  connected",
            "2026-11-30T06:22:23.123Z DEBUG lapin  start-ok",
            "2026-11-30T06:22:23.123Z TRACE lapin  frame",
            "2026-11-30T06:22:23.123Z DEBUG ours reason=y",
        ]
    );
}

#[test]
fn the_level_changes_while_running() {
    let log = Log::text();
    let speak = || {
        tracing::error!(event = "e");
        tracing::warn!(event = "w");
        tracing::info!(event = "i");
        tracing::debug!(event = "d");
        tracing::trace!(event = "t");
    };
    for (level, shown) in
        [(LogLevel::Info, 3), (LogLevel::Error, 1), (LogLevel::Trace, 5), (LogLevel::Warn, 2), (LogLevel::Debug, 4)]
    {
        log.set_level(level);
        assert_eq!(log.handle.level(), level);
        assert_eq!(log.lines(speak).len(), shown, "{level:?}");
    }
}

#[test]
fn repeats_are_counted_by_event_and_route() {
    let log = Log::text();
    let lines = log.lines(|| {
        for _ in 0..25 {
            refuse("orders");
            refuse("prices");
        }
        tracing::warn!(event = "session_refused", "no more room");
    });
    assert_eq!(lines.len(), 21, "ten of each route, and another event");

    log.pass(SignedDuration::from_millis(9_999));
    assert_eq!(log.lines(|| refuse("orders")), [] as [&str; 0], "the window is not over");
    log.pass(SignedDuration::from_millis(1));
    let lines = log.lines(|| refuse("orders"));
    assert_eq!(
        lines,
        [
            "2026-11-30T06:22:33.123Z  WARN message_refused route=orders suppressed=16  more lines like this were left out",
            "2026-11-30T06:22:33.123Z  WARN message_refused route=prices suppressed=15  more lines like this were left out",
            "2026-11-30T06:22:33.123Z  WARN message_refused route=orders  refused a message",
        ]
    );
    // A window that nothing was left out of ends without a word.
    log.pass(SignedDuration::from_secs(60));
    assert_eq!(log.lines(|| refuse("orders")).len(), 1);
}

#[test]
fn counts_are_shown_on_request_and_at_the_end() {
    let log = Log::json();
    let refuse_many = || (0..13).for_each(|_| refuse("orders"));
    assert_eq!(log.lines(refuse_many).len(), 10);
    log.handle.settle();
    assert_eq!(log.taken(), [] as [&str; 0], "not due yet");
    log.pass(SignedDuration::from_secs(10));
    log.handle.settle();
    let counted = log.taken();
    let object: Value = serde_json::from_str(&counted[0]).unwrap();
    assert_eq!(
        object,
        json!({
            "ts": "2026-11-30T06:22:33.123Z", "level": "warn", "event": "message_refused", "route": "orders", "suppressed": 3,
            "message": "more lines like this were left out",
        })
    );
    log.handle.settle();
    assert_eq!(log.taken(), [] as [&str; 0], "once");

    assert_eq!(log.lines(refuse_many).len(), 10);
    log.handle.flush();
    assert_eq!(log.taken().len(), 1, "at the end nothing stays uncounted");
}

#[test]
fn sessions_that_come_and_go_are_limited_and_hide_no_warning() {
    let log = Log::new(LogConfig { repeat_limit: 2, ..LogConfig::default() });
    let lines = log.lines(|| {
        for _ in 0..50 {
            tracing::info!(event = "session_opened", peer = %"10.1.2.3:4");
            tracing::info!(event = "session_closed", peer = %"10.1.2.3:4");
        }
        tracing::warn!(event = "session_closed", peer = %"10.1.2.3:4");
    });
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[4].contains(" WARN session_closed"), "{lines:?}");
    log.pass(SignedDuration::from_secs(10));
    log.handle.settle();
    let counted = log.taken();
    assert_eq!(counted.len(), 2, "{counted:?}");
    assert!(counted[0].contains(" INFO session_closed suppressed=48"), "{counted:?}");
    assert!(counted[1].contains(" INFO session_opened suppressed=48"), "{counted:?}");
}

#[test]
fn state_changes_summaries_and_messages_are_not_limited() {
    let log = Log::new(LogConfig { level: LogLevel::Debug, repeat_limit: 1, ..LogConfig::default() });
    let lines = log.lines(|| {
        for _ in 0..50 {
            tracing::info!(event = "route_summary", route = %"orders");
            tracing::debug!(event = "message_stored", route = %"orders");
            tracing::error!(event = "store_failed");
        }
    });
    assert_eq!(lines.len(), 101);
}

#[test]
fn the_worst_level_counts_and_a_clock_that_goes_back_ends_the_window() {
    let log = Log::new(LogConfig { repeat_limit: 1, ..LogConfig::default() });
    let lines = log.lines(|| {
        refuse("orders");
        refuse("orders");
        tracing::error!(event = "message_refused", route = %"orders");
    });
    assert_eq!(lines.len(), 1);
    log.pass(SignedDuration::from_hours(-1));
    assert_eq!(
        log.lines(|| refuse("orders")),
        [
            "2026-11-30T05:22:23.123Z ERROR message_refused route=orders suppressed=2  more lines like this were left out",
            "2026-11-30T05:22:23.123Z  WARN message_refused route=orders  refused a message",
        ]
    );
}

#[test]
fn lines_that_find_no_room_are_counted() {
    let log = Log::text();
    *log.memory.room.lock().unwrap() = 1;
    let state_changes = || (0..4).for_each(|_| tracing::info!(event = "x"));
    assert_eq!(log.lines(state_changes).len(), 1);
    *log.memory.room.lock().unwrap() = 10;
    assert_eq!(
        log.lines(|| tracing::info!(event = "y")),
        [
            "2026-11-30T06:22:23.123Z  INFO y",
            "2026-11-30T06:22:23.123Z  WARN log_lines_lost lost=3  stderr was not read for too long",
        ]
    );
}

/// Runs the test below in a process of its own, with this standard error.
fn in_own_process(stderr: Stdio) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_log_of_a_process", "--nocapture"])
        .env("MQBRIDGE_TEST_LOG", "1")
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap()
}

/// Does nothing unless another test runs it in a process of its own.
#[test]
fn the_log_of_a_process() {
    if std::env::var_os("MQBRIDGE_TEST_LOG").is_none() {
        return;
    }
    std::panic::set_hook(Box::new(|_| std::process::exit(1)));
    let handle = log::init(&LogConfig { format: LogFormat::Json, ..LogConfig::default() }, &[]).unwrap();
    assert!(matches!(log::init(&LogConfig::default(), &[]), Err(log::LogError::AlreadyStarted)));
    for number in 0..20_000 {
        tracing::info!(event = "counted", number, filler = %"x".repeat(400), "a line");
    }
    handle.flush();
    // Tells the parent by the exit code that nothing panicked and nothing hung.
    std::process::exit(42);
}

#[test]
fn a_process_logs_to_stderr_and_loses_nothing_that_is_read() {
    let mut child = in_own_process(Stdio::piped());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));
    let numbers: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|object| object["number"].as_u64())
        .collect();
    let lost: u64 = text.matches("\"lost\":").count() as u64;
    assert!(numbers.is_sorted(), "lines keep their order");
    assert!(lost > 0 || numbers.len() == 20_000, "{} lines, and nothing was said of the others", numbers.len());
    assert!(numbers.len() > 5_000, "{}", numbers.len());
}

#[test]
fn a_stderr_that_is_broken_stops_nothing() {
    // Nobody at the other end.
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    assert_eq!(in_own_process(writer.into()).wait().unwrap().code(), Some(42));
    // No space left.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(in_own_process(full.into()).wait().unwrap().code(), Some(42));
    // Somebody who doesn't read: 20 000 lines are far more than a pipe holds.
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"x").unwrap();
    assert_eq!(in_own_process(writer.into()).wait().unwrap().code(), Some(42));
    drop(reader);
}

#[test]
fn a_library_that_prints_messages_is_heard_at_no_level() {
    let say = || {
        tracing::error!(target: "noisy::channels", "what we log in our own words");
        tracing::warn!(target: "noisier", "something else");
    };
    let log = Log::text();
    let lines = log.lines(say);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("noisier"));
    let log = Log::new(LogConfig { level: LogLevel::Debug, ..LogConfig::default() });
    assert_eq!(log.lines(say).len(), 1);
}

#[test]
fn whoever_asks_whether_a_level_is_shown_is_told() {
    for (level, shown) in [(LogLevel::Debug, true), (LogLevel::Info, false)] {
        let log = Log::new(LogConfig { level, ..LogConfig::default() });
        log.lines(|| assert_eq!(tracing::enabled!(tracing::Level::DEBUG), shown));
    }
}
