//! Numbers of bytes, as people write and read them.

pub use crate::machine::bytes as human;
pub use barn_server::options::Bytes;
