//! Messages in shared memory.
