//! FaRM's section 3.5: a lock-free read of an object, beside a transaction that reads the same.

use std::io;
use std::sync::Arc;

use barn::Pointer;

use crate::bench::papers::clients::OfObjects;
use crate::bench::papers::crowd::{Client, Crowd};
use crate::bench::papers::lab::Lab;
use crate::bench::papers::stores::Stores;

const OBJECTS: usize = 10_000;
const OBJECT_BYTES: usize = 64;
/// Turns while READs and messages are counted.
const COUNTED: usize = 500;

/// Both in turn; and what one lock-free read takes.
pub(in crate::bench::papers) fn reads(lab: &mut Lab<'_>) -> io::Result<()> {
    let stores = Stores::start(lab.quick, 0)?;
    let barn = stores.connect("shm")?;
    let objects: Result<Vec<Pointer>, _> = (0..OBJECTS).map(|_| barn.alloc(&[7; OBJECT_BYTES])).collect();
    let objects = Arc::new(objects.map_err(io::Error::other)?);
    let reader = |transaction| -> io::Result<OfObjects> {
        Ok(OfObjects { barn: stores.connect("shm")?, objects: objects.clone(), transaction, step: 0 })
    };
    let crowds = vec![
        Crowd::one("farm/lock-free/rate", reader(false)?),
        Crowd::one("farm/transaction/rate", reader(true)?),
    ];
    lab.measure(crowds)?;
    let mut counted = reader(false)?;
    // The first asks where the memory is.
    counted.turn()?;
    let before = counted.barn.stats();
    let mut done = 0;
    for _ in 0..COUNTED {
        done += counted.turn()?;
    }
    let after = counted.barn.stats();
    let each = |count: u64| vec![count as f64 / done as f64];
    lab.values.set("farm/lock-free/reads-per-operation", each(after.reads - before.reads));
    lab.values.set("farm/lock-free/messages-per-operation", each(after.messages - before.messages));
    Ok(())
}
