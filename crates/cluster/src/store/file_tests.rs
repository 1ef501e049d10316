//! The file through crashes, torn writes and other damage.
