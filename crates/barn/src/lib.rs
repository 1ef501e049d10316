//! A distributed in-memory data platform whose clients read remote memory directly.
#![forbid(unsafe_code)]
