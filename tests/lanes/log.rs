//! What each test's thread has logged.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One log for all threads, before any of them logs: whether a line is wanted is decided once for all of them.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| ThisThread).init());
}

/// Takes the lines of this thread, from `info` up, that have this in them; the others are forgotten.
pub(crate) fn take_lines(what: &str) -> Vec<String> {
    let text = String::from_utf8(TEXT.take()).unwrap();
    text.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
}

struct ThisThread;

impl Write for ThisThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TEXT.with_borrow_mut(|text| text.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
