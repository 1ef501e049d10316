//! Numbers of bytes, as people write and read them.

pub use barn_layout::bytes::human;
pub use barn_server::options::Bytes;
