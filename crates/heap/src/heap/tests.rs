//! Properties of the allocator, and what its callers rely on.

use super::*;
use crate::error::AllocError;

fn heap(regions: u32, region_mib: usize) -> Heap {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    for id in 1..=regions {
        heap.add_region(RegionId(id), Words::private(region_mib << 20)).unwrap();
    }
    heap
}

fn create(heap: &mut Heap, body: &[u8], hint: Option<Address>) -> Result<Reserved, AllocError> {
    let reserved = heap.reserve(body.len(), hint, Purpose::Objects)?;
    heap.create(reserved.address, body).unwrap();
    Ok(reserved)
}

fn free(heap: &mut Heap, object: Reserved) {
    let version = heap.header(object.address).unwrap().word.version();
    heap.lock(object.address, version, object.incarnation).unwrap();
    heap.free(object.address).unwrap();
}

#[test]
fn an_object_lives_and_dies() {
    let mut heap = heap(1, 4);
    let one = create(&mut heap, b"hello", None).unwrap();
    let mut body = Vec::new();
    let header = heap.read(one.address, &mut body).unwrap();
    assert_eq!((body.as_slice(), header.word.version(), header.allocated), (&b"hello"[..], 1, true));
    heap.lock(one.address, 1, one.incarnation).unwrap();
    assert_eq!(heap.lock(one.address, 1, one.incarnation), Err(ObjectError::Locked));
    assert_eq!(
        heap.write(one.address, b"other!").unwrap_err(),
        ObjectError::Length { bytes: 6, expected: 5 }
    );
    assert_eq!(heap.write(one.address, b"world"), Ok(2));
    assert_eq!(heap.lock(one.address, 1, one.incarnation), Err(ObjectError::Changed { version: 2 }));
    free(&mut heap, one);
    assert_eq!(heap.lock(one.address, 3, one.incarnation), Err(ObjectError::Freed));
    assert_eq!(heap.read(one.address, &mut body), Err(ObjectError::Freed));
    let two = create(&mut heap, b"again", None).unwrap();
    assert_eq!((two.address, two.incarnation), (one.address, one.incarnation + 1));
}
