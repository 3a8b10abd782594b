//! Operations of the metadata thread: queries take turns with changes.
//!
//! Place: beside commit location. While thousands of chunks are rebuilt, thousands of commits wait,
//! each for the disk; a query must not wait for all of them. Changes that still wait have not been
//! acknowledged, so answering a query before them contradicts no acknowledged change.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::MetadataStore;

/// What the thread that owns the metadata is to run.
pub(super) type MetadataOperation = Box<dyn FnOnce(&mut MetadataStore) + Send>;

/// What the thread does next.
pub(super) enum Next {
    Operation(MetadataOperation),
    /// Nothing came for a while.
    Idle,
    /// All handles are dropped: no operation can come any more.
    Closed,
}

/// Operations that wait for the thread.
#[derive(Default)]
pub(super) struct OperationQueue {
    waiting: Mutex<WaitingOperations>,
    news: Condvar,
}

#[derive(Default)]
struct WaitingOperations {
    questions: VecDeque<MetadataOperation>,
    others: VecDeque<MetadataOperation>,
    /// Whether the last that was taken was a question.
    was_question: bool,
    is_closed: bool,
}

/// The way in; when the last one is dropped the thread ends.
pub(super) struct OperationSender(Arc<OperationQueue>);

impl OperationSender {
    /// The way in to a new queue, and the queue.
    pub(super) fn new() -> (Arc<OperationSender>, Arc<OperationQueue>) {
        let queue = Arc::new(OperationQueue::default());
        (Arc::new(OperationSender(queue.clone())), queue)
    }

    /// Queues an operation behind all others.
    pub(super) fn send(&self, operation: MetadataOperation) {
        self.0.waiting().others.push_back(operation);
        self.0.news.notify_one();
    }

    /// Queues a question, which waits for questions before it and as many other things.
    pub(super) fn ask(&self, question: MetadataOperation) {
        self.0.waiting().questions.push_back(question);
        self.0.news.notify_one();
    }
}

impl Drop for OperationSender {
    fn drop(&mut self) {
        self.0.waiting().is_closed = true;
        self.0.news.notify_one();
    }
}

impl OperationQueue {
    /// The next thing to do; waits for one that long.
    pub(super) fn next(&self, timeout: Duration) -> Next {
        let is_empty = |waiting: &mut WaitingOperations| {
            waiting.questions.is_empty() && waiting.others.is_empty() && !waiting.is_closed
        };
        let waited = self.news.wait_timeout_while(self.waiting(), timeout, is_empty);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match waiting.take() {
            Some(operation) => Next::Operation(operation),
            None if waiting.is_closed => Next::Closed,
            None => Next::Idle,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingOperations> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingOperations {
    fn take(&mut self) -> Option<MetadataOperation> {
        let is_others_turn = self.was_question || self.questions.is_empty();
        self.was_question = !is_others_turn || self.others.is_empty();
        if is_others_turn {
            self.others.pop_front().or_else(|| self.questions.pop_front())
        } else {
            self.questions.pop_front()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which order operations are taken, as letters: `q` a question, `w` any other.
    fn order(sent: &str) -> String {
        let taken = Arc::new(Mutex::new(String::new()));
        let mut waiting = WaitingOperations::default();
        for letter in sent.chars() {
            let taken = taken.clone();
            let operation: MetadataOperation =
                Box::new(move |_| taken.lock().unwrap().push(letter));
            if letter.is_ascii_lowercase() {
                waiting.questions.push_back(operation)
            } else {
                waiting.others.push_back(operation)
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let incomplete = super::super::Incomplete::Refuse;
        let mut store = MetadataStore::open(folder.path(), incomplete).unwrap();
        while let Some(operation) = waiting.take() {
            operation(&mut store);
        }
        let taken = taken.lock().unwrap();
        taken.clone()
    }

    #[test]
    fn a_question_waits_for_one_other_thing_at_most_and_keeps_none_waiting_for_ever() {
        assert_eq!(order("ABCDq"), "qABCD");
        assert_eq!(order("ABqrst"), "qArBst");
        assert_eq!(order("qrs"), "qrs");
        assert_eq!(order(""), "");
    }

    #[test]
    fn the_thread_ends_when_all_is_done_and_nobody_can_ask() {
        let (sender, queue) = OperationSender::new();
        sender.send(Box::new(|_| ()));
        assert!(matches!(queue.next(Duration::ZERO), Next::Operation(_)));
        assert!(matches!(queue.next(Duration::ZERO), Next::Idle));
        sender.ask(Box::new(|_| ()));
        drop(sender);
        assert!(matches!(queue.next(Duration::ZERO), Next::Operation(_)));
        assert!(matches!(queue.next(Duration::from_secs(60)), Next::Closed));
    }
}
