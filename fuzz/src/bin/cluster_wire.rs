//! Bytes as requests to and answers from the coordinator: what is taken comes out as it went in.

#![no_main]

use barn_cluster::wire::{decode_request, decode_response, encode_request, encode_response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = decode_request(bytes) {
        assert_eq!(decode_request(&encode_request(&request)).as_ref(), Ok(&request));
    }
    if let Ok(response) = decode_response(bytes) {
        assert_eq!(decode_response(&encode_response(&response)).as_ref(), Ok(&response));
    }
});
