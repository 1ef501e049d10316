//! The handle that applications hold.

use crate::connect::Connect;
use crate::error::Error;
use crate::node::{Node, NodeConfig};
use crate::object::{self, Ref, Value};
use crate::space::Spaces;
use crate::transaction::Tx;
use barn_fabric::{block_on, block_on_alone};
use barn_transaction::{Attempts, Client, Object, Pointer, RunOptions, Stats};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A way into a cluster's shared memory. Clones are the same, and cheap; threads may share one, though
/// each does better with its own connection.
///
/// A handle outlives the nodes: when one is lost, or the whole cluster is started again at the same
/// address, reads and whatever else comes to the same end when it is done twice go on until their
/// deadline ([`Connect::deadline`], [`Connect::retry`]); what may have been done or not is reported as
/// such and never repeated.
#[derive(Clone)]
pub struct Barn {
    client: Client,
    /// Its client of spaces, once somebody has asked for one. Before the node: its session ends first.
    spaces: Arc<OnceLock<Spaces>>,
    /// The node that was started for it, if one was: it stops with the last handle.
    embedded: Option<Arc<Node>>,
}

impl fmt::Debug for Barn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Barn({:?}{})", self.client, if self.embedded.is_some() { ", embedded" } else { "" })
    }
}

impl Barn {
    /// Starts a node inside this process, with defaults, and connects to it. Other processes of this
    /// user can join in: see [`Barn::address`].
    pub fn embedded() -> Result<Self, Error> {
        Self::embedded_with(NodeConfig::embedded())
    }

    /// Starts a node inside this process and connects to it.
    pub fn embedded_with(config: NodeConfig) -> Result<Self, Error> {
        let node = Node::start(config)?;
        let address = node.address().ok_or_else(|| Error::Node("the node listens nowhere".into()))?;
        let mut barn = Connect::new().to(&address)?;
        barn.embedded = Some(Arc::new(node));
        Ok(barn)
    }

    /// Connects to a node, and through it to its cluster: `shm:PATH` or `tcp://HOST:PORT`.
    pub fn connect(address: &str) -> Result<Self, Error> {
        Connect::new().to(address)
    }

    pub(crate) fn over(client: Client) -> Self {
        Self { client, embedded: None, spaces: Arc::default() }
    }

    /// The same, as futures.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same, whose operations through this handle may take so long, all in all.
    #[must_use = "the handle itself keeps its deadline"]
    pub fn deadline(&self, deadline: Duration) -> Self {
        // Spaces have the deadline of their first use: theirs are of another kind.
        Self {
            client: self.client.with_deadline(deadline),
            embedded: self.embedded.clone(),
            spaces: self.spaces.clone(),
        }
    }

    /// What was read, changed, and done again through this handle and its clones. No node sees
    /// one-sided reads: they are counted here alone.
    pub fn stats(&self) -> Stats {
        self.client.stats().now()
    }

    /// Namespaces of raw bytes, striped over the nodes' memory: see [`crate::space`].
    pub fn spaces(&self) -> &Spaces {
        self.spaces.get_or_init(|| Spaces::over(&self.client))
    }

    /// Where other processes connect to an embedded node.
    pub fn address(&self) -> Option<String> {
        self.embedded.as_ref()?.address()
    }

    /// Runs a transaction, again while others are in its way. The closure may run several times: it
    /// reads and writes through what it is given, and does nothing else that cannot be done twice. All
    /// attempts together have the handle's deadline.
    pub fn transaction<T>(&self, body: impl FnMut(&mut Tx) -> Result<T, Error>) -> Result<T, Error> {
        let deadline = self.client.deadline();
        self.transaction_with(RunOptions { deadline, ..RunOptions::default() }, body)
    }

    /// Runs a transaction with bounds of one's own on the attempts.
    pub fn transaction_with<T>(
        &self,
        options: RunOptions,
        mut body: impl FnMut(&mut Tx) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut attempts = Attempts::new(&self.client, options);
        loop {
            let mut tx = Tx { inner: self.client.begin_attempt(&attempts) };
            let outcome = body(&mut tx);
            if let Some(done) = block_on_alone(self.client.finish(&mut tx.inner, outcome, &mut attempts)) {
                return Ok(done?);
            }
            drop(tx);
            block_on(attempts.next::<Error>(&self.client))?;
        }
    }

    /// Begins a transaction that is committed by hand.
    pub fn begin(&self) -> Tx {
        Tx { inner: self.client.begin() }
    }

    /// Reads an object: one READ, no lock, no question to the node.
    pub fn read(&self, pointer: Pointer) -> Result<Object, Error> {
        Ok(block_on_alone(self.client.read(pointer))?)
    }

    /// Reads several objects as they were at one moment.
    pub fn read_all(&self, pointers: &[Pointer]) -> Result<Vec<Object>, Error> {
        Ok(block_on(self.client.read_all(pointers))?)
    }

    /// Reads objects, those that stand side by side by one READ together; each is whole, though they
    /// need not be of one moment.
    pub fn read_array(&self, pointers: &[Pointer]) -> Result<Vec<Object>, Error> {
        Ok(block_on(self.client.read_array(pointers))?)
    }

    /// Makes an object of bytes.
    pub fn alloc(&self, bytes: &[u8]) -> Result<Pointer, Error> {
        self.transaction(|tx| tx.alloc(bytes))
    }

    /// Replaces an object's bytes, which keep their length.
    pub fn write(&self, pointer: Pointer, bytes: &[u8]) -> Result<(), Error> {
        self.transaction(|tx| tx.write(pointer, bytes))
    }

    /// Frees an object.
    pub fn free(&self, pointer: Pointer) -> Result<(), Error> {
        self.transaction(|tx| tx.free(pointer))
    }

    /// Makes an object of a type.
    #[allow(
        clippy::new_ret_no_self,
        clippy::wrong_self_convention,
        reason = "it makes an object, not a Barn"
    )]
    pub fn new<T: Value>(&self, value: &T) -> Result<Ref<T>, Error> {
        self.transaction(|tx| tx.new(value))
    }

    /// Reads an object of a type.
    pub fn load<T: Value>(&self, object: Ref<T>) -> Result<T, Error> {
        Ok(block_on(object::read(&self.client, object))?)
    }

    /// Changes an object of a type, whatever it held.
    pub fn store<T: Value>(&self, object: Ref<T>, value: &T) -> Result<(), Error> {
        self.transaction(|tx| tx.store(object, value))
    }

    /// Runs a function of the node that holds `near`, next to that object; gives what it returns.
    pub fn call(&self, function: &str, near: Pointer, argument: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(block_on(self.client.call(function, near, argument))?)
    }
}
