//! From the thread that drives the connections to an event loop of Python's: the answers, many in one wake-up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use rustix::event::EventfdFlags;
use rustix::fd::{AsRawFd as _, OwnedFd};
use slab::Slab;

use crate::core::events::{Recorded, take};
use crate::core::{Error, aio};
use crate::error::raise;
use crate::events;
use crate::limiter::Limiter;

/// What makes a Python object of an answer. It holds nothing of Python's, and is run in the loop's thread.
type Read = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// An answer, with what there is to tell of it.
struct Answer {
    read: Read,
    events: Vec<Recorded>,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    future: Py<PyAny>,
    telling: Option<Telling>,
}

/// What is needed to tell of a call when its answer has arrived.
#[derive(Debug)]
pub(crate) struct Telling {
    limiter: Py<Limiter>,
    /// That of the task which made the call.
    context: Py<PyAny>,
    at_us: u64,
}

impl Telling {
    /// `None` where nobody hears of the limiter.
    pub(crate) fn of(limiter: &Bound<'_, Limiter>) -> PyResult<Option<Self>> {
        let py = limiter.py();
        if limiter.get().listeners().is_none() {
            return Ok(None);
        }
        let at_us = limiter.get().clock().told_us();
        Ok(Some(Self { limiter: limiter.clone().unbind(), context: events::copy_context(py)?, at_us }))
    }

    fn tell(&self, py: Python<'_>, events: Vec<Recorded>) -> PyResult<()> {
        let limiter = self.limiter.get();
        match limiter.listeners() {
            Some(listeners) => listeners.tell(limiter, events, self.at_us, Some(self.context.bind(py)), py),
            None => Ok(()),
        }
    }
}

/// Where the answers to one event loop's calls arrive. Private.
///
/// The loop watches the file descriptor and then has the answers delivered. That callback is what holds the mailbox, so
/// a loop that is closed closes it.
#[derive(Debug)]
#[pyclass(frozen, weakref, name = "_Mailbox", module = "ratelimit_rs._native")]
pub(crate) struct Mailbox {
    create_future: Py<PyAny>,
    /// The calls under way, by number. Only the loop's thread has a use for them.
    waiting: Mutex<Slab<Call>>,
    post: Arc<Post>,
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new(r#loop: &Bound<'_, PyAny>) -> PyResult<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags).map_err(|error| PyOSError::new_err(error.raw_os_error()))?;
        Ok(Self {
            create_future: r#loop.getattr(intern!(r#loop.py(), "create_future"))?.unbind(),
            waiting: Mutex::default(),
            post: Arc::new(Post { bell, answers: Mutex::default() }),
        })
    }

    /// The file descriptor that is readable when answers have arrived.
    fn fileno(&self) -> i32 {
        self.post.bell.as_raw_fd()
    }

    /// Gives each answer that has arrived to its future. One that was cancelled gets none.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let mut delivered = Ok(());
        for (number, answer) in self.post.collect() {
            let Some(call) = self.waiting().try_remove(number) else { continue };
            let outcome = deliver(py, &call, answer);
            delivered = delivered.and(outcome);
        }
        delivered
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.create_future)?;
        // Nobody collects while the lock is held, but this must not wait in any case.
        let Ok(waiting) = self.waiting.try_lock() else { return Ok(()) };
        waiting.iter().try_for_each(|(_, call)| {
            visit.call(&call.future)?;
            let Some(telling) = &call.telling else { return Ok(()) };
            visit.call(&telling.limiter)?;
            visit.call(&telling.context)
        })
    }
}

impl Mailbox {
    /// Begins work on the runtime of this process. The future that is returned gets what `read` makes of its outcome.
    ///
    /// The work goes on when the future is cancelled; nobody hears of its outcome then.
    pub(crate) fn begin<'py, R: Send + 'static>(
        &self,
        py: Python<'py>,
        work: impl Future<Output = R> + Send + 'static,
        read: impl FnOnce(Python<'_>, R) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.begin_told(py, None, work, read)
    }

    /// [`begin`](Self::begin) for a call that may be told, which it is also when the future is cancelled.
    pub(crate) fn begin_told<'py, R: Send + 'static>(
        &self,
        py: Python<'py>,
        telling: Option<Telling>,
        work: impl Future<Output = R> + Send + 'static,
        read: impl FnOnce(Python<'_>, R) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.create_future.bind(py).call0()?;
        let number = self.waiting().insert(Call { future: future.clone().unbind(), telling });
        let mut ticket = Ticket { number, post: Some(self.post.clone()) };
        let begun = aio::spawn(async move {
            let outcome = work.await;
            // At once: the thread may do another's work next.
            let events = take();
            ticket.answer(Answer { read: Box::new(move |py| read(py, outcome)), events });
        });
        if let Err(error) = begun {
            // The ticket has been given back unanswered.
            self.post.answers().retain(|(other, _)| *other != number);
            self.waiting().try_remove(number);
            return Err(raise(&error));
        }
        Ok(future)
    }

    fn waiting(&self) -> MutexGuard<'_, Slab<Call>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deliver(py: Python<'_>, call: &Call, answer: Answer) -> PyResult<()> {
    let future = call.future.bind(py);
    let told = call.telling.as_ref().map_or(Ok(()), |telling| telling.tell(py, answer.events));
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return told;
    }
    match told.and_then(|()| (answer.read)(py)) {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
        Err(raised) => future.call_method1(intern!(py, "set_exception"), (raised,)),
    }
    .map(drop)
}

/// The part of a mailbox that is filled without the interpreter.
struct Post {
    /// Rung when the first of several answers arrives.
    bell: OwnedFd,
    answers: Mutex<Vec<(usize, Answer)>>,
}

impl Post {
    fn put(&self, number: usize, answer: Answer) {
        let is_first = {
            let mut answers = self.answers();
            answers.push((number, answer));
            answers.len() == 1
        };
        if is_first {
            // It fails only when it has been rung 2^64 times.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// The answers that have arrived. The bell is silent first: whatever arrives later rings it again.
    fn collect(&self) -> Vec<(usize, Answer)> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.answers())
    }

    fn answers(&self) -> MutexGuard<'_, Vec<(usize, Answer)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("bell", &self.bell).finish_non_exhaustive()
    }
}

/// The right to answer one call, which is answered also when the work on it ends in a panic.
struct Ticket {
    number: usize,
    post: Option<Arc<Post>>,
}

impl Ticket {
    fn answer(&mut self, answer: Answer) {
        if let Some(post) = self.post.take() {
            post.put(self.number, answer);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let given_up = || Error::internal("the call was given up by the thread of the connections");
        self.answer(Answer { read: Box::new(move |_| Err(raise(&given_up()))), events: Vec::new() });
    }
}
