//! Objects with a type: a value of fixed layout in the shared memory.

use barn_transaction::{Client, ClientError, Pointer, Transaction};
use std::fmt;
use std::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What can be an object: plain data, whose bytes mean the same to every process. Numbers and arrays
/// of them are; structs are with `zerocopy`'s derives.
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Account {
///     balance: i64,
///     transfers: u64,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let barn = barn::Barn::embedded()?;
/// let account = barn.new(&Account { balance: 100, transfers: 0 })?;
/// assert_eq!(barn.load(account)?.balance, 100);
/// # Ok(())
/// # }
/// ```
pub trait Value: FromBytes + IntoBytes + Immutable {}

impl<T: FromBytes + IntoBytes + Immutable> Value for T {}

/// A pointer to an object of a type. It can be stored, printed and sent as its [`Pointer`].
pub struct Ref<T> {
    pointer: Pointer,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<T> Eq for Ref<T> {}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref<{}>({})", std::any::type_name::<T>(), self.pointer)
    }
}

impl<T: Value> Ref<T> {
    /// The object that a pointer means, as one of this type; none if its length is another.
    pub fn from_pointer(pointer: Pointer) -> Option<Self> {
        (pointer.bytes as usize == size_of::<T>()).then_some(Self { pointer, of: PhantomData })
    }

    pub(crate) fn of(pointer: Pointer) -> Self {
        Self { pointer, of: PhantomData }
    }

    /// The pointer, without the type.
    pub fn pointer(self) -> Pointer {
        self.pointer
    }
}

/// The value of an object's bytes.
pub(crate) fn value<T: Value>(pointer: Pointer, bytes: &[u8]) -> Result<T, ClientError> {
    T::read_from_bytes(bytes).map_err(|_| ClientError::Length { pointer, bytes: bytes.len() })
}

/// Typed objects in transactions that are futures.
#[allow(async_fn_in_trait, reason = "implemented here only")]
pub trait TypedTransaction {
    /// Reads an object.
    async fn load<T: Value>(&mut self, object: Ref<T>) -> Result<T, ClientError>;
    /// Changes an object.
    async fn store<T: Value>(&mut self, object: Ref<T>, value: &T) -> Result<(), ClientError>;
    /// Makes an object, near to another if one is given.
    async fn new_object<T: Value>(&mut self, value: &T, near: Option<Pointer>)
    -> Result<Ref<T>, ClientError>;
}

impl TypedTransaction for Transaction {
    async fn load<T: Value>(&mut self, object: Ref<T>) -> Result<T, ClientError> {
        let bytes = self.read(object.pointer).await?;
        value(object.pointer, bytes)
    }

    async fn store<T: Value>(&mut self, object: Ref<T>, value: &T) -> Result<(), ClientError> {
        self.write(object.pointer, value.as_bytes()).await
    }

    async fn new_object<T: Value>(
        &mut self,
        value: &T,
        near: Option<Pointer>,
    ) -> Result<Ref<T>, ClientError> {
        Ok(Ref::of(self.alloc(value.as_bytes(), near).await?))
    }
}

/// Reads a typed object without a transaction.
pub(crate) async fn read<T: Value>(client: &Client, object: Ref<T>) -> Result<T, ClientError> {
    let bytes = client.read(object.pointer).await?;
    value(object.pointer, &bytes)
}
