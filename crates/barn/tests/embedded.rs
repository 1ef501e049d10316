//! What applications do with one embedded node, and what they are told when it does not work.

use barn::node::{Node, NodeConfig};
use barn::{Barn, ClientError, CommitError, Error, FunctionError, Functions, RunOptions, TypedTransaction};

#[test]
fn a_transaction_reads_its_own_writes_and_leaves_nothing_when_it_fails() {
    let barn = Barn::embedded().unwrap();
    let number = barn.new(&1u64).unwrap();
    let made = barn.transaction(|tx| {
        tx.store(number, &2)?;
        assert_eq!(tx.load(number)?, 2, "its own write");
        let other = tx.new(&7u64)?;
        assert_eq!(tx.load(other)?, 7, "its own object");
        Ok(other)
    });
    assert_eq!(barn.load(made.unwrap()).unwrap(), 7);
    let failed = barn.transaction(|tx| {
        tx.store(number, &3)?;
        tx.new(&8u64)?;
        Err::<(), _>(Error::own("changed my mind"))
    });
    assert!(matches!(failed, Err(Error::Own(why)) if why == "changed my mind"));
    assert_eq!(barn.load(number).unwrap(), 2);
}

#[test]
fn an_object_that_was_made_and_freed_at_once_never_was() {
    let barn = Barn::embedded().unwrap();
    let (one, two) = (barn.new(&1u64).unwrap(), barn.new(&2u64).unwrap());
    let options = RunOptions { attempts_max: 3, ..RunOptions::default() };
    let sum = barn.transaction_with(options, |tx| {
        let first = tx.load(one)?;
        let made = tx.new(&7u64)?;
        tx.free(made.pointer())?;
        assert!(tx.load(made).is_err(), "it is gone");
        Ok(first + tx.load(two)?)
    });
    assert_eq!(sum.unwrap(), 3);
}

#[test]
fn a_conflict_is_told_and_a_run_again_goes_through() {
    let barn = Barn::embedded().unwrap();
    let number = barn.new(&1u64).unwrap();
    let mut slow = barn.begin();
    let seen = slow.load(number).unwrap();
    barn.store(number, &10).unwrap();
    slow.store(number, &(seen + 1)).unwrap();
    let refused = slow.commit();
    assert!(matches!(refused, Err(Error::Commit(CommitError::Conflict { .. }))), "{refused:?}");
    let mut runs = 0;
    barn.transaction(|tx| {
        runs += 1;
        let seen = tx.load(number)?;
        if runs == 1 {
            barn.store(number, &20)?;
        }
        tx.store(number, &(seen + 1))
    })
    .unwrap();
    assert_eq!((runs, barn.load(number).unwrap()), (2, 21));
}

#[test]
fn a_freed_object_is_gone_for_every_pointer_to_it() {
    let barn = Barn::embedded().unwrap();
    let pointer = barn.alloc(&[1; 64]).unwrap();
    barn.free(pointer).unwrap();
    let gone = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Client(ClientError::Freed { .. }))), "{result:?}");
    };
    gone(barn.read(pointer).map(|_| ()));
    gone(barn.write(pointer, &[2; 64]));
    // The place is used again, by another object: the old pointer still means the old one.
    let again = barn.alloc(&[3; 64]).unwrap();
    assert_eq!(again.address, pointer.address, "freed places of a size are used again first");
    gone(barn.read(pointer).map(|_| ()));
    assert_eq!(&barn.read(again).unwrap()[..], [3; 64]);
}

#[test]
fn objects_keep_their_length_and_memory_its_budget() {
    let barn = Barn::embedded_with(NodeConfig::embedded().memory(16 << 20)).unwrap();
    let pointer = barn.alloc(&[1; 64]).unwrap();
    let wrong = barn.write(pointer, &[1; 65]).unwrap_err().to_string();
    assert!(wrong.contains("objects keep their length"), "{wrong}");
    let mut made = Vec::new();
    let full = loop {
        match barn.alloc(&[1; 100_000]) {
            Ok(pointer) => made.push(pointer),
            Err(error) => break error.to_string(),
        }
    };
    assert!(full.contains("budget") || full.contains("add a region"), "{full}");
    assert!(made.len() >= 90, "{} objects of 100 kB fit into 16 MiB", made.len());
    for pointer in made.drain(..) {
        barn.free(pointer).unwrap();
    }
    barn.alloc(&[1; 100_000]).unwrap();
    let huge = barn.alloc(&vec![1; 70 << 20]).unwrap_err().to_string();
    assert!(huge.contains("more than an object can have") || huge.contains("longer than"), "{huge}");
}

#[test]
fn arrays_stand_side_by_side_and_are_read_together() {
    let config = NodeConfig { tcp: Some(([127, 0, 0, 1], 0).into()), ..NodeConfig::embedded() };
    let node = barn::node::Node::start(config).unwrap();
    let tcp = format!("tcp://{}", node.tcp_address().unwrap());
    for address in [node.address().unwrap(), tcp] {
        let barn = Barn::connect(&address).unwrap();
        let bodies: Vec<[u8; 40]> = (0..200).map(|at| [at; 40]).collect();
        let elements: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
        let array = barn.transaction(|tx| tx.alloc_array(&elements, None)).unwrap();
        let stride = array[1].address.offset() - array[0].address.offset();
        assert!(array.windows(2).all(|two| two[1].address.offset() - two[0].address.offset() == stride));
        let before = barn::ClientStats::get(&barn.client().stats().reads);
        let read = barn.read_array(&array).unwrap();
        assert!(read.iter().zip(&bodies).all(|(object, body)| object[..] == body[..]));
        let reads = barn::ClientStats::get(&barn.client().stats().reads) - before;
        assert!(address.starts_with("shm:") || reads == 1, "{reads} READs for one array over {address}");
        barn.free(array[7]).unwrap();
        assert!(barn.read_array(&array).is_err(), "an element is gone");
    }
}

#[test]
fn objects_are_fetched_at_once_whatever_the_transaction_knows_of_them() {
    let config = NodeConfig { tcp: Some(([127, 0, 0, 1], 0).into()), ..NodeConfig::embedded() };
    let node = Node::start(config).unwrap();
    let tcp = format!("tcp://{}", node.tcp_address().unwrap());
    for address in [node.address().unwrap(), tcp] {
        let barn = Barn::connect(&address).unwrap();
        let lengths = [8, 100, 3000, 64, 70_000];
        let make = |bytes: usize| barn.alloc(&vec![bytes as u8; bytes]).unwrap();
        let objects: Vec<_> = lengths.into_iter().map(make).collect();
        let before = barn.stats().reads;
        let mut tx = barn.begin();
        assert_eq!(tx.read(objects[1]).unwrap(), [100; 100], "one that is known already");
        tx.write(objects[3], &[7; 64]).unwrap();
        let made = tx.alloc(&[1; 8]).unwrap();
        let wanted = [&objects[..], &objects[2..], &[made]].concat();
        tx.fetch(&wanted).unwrap();
        let fetched = barn.stats().reads;
        assert_eq!(fetched - before, 5, "{address}: each is read once");
        for (object, bytes) in objects.iter().zip(lengths) {
            let expected = if bytes == 64 { 7 } else { bytes as u8 };
            assert_eq!(tx.read(*object).unwrap(), vec![expected; bytes], "{address}: {bytes} bytes");
        }
        assert_eq!(tx.read(made).unwrap(), [1; 8]);
        assert_eq!(barn.stats().reads, fetched, "{address}: they are at hand");
        tx.commit().unwrap();
        assert_eq!(barn.read(objects[3]).unwrap()[..], [7; 64]);

        // One of them is gone: said, and what else is there can be read.
        barn.free(objects[2]).unwrap();
        let mut tx = barn.begin();
        let gone = tx.fetch(&objects).expect_err("one was freed");
        assert!(
            matches!(gone, Error::Client(ClientError::Freed { pointer }) if pointer == objects[2]),
            "{gone}"
        );
        tx.fetch(&objects[..2]).unwrap();
        assert_eq!(tx.read(objects[0]).unwrap(), [8; 8]);
        assert_eq!(tx.read(objects[4]).unwrap(), vec![70_000u32 as u8; 70_000]);
        tx.commit().unwrap();
    }
}

#[test]
fn functions_run_next_to_the_data() {
    let mut functions = Functions::builtin();
    functions.register("double", |local, pointer, _| {
        let mut body = local.read(pointer)?;
        body.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(2));
        local.write(pointer, &body)?;
        Ok(body)
    });
    functions.register("refuse", |local, pointer, _| {
        local.write(pointer, &[0; 8])?;
        Err(FunctionError::Failed("not today".into()))
    });
    functions.register("list", |local, pointer, argument| {
        let made = local.alloc(argument, Some(pointer))?;
        Ok(made.to_bytes().to_vec())
    });
    let barn = Barn::embedded_with(NodeConfig::embedded().functions(functions)).unwrap();
    let number = barn.new(&5i64).unwrap();
    let sum = barn.call("barn.add", number.pointer(), &37i64.to_le_bytes()).unwrap();
    assert_eq!((sum, barn.load(number).unwrap()), (42i64.to_le_bytes().to_vec(), 42));
    barn.call("double", number.pointer(), &[]).unwrap();
    assert_eq!(barn.load(number).unwrap(), 84);
    let refused = barn.call("refuse", number.pointer(), &[]).unwrap_err().to_string();
    assert!(refused.contains("not today"), "{refused}");
    assert_eq!(barn.load(number).unwrap(), 84, "a function that fails changes nothing");
    let made = barn.call("list", number.pointer(), b"hello").unwrap();
    let made = barn::Pointer::from_bytes(&made.try_into().unwrap());
    assert_eq!(&barn.read(made).unwrap()[..], b"hello");
    let unknown = barn.call("nonsense", number.pointer(), &[]).unwrap_err().to_string();
    assert!(unknown.contains("no function `nonsense`") && unknown.contains("barn.add"), "{unknown}");
}

#[test]
fn a_large_transaction_goes_in_frames() {
    let barn = Barn::embedded_with(NodeConfig::embedded().memory(96 << 20)).unwrap();
    let big = vec![7; 300_000];
    let made = barn.transaction(|tx| (0..60).map(|_| tx.alloc(&big)).collect::<Result<Vec<_>, _>>()).unwrap();
    let changed = vec![8; 300_000];
    barn.transaction(|tx| made.iter().try_for_each(|pointer| tx.write(*pointer, &changed))).unwrap();
    assert!(made.iter().all(|pointer| barn.read(*pointer).unwrap()[..] == changed[..]));
}

#[test]
fn no_node_is_said_so() {
    let error = Barn::connect("shm:/nonexistent/barn.sock").unwrap_err().to_string();
    assert!(error.contains("/nonexistent/barn.sock"), "{error}");
    let error = Barn::connect("nonsense").unwrap_err().to_string();
    assert!(error.contains("shm:") && error.contains("tcp://"), "{error}");
}

#[tokio::test]
async fn the_same_as_futures() {
    let barn = tokio::task::spawn_blocking(Barn::embedded).await.unwrap().unwrap();
    let client = barn.client();
    let made = client
        .run(RunOptions::default(), async |tx: &mut barn::Transaction| {
            let one = tx.new_object(&1u64, None).await?;
            let two = tx.new_object(&2u64, Some(one.pointer())).await?;
            Ok::<_, ClientError>((one, two))
        })
        .await
        .unwrap();
    let sum = client
        .run(RunOptions::default(), async |tx: &mut barn::Transaction| {
            let (one, two) = (tx.load(made.0).await?, tx.load(made.1).await?);
            tx.store(made.0, &(one + two)).await?;
            Ok::<_, ClientError>(one + two)
        })
        .await
        .unwrap();
    assert_eq!(sum, 3);
    let object = client.read(made.0.pointer()).await.unwrap();
    assert_eq!(&object[..], 3u64.to_le_bytes());
    tokio::task::spawn_blocking(move || drop(barn)).await.unwrap();
}

#[test]
fn an_object_longer_than_one_operation_is_read_and_written() {
    let barn = Barn::embedded().unwrap();
    let body: Vec<u8> = (0..20 << 20).map(|at: u32| (at % 251) as u8).collect();
    let pointer = barn.alloc(&body).unwrap();
    assert!(barn.read(pointer).unwrap()[..] == body[..]);
    barn.write(pointer, &vec![1; body.len()]).unwrap();
    assert!(barn.read(pointer).unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn a_node_that_was_taken_from_its_thread_serves_when_it_is_turned() {
    let mut node = Node::start(NodeConfig::embedded()).unwrap();
    let barn = Barn::connect(&node.address().unwrap()).unwrap();
    let table = barn.table("users").unwrap();
    table.put(b"ada", b"1815").unwrap();
    let read = table.read_by(barn::Way::OneSided);
    assert_eq!(read.get(b"ada").unwrap().as_deref(), Some(&b"1815"[..]), "it knows where the memory is");
    let mut turned = node.by_hand().unwrap();
    assert!(node.by_hand().is_err(), "there is one loop");
    let mut turns = 0;
    let mut put = std::pin::pin!(table.futures().put(b"ada", b"1852"));
    let done = barn_fabric::block_on(std::future::poll_fn(|cx| {
        let polled = put.as_mut().poll(cx);
        if polled.is_pending() {
            turns += 1;
            turned.turn().unwrap();
        }
        polled
    }));
    done.unwrap();
    assert!(turns > 0, "nobody else serves it");
    assert_eq!(read.get(b"ada").unwrap().as_deref(), Some(&b"1852"[..]), "which asks nobody");
    // The clients' farewell waits for nobody: the loop is not turned any more.
    drop(turned);
}
