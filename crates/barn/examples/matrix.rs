//! Several processes fill a matrix that is striped over the memory of two nodes, meet at a barrier, and sum it.
//!
//! `cargo run --release --example matrix [WORKERS [ROWS]]`. The nodes run in the first process; the workers are
//! processes of their own, which read and write the matrix for themselves: over shared memory, a load and a store.
//! RStore's section V-A is the barrier's.

use barn::node::{Node, NodeConfig};
use barn::space::{Coordinator, Mapping, Outcome, Role, Worker, barrier_bytes};
use barn::{Barn, Error};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const CHUNK_BYTES: u64 = 1 << 20;
const DATA_BYTES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, address, key, place, worker] = &arguments[..]
        && mode == "worker"
    {
        return work(address, key, place, worker.parse().unwrap_or(0));
    }
    let number =
        |at: usize, usual: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    coordinate(number(0, 4).max(1) as usize, number(1, 2000).max(1))
}

/// The elements of a square matrix: each is its row times its column, so that the sum is known.
fn element(row: u64, column: u64) -> f64 {
    (row * column) as f64
}

fn coordinate(workers: usize, rows: u64) -> Result<(), Error> {
    let bytes = rows * rows * 8;
    let memory = (bytes + barrier_bytes(workers, DATA_BYTES)).next_multiple_of(CHUNK_BYTES) + CHUNK_BYTES;
    let first = Node::start(NodeConfig::embedded().space_memory(memory))?;
    let address = first.address().ok_or_else(|| Error::own("the node listens nowhere"))?;
    let second = NodeConfig { join: Some(address.clone()), ..NodeConfig::embedded() };
    let _second = Node::start(second.space_memory(memory))?;

    let barn = Barn::connect(&address)?;
    let (space, keys) = barn.spaces().create_with("matrix", CHUNK_BYTES, Role::Nobody)?;
    space.reserve(memory)?;
    let matrix = space.alloc(bytes)?;
    let meeting = space.alloc(barrier_bytes(workers, DATA_BYTES))?;
    println!("{rows} × {rows} numbers, {} MiB at {} nodes", bytes >> 20, matrix.nodes());

    let mut coordinator = Coordinator::new(barn.spaces(), &meeting.map()?, workers, DATA_BYTES)?;
    let place = format!("{},{},{},{}", matrix.address(), rows, meeting.address(), meeting.bytes());
    let mut processes = (0..workers)
        .map(|worker| start(&[&address, &keys.writer, &place, &worker.to_string()]))
        .collect::<Result<Vec<Child>, Error>>()?;
    coordinator.gather(PATIENCE)?;

    // Phase one: each fills its share of the rows. Phase two: each sums the share of its neighbour.
    let share = |worker: usize| {
        let (from, to) = (rows * worker as u64 / workers as u64, rows * (worker as u64 + 1) / workers as u64);
        format!("{from},{to}")
    };
    let begun = Instant::now();
    phase(&mut coordinator, "fill", (0..workers).map(share).collect())?;
    let filled = begun.elapsed();
    let sums = phase(&mut coordinator, "sum", (1..=workers).map(|worker| share(worker % workers)).collect())?;
    let summed = begun.elapsed() - filled;
    coordinator.end()?;
    for process in &mut processes {
        process.wait().map_err(|error| Error::own(error.to_string()))?;
    }
    let sum: f64 = sums.iter().map(|sum| sum.parse().unwrap_or(f64::NAN)).sum();
    // The sum over all rows and columns of their product is the square of the sum of the rows.
    let side = (rows * (rows - 1) / 2) as f64;
    println!("filled in {filled:?}, summed in {summed:?}: {sum}");
    if sum != side * side {
        return Err(Error::own(format!("the sum should be {}", side * side)));
    }
    println!("which is right");
    Ok(())
}

/// Runs a phase: what each worker says.
fn phase(coordinator: &mut Coordinator, what: &str, shares: Vec<String>) -> Result<Vec<String>, Error> {
    let tasks: Vec<String> = shares.iter().map(|share| format!("{what},{share}")).collect();
    coordinator.start(&tasks)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let outcomes = coordinator.finish(PATIENCE)?.into_iter().map(|outcome| match outcome {
        Outcome::Finished(said) => Ok(text(said)),
        Outcome::Error(why) => Err(Error::own(text(why))),
    });
    outcomes.collect()
}

/// Starts this program again, as a worker.
fn start(arguments: &[&str]) -> Result<Child, Error> {
    let program = std::env::current_exe().map_err(|error| Error::own(error.to_string()))?;
    Command::new(program)
        .arg("worker")
        .args(arguments)
        .spawn()
        .map_err(|error| Error::own(format!("no process for a worker: {error}")))
}

/// The numbers in a text, between commas.
fn numbers(text: &str) -> Vec<u64> {
    text.split(',').filter_map(|number| number.parse().ok()).collect()
}

fn work(address: &str, key: &str, place: &str, worker: usize) -> Result<(), Error> {
    let [matrix, rows, meeting, meeting_bytes] = numbers(place)[..] else {
        return Err(Error::own("a place is four numbers"));
    };
    let barn = Barn::connect(address)?;
    let space = barn.spaces().join("matrix", Some(key))?;
    let matrix = space.init_to_write(matrix, rows * rows * 8)?.map()?;
    let meeting = space.init_to_write(meeting, meeting_bytes)?.map()?;
    let mut barrier = Worker::join(barn.spaces(), &meeting, worker, PATIENCE)?;
    while let Some(assignment) = barrier.next(PATIENCE)? {
        let task = String::from_utf8_lossy(&assignment.task).into_owned();
        match carry_out(&matrix, rows, &task) {
            Ok(said) => barrier.finish(said.as_bytes())?,
            Err(error) => barrier.fail(error.to_string().as_bytes())?,
        }
    }
    Ok(())
}

fn carry_out(matrix: &Mapping, rows: u64, task: &str) -> Result<String, Error> {
    let [from, to] = numbers(task)[..] else { return Err(Error::own("a task is two rows")) };
    let matrix = matrix.slice::<f64>();
    if task.starts_with("sum") {
        return Ok(matrix.fold(from * rows..to * rows, 0.0, |sum, value| sum + value)?.to_string());
    }
    for row in from..to {
        let values: Vec<f64> = (0..rows).map(|column| element(row, column)).collect();
        matrix.write(row * rows, &values)?;
    }
    Ok(String::new())
}
