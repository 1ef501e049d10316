//! Turns registered regions into allocated, versioned objects.
#![forbid(unsafe_code)]
