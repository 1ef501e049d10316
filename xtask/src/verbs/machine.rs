//! Guests in qemu: started together, listened to, and ended when they are done or late.
//!
//! The processor is emulated (TCG, a thread for each of two): hardware virtualization hangs or is
//! missing on many machines that tests run on, and emulation is everywhere the same. Two processors,
//! because on one no READ is ever torn.
//!
//! What always holds: no qemu outlives the call that started it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::console::{self, Event, Transcript};
use super::kernel::Kernel;
use super::packages;

/// How long a guest that has said that it is done may take to go.
const OFF_SECONDS_MAX: u64 = 20;

/// How long qemu may take to make its socket.
const SOCKET_SECONDS_MAX: u64 = 20;

/// The second port for the kernel; off, and not again, after a panic. The clock is the processor's: its
/// rate could not be checked here against another, and the other clock costs ten times as much to read
/// (1.5 µs against 0.16 µs). Nobody attacks the guest, so no mitigations; and four levels of page tables
/// are walked sooner than five.
const KERNEL_OPTIONS: &str =
    "console=ttyS1 loglevel=5 panic=1 tsc=reliable clocksource=tsc mitigations=off no5lvl";

/// All that can be emulated, but for carry-less multiplication: emulated bit by bit it makes checksums far
/// slower than the table that is used without it. A GET of a hopscotch table took 1.85 times a READ of
/// as many bytes with it, and 1.26 times without.
const PROCESSOR: &str = "max,-pclmulqdq";

/// One guest: its role, and what is joined to its network.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    /// `one`, `a` or `b`: what the guest makes of itself.
    pub(super) role: &'static str,
    /// Options of qemu for the network between two.
    pub(super) network: Vec<String>,
    /// What must be there before it is started.
    pub(super) after: Option<PathBuf>,
}

impl Guest {
    /// One guest with both devices, and no network but its own.
    pub(super) fn alone() -> Self {
        Self { role: "one", network: Vec::new(), after: None }
    }

    /// Two guests, a device each, joined by a socket in `dir`. The first listens; the second is started
    /// when the socket is there, for qemu tries only once.
    pub(super) fn pair(dir: &Path) -> Vec<Self> {
        let socket = dir.join("network");
        let guest = |role, server, mac: &str| {
            let listens = if server { "on" } else { "off" };
            let stream =
                format!("stream,id=net,server={listens},addr.type=unix,addr.path={}", socket.display());
            // No boot from the network, and packets as long as the guest's link wants them.
            let card = format!("virtio-net-pci,netdev=net,mac={mac},romfile=,host_mtu=9000");
            let network = ["-netdev", &stream, "-device", &card].map(String::from).to_vec();
            Self { role, network, after: (!server).then(|| socket.clone()) }
        };
        vec![guest("a", true, "52:54:00:0a:09:01"), guest("b", false, "52:54:00:0a:09:02")]
    }
}

/// What guests have in common.
#[derive(Debug)]
pub(super) struct Boot<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) initramfs: &'a Path,
    /// Where the kernels' messages go.
    pub(super) dir: &'a Path,
    pub(super) memory_mib: u64,
    pub(super) seconds_max: u64,
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// qemu ended by itself, well.
    Off,
    /// qemu ended by itself, badly: how, and what it said.
    Died(String),
    /// It was ended because its time was up.
    Late(u64),
    /// It was ended because the other guest had.
    Alone,
}

/// All about a guest that has ended.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) transcript: Transcript,
    pub(super) end: End,
    pub(super) kernel_log: PathBuf,
    pub(super) boot_seconds: f64,
}

/// A qemu that ends with its owner.
struct Process {
    child: Child,
    transcript: Transcript,
    boot_seconds: f64,
    kernel_log: PathBuf,
    end: Option<End>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Boots the guests and waits until all have ended. Each line is shown as it comes.
pub(super) fn run(boot: &Boot<'_>, guests: &[Guest]) -> Result<Vec<Report>, String> {
    let started = Instant::now();
    // Nothing that a job can guess.
    let mark = format!("@barn-{}-{:x}", std::process::id(), nanoseconds());
    let (sender, lines) = mpsc::channel();
    let mut processes = Vec::new();
    for (number, guest) in guests.iter().enumerate() {
        await_path(guest.after.as_deref())?;
        processes.push(start(boot, guest, &mark, number, &sender)?);
    }
    drop(sender);
    let mut deadline = started + Duration::from_secs(boot.seconds_max);
    while processes.iter().any(|process| process.end.is_none()) {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((number, Some(line))) => {
                let (printed, event) = console::split(&line, &mark);
                show(guests[number].role, printed, event.as_ref());
                let process: &mut Process = &mut processes[number];
                if matches!(event, Some(Event::Up(_))) {
                    process.boot_seconds = started.elapsed().as_secs_f64();
                }
                process.transcript.take(printed, event);
                if processes.iter().all(|process| process.transcript.done) {
                    deadline = deadline.min(Instant::now() + Duration::from_secs(OFF_SECONDS_MAX));
                }
            }
            // The end of its output: qemu has gone.
            Ok((number, None)) => {
                let end = ended(&mut processes[number]);
                let well = processes[number].transcript.done;
                processes[number].end = Some(end);
                if !well {
                    stop(&mut processes, &End::Alone);
                }
            }
            Err(_) => stop(&mut processes, &End::Late(started.elapsed().as_secs())),
        }
    }
    Ok(processes
        .iter_mut()
        .map(|process| Report {
            transcript: std::mem::take(&mut process.transcript),
            end: process.end.take().unwrap_or(End::Alone),
            kernel_log: process.kernel_log.clone(),
            boot_seconds: process.boot_seconds,
        })
        .collect())
}

/// Waits for what the other guest's qemu makes when it starts.
fn await_path(path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let started = Instant::now();
    while !path.exists() {
        if started.elapsed() > Duration::from_secs(SOCKET_SECONDS_MAX) {
            return Err(format!("the first guest's qemu did not make {}", path.display()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn nanoseconds() -> u32 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos())
}

fn show(role: &str, printed: &str, event: Option<&Event>) {
    if !printed.is_empty() {
        println!("{role} | {printed}");
    }
    match event {
        Some(Event::Up(what)) => println!("{role} > up: {what}"),
        Some(Event::Broken(step)) => println!("{role} > could not be set up: {step}"),
        Some(Event::Begin(name)) => println!("{role} > {name} begins"),
        Some(Event::End(name, ended)) => println!("{role} > {name} {ended}"),
        Some(Event::Done) | None => {}
    }
}

/// Ends those that are left.
fn stop(processes: &mut [Process], end: &End) {
    for process in processes.iter_mut().filter(|process| process.end.is_none()) {
        let _ = process.child.kill();
        let _ = process.child.wait();
        process.end = Some(end.clone());
    }
}

fn ended(process: &mut Process) -> End {
    let status = process.child.wait();
    let said = process.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
    match status {
        Ok(status) if status.success() => End::Off,
        Ok(status) => End::Died(format!("{status}: {}", said.trim())),
        Err(error) => End::Died(error.to_string()),
    }
}

type Lines = mpsc::Sender<(usize, Option<String>)>;

fn start(
    boot: &Boot<'_>,
    guest: &Guest,
    mark: &str,
    number: usize,
    lines: &Lines,
) -> Result<Process, String> {
    let kernel_log = boot.dir.join(format!("kernel-{}.log", guest.role));
    let _ = fs::remove_file(&kernel_log);
    let append = format!(
        "{KERNEL_OPTIONS} barn.role={} barn.mark={mark} barn.seconds={}",
        guest.role, boot.seconds_max
    );
    let mut command = Command::new(packages::program("qemu-system-x86_64"));
    command.args(["-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2"]);
    command.args(["-m", &boot.memory_mib.to_string(), "-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-display", "none", "-chardev", "stdio,id=jobs,signal=off", "-serial", "chardev:jobs"]);
    command.arg("-serial").arg(format!("file:{}", kernel_log.display()));
    command.arg("-kernel").arg(&boot.kernel.image).arg("-initrd").arg(boot.initramfs);
    command.arg("-append").arg(append).args(&guest.network);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("qemu-system-x86_64: {error}"))?;
    if let Some(output) = child.stdout.take() {
        let lines = lines.clone();
        thread::spawn(move || follow(output, number, &lines));
    }
    let errors = child.stderr.take().map(|mut pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    Ok(Process { child, transcript: Transcript::default(), boot_seconds: 0.0, kernel_log, end: None, errors })
}

fn follow(pipe: impl Read, number: usize, lines: &Lines) {
    let mut pipe = BufReader::new(pipe);
    let mut bytes = Vec::new();
    while pipe.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        let line = String::from_utf8_lossy(&bytes).into_owned();
        if lines.send((number, Some(line))).is_err() {
            return;
        }
        bytes.clear();
    }
    let _ = lines.send((number, None));
}
