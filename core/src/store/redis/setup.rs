//! What a new connection is told before its first decision.

use ::redis::{Cmd, cmd};

use super::fault;
use super::resp::{Expected, Reply};
use crate::error::Result;
use crate::store::dsn::{Address, Protocol, RedisOptions, Secret};

/// Who asks, and for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetUp<'a> {
    pub(super) username: Option<&'a str>,
    pub(super) password: Option<&'a Secret>,
    pub(super) database: u32,
    pub(super) protocol: Protocol,
    pub(super) client_name: Option<&'a str>,
    /// Whether the server has to be a primary: who was one when a sentinel was asked may have become a replica.
    pub(super) of_primary: bool,
}

/// One command, and what it has to be answered with.
pub(super) struct Step {
    command: Cmd,
    answer: Answer,
}

enum Answer {
    Ok,
    /// What the server says of itself, with the protocol that was asked for.
    Greeting,
    /// The role, or that this user may not know it.
    Primary,
}

impl<'a> SetUp<'a> {
    /// For a data server.
    pub(super) fn of_data(options: &'a RedisOptions, of_primary: bool) -> Self {
        Self {
            username: options.username.as_deref(),
            password: options.password.as_ref(),
            database: options.database,
            protocol: options.protocol,
            client_name: options.client_name.as_deref(),
            of_primary,
        }
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let step = |command: &Cmd, answer| Step { command: command.clone(), answer };
        let mut steps = Vec::new();
        match self.protocol {
            Protocol::Resp2 => {
                if let Some(password) = self.password {
                    let mut auth = cmd("AUTH");
                    // Without a name the form that servers before 6.0 know as well.
                    if let Some(username) = self.username {
                        auth.arg(username);
                    }
                    steps.push(step(auth.arg(password.reveal()), Answer::Ok));
                }
            }
            Protocol::Resp3 => {
                let mut hello = cmd("HELLO");
                hello.arg(3);
                if let Some(password) = self.password {
                    hello.arg("AUTH").arg(self.username.unwrap_or("default")).arg(password.reveal());
                }
                steps.push(step(&hello, Answer::Greeting));
            }
        }
        if let Some(name) = self.client_name {
            steps.push(step(cmd("CLIENT").arg("SETNAME").arg(name), Answer::Ok));
        }
        if self.database != 0 {
            steps.push(step(cmd("SELECT").arg(self.database), Answer::Ok));
        }
        if self.of_primary {
            steps.push(step(&cmd("ROLE"), Answer::Primary));
        }
        steps.into_iter()
    }
}

impl Step {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.command.get_packed_command());
    }

    pub(super) fn expected(&self) -> Expected {
        match self.answer {
            Answer::Ok => Expected::Answer,
            Answer::Greeting | Answer::Primary => Expected::Report,
        }
    }

    pub(super) fn check(&self, address: &Address, reply: &Reply) -> Result<()> {
        match (&self.answer, reply) {
            (Answer::Ok, Reply::Status(status)) if status == b"OK" => Ok(()),
            (Answer::Greeting, Reply::List(_)) => Ok(()),
            // Without the right to ask, a replica is found out by its refusal to write.
            (Answer::Primary, Reply::Error(line)) if line.starts_with(b"NOPERM") => Ok(()),
            (Answer::Primary, Reply::List(role)) => match role.first() {
                Some(Reply::Bulk(role)) if role.as_slice() == b"master" => Ok(()),
                _ => Err(fault::server(address, b"READONLY it is a replica, though the sentinels name it")),
            },
            (_, Reply::Error(line)) => Err(fault::server(address, line)),
            _ => Err(fault::protocol(address, "with something unknown while it was being connected to")),
        }
    }
}
