//! Cell's locality selector.
