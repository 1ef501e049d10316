//! Bytes as requests to and answers from the master of spaces, and as passes: what is taken comes out as it
//! went in, and a pass that nobody made out is not true.

#![no_main]

use barn_space::pass::{SECRET_BYTES, Secret};
use barn_space::wire::{
    decode_pass, decode_request, decode_response, encode_pass, encode_request, encode_response,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = decode_request(bytes) {
        assert_eq!(decode_request(&encode_request(&request)).as_ref(), Ok(&request));
    }
    if let Ok(response) = decode_response(bytes) {
        assert_eq!(decode_response(&encode_response(&response)).as_ref(), Ok(&response));
    }
    if let Ok(pass) = decode_pass(bytes) {
        assert_eq!(decode_pass(&encode_pass(&pass)).as_ref(), Ok(&pass));
        assert!(!Secret::new([7; SECRET_BYTES]).is_true(&pass));
    }
});
