//! Which shared libraries a program needs, by what `ldd` says.
//!
//! What always holds: a library that is needed and not there is an error here, by name, and not a
//! program that ends with code 127 in the guest.

use std::path::{Path, PathBuf};

use crate::run::Job;

/// The libraries of `program`, the loader among them. None, if it is linked statically.
pub(super) fn of(program: &Path) -> Result<Vec<PathBuf>, String> {
    let path = program.to_string_lossy();
    let done = Job::new("ldd", &[&path]).quiet().run()?;
    // It ends with code 1 where there is nothing to load.
    if done.output.contains("not a dynamic executable") {
        return if program.exists() { Ok(Vec::new()) } else { Err(format!("{path} is not there")) };
    }
    if !done.status.success() {
        return Err(format!("ldd {path} {}: {}", done.how(), done.output.trim()));
    }
    parse(&done.output).map_err(|missing| format!("{path} needs {missing}, which is not on this machine"))
}

/// Reads what ldd prints. `Err` is the first library that was not found.
fn parse(output: &str) -> Result<Vec<PathBuf>, String> {
    let mut list = Vec::new();
    for line in output.lines().map(str::trim) {
        let (name, at) = match line.split_once(" => ") {
            Some((name, at)) => (name, at),
            // The loader, and the kernel's own page, have no arrow.
            None => (line, line),
        };
        if at.starts_with("not found") {
            return Err(name.to_owned());
        }
        let path = at.split(" (0x").next().unwrap_or(at);
        if path.starts_with('/') {
            list.push(PathBuf::from(path));
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found_and_the_kernels_page_is_not_a_file() {
        let output = "\tlinux-vdso.so.1 (0x00007fd5c0c82000)\n\
                      \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007fd5c0b57000)\n\
                      \tlibgcc_s.so.1 => /opt/my libs/libgcc_s.so.1 (0x1)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007fd5c0c84000)\n";
        let found = parse(output).expect("all there");
        let expected =
            ["/lib/x86_64-linux-gnu/libm.so.6", "/opt/my libs/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        assert_eq!(parse("\tlibodd.so.7 => not found\n"), Err("libodd.so.7".into()));
    }

    #[test]
    fn a_static_program_needs_none() {
        assert_eq!(parse("\tstatically linked\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(of(Path::new("/nowhere/at/all")).is_err());
    }
}
