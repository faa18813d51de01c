//! One connection that many calls share: their commands go out one after the other, and the replies come back in the
//! same order.
//!
//! A task of its own reads and writes. A call that is given up only stops listening: its reply is read and thrown away,
//! so nobody ever gets another's. When the server is silent for longer than the timeout while something is owed, or
//! anything comes that nobody asked for, the connection is closed and everybody who waits is told.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};

use super::stream::{self, Stream};
use crate::error::{Error, Result, StoreErrorKind};
use crate::metrics;
use crate::store::dsn::Address;
use crate::store::redis::connection::Failure;
use crate::store::redis::fault;
use crate::store::redis::resp::{self, Expected, Parsed, Reply};
use crate::store::redis::setup::SetUp;
use crate::store::redis::tls::Tls;

/// Calls that wait to be sent, at most; more wait before they queue.
const QUEUE: usize = 4096;

/// What is written in one go, at most.
const MAX_WRITE: usize = 64 * 1024;

pub(super) type Replies = SmallVec<[Reply; 1]>;

pub(super) type Outcome<R> = std::result::Result<R, Failure>;

/// A way to the task that has the connection.
#[derive(Debug)]
pub(super) struct Link {
    requests: mpsc::Sender<Request>,
}

/// Commands, and who waits for their replies.
#[derive(Debug)]
struct Request {
    commands: Vec<u8>,
    replies: usize,
    expected: Expected,
    answer: oneshot::Sender<Outcome<Replies>>,
}

impl Link {
    /// Connects within `limit`, sets the connection up, and leaves it to a task of the runtime.
    pub(super) async fn open(
        address: &Address,
        tls: Option<&Tls>,
        set_up: &SetUp<'_>,
        limit: Duration,
        silence: Duration,
    ) -> Result<Self> {
        let opened = timeout(limit, async {
            let stream = stream::connect(address, tls).await;
            let stream = stream.map_err(|error| fault::connecting(address, &error, limit))?;
            let mut driver = Driver::new(stream, address.clone(), silence);
            for step in set_up.steps() {
                let mut commands = Vec::new();
                step.write(&mut commands);
                step.check(address, &driver.alone(&commands, step.expected()).await?)?;
            }
            Ok(driver)
        });
        let driver = opened.await.map_err(|_| fault::late_connection(address, limit))??;
        metrics::count_connection();
        let (requests, queue) = mpsc::channel(QUEUE);
        tokio::spawn(driver.run(queue));
        Ok(Self { requests })
    }

    /// Sends commands and waits for their replies. Nothing has been sent when it fails with `NotSent`.
    pub(super) async fn exchange(&self, commands: Vec<u8>, replies: usize, expected: Expected) -> Outcome<Replies> {
        let (answer, answered) = oneshot::channel();
        let started = Instant::now();
        let gone = || Failure::NotSent(Error::unavailable(StoreErrorKind::Closed, "the connection is closed"));
        self.requests.send(Request { commands, replies, expected, answer }).await.map_err(|_| gone())?;
        let outcome = answered.await.unwrap_or_else(|_| Err(gone()));
        if outcome.is_ok() {
            metrics::observe(started.elapsed());
        }
        outcome
    }

    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// The task that has the connection.
struct Driver {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    address: Address,
    silence: Duration,
    /// Bytes to be written, and how many have been written of all that ever were.
    out: Vec<u8>,
    written: u64,
    accepted: u64,
    arrived: Vec<u8>,
    /// Who waits, in the order of the commands.
    waiting: VecDeque<Waiting>,
    heard: Instant,
}

struct Waiting {
    /// How many bytes had been accepted before this one's.
    begins: u64,
    missing: usize,
    replies: Replies,
    expected: Expected,
    answer: oneshot::Sender<Outcome<Replies>>,
}

impl Driver {
    fn new(stream: Box<dyn Stream>, address: Address, silence: Duration) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader,
            writer,
            address,
            silence,
            out: Vec::new(),
            written: 0,
            accepted: 0,
            arrived: Vec::with_capacity(4096),
            waiting: VecDeque::new(),
            heard: Instant::now(),
        }
    }

    /// One exchange before there are others.
    async fn alone(&mut self, commands: &[u8], expected: Expected) -> Result<Reply> {
        let broken = |error: &io::Error| fault::broken(&self.address, error, self.silence);
        self.writer.write_all(commands).await.map_err(|error| broken(&error))?;
        loop {
            if self.reader.read_buf(&mut self.arrived).await.map_err(|error| broken(&error))? == 0 {
                return Err(broken(&io::ErrorKind::UnexpectedEof.into()));
            }
            match resp::parse(&self.arrived, expected) {
                Parsed::Complete(reply, length) if length == self.arrived.len() => {
                    self.arrived.clear();
                    return Ok(reply);
                }
                Parsed::Incomplete => {}
                Parsed::Complete(..) | Parsed::Invalid => {
                    return Err(fault::protocol(
                        &self.address,
                        "with something unknown while it was being connected to",
                    ));
                }
            }
        }
    }

    /// Serves the queue until nobody is left who could ask, or the connection fails.
    async fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        let error = self.serve(&mut queue).await;
        queue.close();
        let error = error
            .unwrap_or_else(|| fault::broken(&self.address, &io::ErrorKind::ConnectionAborted.into(), self.silence));
        for waiting in self.waiting.drain(..) {
            // Whoever is gone is not told.
            let _ = waiting.answer.send(Err(if waiting.begins >= self.written {
                Failure::NotSent(error.clone())
            } else {
                Failure::Unknown(error.clone())
            }));
        }
        while let Some(request) = queue.recv().await {
            let _ = request.answer.send(Err(Failure::NotSent(error.clone())));
        }
    }

    async fn serve(&mut self, queue: &mut mpsc::Receiver<Request>) -> Option<Error> {
        loop {
            let owes = !self.waiting.is_empty();
            let silent_at = (self.heard + self.silence).into();
            let writes = !self.out.is_empty();
            let broken = |error: &io::Error| fault::broken(&self.address, error, self.silence);
            tokio::select! {
                read = self.reader.read_buf(&mut self.arrived) => match read {
                    Ok(0) => return Some(broken(&io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {
                        if let Err(error) = self.hear() {
                            return Some(error);
                        }
                    }
                    Err(error) => return Some(broken(&error)),
                },
                wrote = self.writer.write(&self.out), if writes => match wrote {
                    Ok(0) => return Some(broken(&io::ErrorKind::WriteZero.into())),
                    Ok(count) => {
                        self.out.drain(..count);
                        self.written += count as u64;
                    }
                    Err(error) => return Some(broken(&error)),
                },
                request = queue.recv(), if !writes => match request {
                    Some(request) => {
                        self.accept(request);
                        while self.out.len() < MAX_WRITE
                            && let Ok(request) = queue.try_recv()
                        {
                            self.accept(request);
                        }
                    }
                    // Everybody has left; what is still owed is nobody's any more.
                    None => return None,
                },
                () = sleep_until(silent_at), if owes => {
                    return Some(fault::late_answer(&self.address, self.silence));
                }
            }
        }
    }

    fn accept(&mut self, request: Request) {
        // Given up before it was sent: it is not sent at all.
        if request.answer.is_closed() {
            return;
        }
        if self.waiting.is_empty() {
            self.heard = Instant::now();
        }
        self.waiting.push_back(Waiting {
            begins: self.accepted,
            missing: request.replies,
            replies: Replies::new(),
            expected: request.expected,
            answer: request.answer,
        });
        self.accepted += request.commands.len() as u64;
        self.out.extend_from_slice(&request.commands);
    }

    /// Hands out the replies that have arrived.
    fn hear(&mut self) -> Result<()> {
        self.heard = Instant::now();
        let mut read = 0;
        while read < self.arrived.len() {
            let unasked = || fault::protocol(&self.address, "with a reply that nobody asked for");
            let Some(waiting) = self.waiting.front_mut() else { return Err(unasked()) };
            match resp::parse(&self.arrived[read..], waiting.expected) {
                Parsed::Complete(reply, length) => {
                    read += length;
                    waiting.replies.push(reply);
                    waiting.missing -= 1;
                    if waiting.missing == 0
                        && let Some(done) = self.waiting.pop_front()
                    {
                        let _ = done.answer.send(Ok(done.replies));
                    }
                }
                Parsed::Incomplete => break,
                Parsed::Invalid => return Err(fault::protocol(&self.address, "with what is no reply to a decision")),
            }
        }
        self.arrived.drain(..read);
        Ok(())
    }
}
