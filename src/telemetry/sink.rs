use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Where lines go.
pub trait Sink: Send + Sync {
    /// Takes a line, which ends in a newline. `false` when there is no room for it. Never waits.
    fn put(&self, line: String) -> bool;

    /// Waits until everything taken so far is written, but no longer than `patience`.
    fn flush(&self, patience: Duration);
}

/// Writes lines on a thread of its own, so that a pipe that nobody reads holds up the log and nothing else.
pub(super) struct Background {
    queue: Arc<Queue>,
}

/// Bytes of lines that may wait for the thread. When there are more the reader has been away for a while, and the
/// lines that don't fit are counted instead.
const MAX_WAITING: usize = 4 << 20;

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Something has come, or everything is written.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    bytes: usize,
    is_writing: bool,
    is_closed: bool,
}

impl Background {
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let of_thread = Arc::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || of_thread.write_to(out))?;
        Ok(Self { queue })
    }
}

impl Sink for Background {
    fn put(&self, line: String) -> bool {
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.bytes + line.len() > MAX_WAITING {
            return false;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.queue.changed.notify_all();
        true
    }

    fn flush(&self, patience: Duration) {
        let state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = |state: &mut State| !state.lines.is_empty() || state.is_writing;
        drop(self.queue.changed.wait_timeout_while(state, patience, is_busy));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}

impl Queue {
    fn write_to(&self, mut out: impl Write) {
        while let Some(lines) = self.next_lines() {
            for line in lines {
                write_line(&mut out, line.as_bytes());
            }
        }
    }

    /// Waits for lines. `None` once there will be no more.
    fn next_lines(&self) -> Option<VecDeque<String>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_writing = false;
        self.changed.notify_all();
        let has_nothing = |state: &mut State| state.lines.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(state, has_nothing).unwrap_or_else(PoisonError::into_inner);
        if state.lines.is_empty() {
            return None;
        }
        state.is_writing = true;
        state.bytes = 0;
        Some(std::mem::take(&mut state.lines))
    }
}

/// Writes a line as far as it goes. A log that can't be written has nobody to complain to.
fn write_line(out: &mut impl Write, mut rest: &[u8]) {
    // Standard error may be shared with somebody who made it non-blocking.
    const PATIENCE: Duration = Duration::from_millis(10);
    let mut attempts_left = 100;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return,
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && attempts_left > 0 => {
                attempts_left -= 1;
                thread::sleep(PATIENCE);
            }
            Err(_) => return,
        }
    }
}
