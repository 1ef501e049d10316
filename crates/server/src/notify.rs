//! Tells the service manager how the node fares: systemd's readiness protocol.
//!
//! A datagram of lines such as `READY=1` to the socket that `$NOTIFY_SOCKET` names; nothing where
//! there is no such variable.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// The node serves; `status` is a line for people.
pub fn ready(status: &str) -> io::Result<()> {
    tell(&format!("READY=1\nSTATUS={}\n", status.replace('\n', " ")))
}

/// The node is about to end.
pub fn stopping() -> io::Result<()> {
    tell("STOPPING=1\nSTATUS=stopping\n")
}

fn tell(lines: &str) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) {
        Some(socket) => tell_at(Path::new(&socket), lines),
        None => Ok(()),
    }
}

fn tell_at(socket: &Path, lines: &str) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    // A name that begins with @ is of the abstract namespace.
    let address = match socket.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_of_it_by_path_and_by_abstract_name() {
        let name = format!("barn-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&path);
        let by_path = UnixDatagram::bind(&path).expect("binds");
        let address = SocketAddr::from_abstract_name(&name).expect("is a name");
        let by_name = UnixDatagram::bind_addr(&address).expect("binds");
        for (manager, socket) in [(by_path, path.clone()), (by_name, format!("@{name}").into())] {
            tell_at(&socket, "READY=1\n").expect("tells");
            let mut heard = [0; 64];
            let length = manager.recv(&mut heard).expect("hears");
            assert_eq!(&heard[..length], b"READY=1\n");
        }
        std::fs::remove_file(&path).expect("removes");
        assert!(tell_at(&path, "READY=1\n").is_err());
    }
}
