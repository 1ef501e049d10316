//! Cell's tree: keys in their order, in small nodes that clients read for themselves.
//!
//! A shard is a B-link tree of 1 KiB nodes. Each has its level's next node, and the fences between which its
//! keys lie, so that whoever comes to a node by what it remembers notices whether it is the right one, and goes
//! right or begins anew. The node alone changes the tree; a client goes down it by READs, one for each level,
//! or by one if it remembers the levels above the leaves, or asks the node.
//!
//! What always holds:
//! - a node is whole at every moment at which anybody can read it, and so is the tree: nodes that change
//!   together are all closed before the first of them is changed;
//! - a key is never missing on the way: a node that is divided keeps its lower half, and points to the upper one
//!   before its parent does;
//! - the root stays where it is: when it is full, its halves become new nodes and it points to both. There is
//!   nothing to be written down of a tree but where it begins, and nothing for clients to ask for anew.
//!
//! Cell divides trees into meganodes that move from machine to machine. Here the keys of a table are divided
//! among its shards by their hash, as in the other kinds, so that every node has its part of every range: a
//! range is put together from all shards.
//!
//! | file | what |
//! |---|---|
//! | `node.rs` | a node's bytes |
//! | `edit.rs` | changes of a node in place, and its halves |
//! | `owner.rs` | the node's side: finding and changing keys |
//! | `balance.rs` | nodes divided and put together |
//! | `walk.rs` | going through all of a tree: ranges, restarts, the end |
//! | `lookup.rs` | the client's side |

mod balance;
mod edit;
mod lookup;
mod node;
mod owner;
#[cfg(test)]
mod tests;
mod walk;

pub use lookup::{LeafPage, Roots};
pub use node::KEY_BYTES_MAX;
pub use owner::Owner;
