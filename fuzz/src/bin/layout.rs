//! Bytes as every struct of the layout, through what checks them.

#![no_main]

use barn_layout::channel::ChannelShape;
use barn_layout::frame::{Frame, FrameHeader, Outcome};
use barn_layout::handshake::{Authentication, Refusal, ShmHello, TcpChallenge};
use barn_layout::message::{Kind, MessageHeader, Status};
use barn_layout::{Address, RegionId};
use libfuzzer_sys::fuzz_target;
use zerocopy::{FromBytes, IntoBytes};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, _)) = FrameHeader::read_from_prefix(bytes)
        && let Ok(frame) = Frame::check(&header)
    {
        let (least, most) = frame.kind.body_bounds();
        assert!((least..=most).contains(&frame.body_bytes));
        assert_eq!(Frame::check(&frame.header()), Ok(frame));
        let _ = Outcome::from_bits(frame.status);
    }
    if let Ok((header, _)) = MessageHeader::read_from_prefix(bytes) {
        assert_eq!(MessageHeader::from_words(header.to_words()).as_bytes(), header.as_bytes());
        let _ = (Kind::from_bits(header.kind), Status::from_bits(header.status));
    }
    if let Ok((hello, _)) = ShmHello::read_from_prefix(bytes)
        && let Some(shape) = ChannelShape::new(hello.ring_bytes.get() as usize, hello.window.get() as usize)
    {
        assert!(shape.inbound_bytes() > shape.ring_bytes && shape.outbound_bytes() > shape.inbound_ring());
    }
    if let Ok((challenge, _)) = TcpChallenge::read_from_prefix(bytes) {
        let _ = (
            Refusal::from_bits(challenge.status.get()),
            Authentication::from_bits(challenge.authentication.get()),
        );
    }
    if let Ok((bits, rest)) = u64::read_from_prefix(bytes) {
        let address = Address::from_bits(bits);
        assert_eq!(Address::new(address.region(), address.offset()), address);
        let add = rest.first().copied().map_or(0, u32::from) << 24;
        if let Some(further) = address.checked_add(add) {
            assert_eq!(further.region(), RegionId((bits >> 32) as u32));
            assert!(further.offset() >= address.offset());
        }
    }
});
