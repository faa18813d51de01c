//! Help for the tests: real Redis servers, files that processes share, the shared vectors, faults on the wire.

pub mod certificates;

pub mod cluster;

pub mod histories;

pub mod random;

pub mod sentinel;

pub mod server;

pub mod shared;

pub mod storm;

pub mod vectors;

pub mod windows;

pub mod wire;

pub use server::RedisServer;
pub use shared::SharedFile;
