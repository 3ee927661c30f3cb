use tokio::sync::watch;

/// The word to stop, for everybody who waits for something.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// Gives the word. Dropped, it has been given.
#[derive(Debug)]
pub struct StopSwitch(watch::Sender<bool>);

impl StopSwitch {
    /// A switch and the word that it gives.
    pub fn new() -> (Self, Stop) {
        let (switch, word) = watch::channel(false);
        (Self(switch), Stop(word))
    }

    /// Stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the word. Cancel safe; comes at once when it was given before.
    pub async fn requested(&mut self) {
        // An error says that the switch is gone, and everything with it.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether the word was given.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}
