//! What a completion belongs to: its role, its owner and its number, in 64 bits.
//!
//! The owner is a number that is not used again for long: what a queue pair that is gone had under
//! way is not taken for another's.

/// What a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A one-sided operation.
    Operation,
    /// A part of a ring that was pushed.
    Push,
    /// The peer has pushed.
    Pushed,
    /// A request of HERD's mode.
    Request,
    /// The peer rang about a request.
    Rung,
    /// A datagram that was sent.
    Datagram,
    /// A datagram that came.
    Came,
}

const ROLE_BITS: u32 = 4;
const NUMBER_BITS: u32 = 32;
/// Owners are told apart by so many bits.
pub(super) const OWNER_MASK: u32 = (1 << (64 - ROLE_BITS - NUMBER_BITS)) - 1;

pub(super) fn pack(role: Role, owner: u32, number: u32) -> u64 {
    u64::from(owner & OWNER_MASK) << (ROLE_BITS + NUMBER_BITS) | u64::from(number) << ROLE_BITS | role as u64
}

/// Role, owner and number; nothing for an id that nobody made.
pub(super) fn unpack(id: u64) -> Option<(Role, u32, u32)> {
    let roles =
        [Role::Operation, Role::Push, Role::Pushed, Role::Request, Role::Rung, Role::Datagram, Role::Came];
    let role = *roles.get((id & ((1 << ROLE_BITS) - 1)) as usize)?;
    Some((role, (id >> (ROLE_BITS + NUMBER_BITS)) as u32, (id >> ROLE_BITS) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        for role in
            [Role::Operation, Role::Push, Role::Pushed, Role::Request, Role::Rung, Role::Datagram, Role::Came]
        {
            for owner in [0, 1, OWNER_MASK] {
                for number in [0, 7, u32::MAX] {
                    assert_eq!(unpack(pack(role, owner, number)), Some((role, owner, number)));
                }
            }
        }
        assert_eq!(unpack(15), None);
    }
}
