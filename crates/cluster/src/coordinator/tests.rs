//! The coordinator, request by request.
