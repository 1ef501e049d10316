//! Placeholder of a test file.
