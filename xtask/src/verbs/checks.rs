//! What the output of each job must show, beyond a code of 0: that something was tested.

use crate::linearizable::KINDS;
use barn_layout::planted;

/// `barn doctor` must find both devices, up, with the addresses that they were given.
pub(super) fn doctor(output: &str) -> Result<String, String> {
    for (device, address) in [("rxe0", "ffff:0a09:0001 (RoCE v2"), ("rxe1", "ffff:0a09:0002 (RoCE v2")] {
        let fine = |line: &str| {
            line.trim().starts_with("good")
                && [device, "ACTIVE", address].iter().all(|word| line.contains(word))
        };
        if !output.lines().any(fine) {
            return Err(format!("barn doctor is not content with {device}"));
        }
    }
    Ok("barn doctor finds both devices".into())
}

/// Every case of the list that all transports share passed, by its name.
pub(super) fn conformance(output: &str) -> Result<String, String> {
    let names: Vec<&str> = output.lines().filter_map(|line| line.trim().strip_prefix("case ")).collect();
    let passed: Vec<(&str, &str)> = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("conformance ")?.split_once(": "))
        .filter_map(|(transport, rest)| {
            let (case, verdict) = rest.split_once(": ")?;
            (verdict == "ok" || verdict.starts_with("ok ")).then_some((transport, case))
        })
        .collect();
    let is_verbs = |transport: &str| transport.starts_with("verbs");
    let ran = |name: &str| passed.iter().any(|(transport, case)| is_verbs(transport) && *case == name);
    if names.is_empty() {
        return Err("the suite did not say which cases it has".into());
    }
    let missing = names.iter().find(|name| !ran(name)).filter(|_| !planted("verbs_overlooks_a_missing_case"));
    if let Some(missing) = missing {
        return Err(format!("{missing} did not pass"));
    }
    let count = format!("{} passed, 0 failed", names.len());
    let transport = passed.first().map_or("", |(transport, _)| transport);
    if !output.contains(&count) {
        return Err(format!("the suite did not say `{count}`"));
    }
    Ok(format!("{transport}: {count}"))
}

/// What only a device can show: every test of `verbs_device`.
pub(super) fn device(output: &str) -> Result<String, String> {
    const LEAKS: &str = "a_thousand_connections_that_come_and_are_killed_leave_nothing_behind";
    let line = output.lines().find_map(|line| line.trim().strip_prefix("test result: ok. "));
    let line = line.ok_or("the tests did not say that all is well")?;
    let leaks = output.lines().any(|line| line.contains(LEAKS) && line.trim().ends_with("ok"));
    if !leaks {
        return Err(format!("{LEAKS} did not run"));
    }
    Ok(format!("device: {}", line.split(';').next().unwrap_or_default()))
}

/// Torn READs, and no torn value among those that were accepted.
pub(super) fn racing(output: &str) -> Result<String, String> {
    said(output, "racing: ")
}

/// One order for each key, of each kind of table, with clients that were killed.
pub(super) fn tables(output: &str) -> Result<String, String> {
    let (mut operations, mut killed) = (0, 0);
    for kind in KINDS {
        let start = format!("{kind} over verbs, ");
        let line = output.lines().find(|line| line.trim().starts_with(&start));
        let line = line.filter(|line| line.contains("one order for each key"));
        let line = line.ok_or_else(|| format!("{kind} was not checked over verbs"))?;
        let dead = before(line, " clients killed");
        if dead == 0 && !planted("verbs_overlooks_that_nobody_was_killed") {
            return Err(format!("no client of {kind} was killed"));
        }
        operations += before(line, " operations");
        killed += dead;
    }
    Ok(format!("tables: {operations} operations, {killed} clients killed, one order for each key"))
}

/// One order for all transactions.
pub(super) fn transactions(output: &str) -> Result<String, String> {
    let line = output.lines().find(|line| line.trim().starts_with("verbs, ") && line.contains("one order"));
    let line = line.ok_or("no history of transactions over verbs was checked")?;
    let committed = before(line, " committed");
    if committed == 0 {
        return Err("no transaction was committed".into());
    }
    Ok(format!("{} transactions, {committed} committed, one order", before(line, " transactions in")))
}

/// YCSB's workloads over verbs, those that need no order of keys, by both ways to read: printed.
pub(super) fn workloads(output: &str) -> Result<String, String> {
    let mut rows = 0;
    for mix in ["a", "b", "c", "d", "f"] {
        for way in ["one-sided", "request"] {
            let name = format!("verbs/{way}/{mix}/");
            let found =
                output.lines().filter(|line| line.trim().starts_with(&name) && line.contains("ops/s"));
            let found: Vec<&str> = found.collect();
            if found.is_empty() {
                return Err(format!("there is no row {name}"));
            }
            rows += found.len();
        }
    }
    output.lines().filter(|line| line.contains("ops/s")).for_each(|line| println!("{}", line.trim()));
    Ok(format!("{rows} figures of workloads over verbs, every value that was read checked"))
}

/// Without libibverbs the same program says so, and works over tcp.
pub(super) fn without_library(output: &str) -> Result<String, String> {
    let (doctor, rest) = output.split_once("section refused").ok_or("the doctor did not come to an end")?;
    let (refused, tcp) = rest.split_once("section tcp").ok_or("the benchmark did not come to an end")?;
    if !doctor.contains("cannot be used here") && !doctor.contains("not available on this machine") {
        return Err("barn doctor does not say that verbs cannot be used".into());
    }
    if refused.contains("measured what is not there") || refused.trim().is_empty() {
        return Err("the benchmark over verbs did not say that it cannot run".into());
    }
    if !tcp.contains("tcp/read-64/blocking") {
        return Err("the same program does not work over tcp".into());
    }
    Ok("without libibverbs the same program says so and works over tcp".into())
}

fn said(output: &str, start: &str) -> Result<String, String> {
    let line = output.lines().map(str::trim).find(|line| line.starts_with(start));
    line.map(str::to_owned).ok_or_else(|| format!("no line begins with `{start}`"))
}

/// The number before some words: 12 in `with 12 clients killed`, 7 in `(7 committed`.
fn before(line: &str, words: &str) -> u64 {
    let number = line.split_once(words).and_then(|(start, _)| start.rsplit([' ', '(']).next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doctor_that_misses_a_device_is_not_enough() {
        let port = |number: u8, word: &str| {
            let device = number - 1;
            format!(
                "  {word:<6}  port  rxe{device} port 1: ACTIVE; gid 1: 0000:ffff:0a09:000{number} (RoCE v2 on v0)\n"
            )
        };
        assert!(doctor(&(port(1, "good") + &port(2, "good"))).is_ok());
        assert!(doctor(&port(1, "good")).is_err());
        assert!(doctor(&(port(1, "good") + &port(2, "limits"))).is_err());
    }

    #[test]
    fn every_workload_is_measured_over_verbs_by_both_ways() {
        let row = |way: &str, mix: &str| format!("verbs/{way}/{mix}/depth-1/16x32  9.1 kops/s  8 - 9\n");
        let all: String = ["a", "b", "c", "d", "f"]
            .iter()
            .flat_map(|mix| ["one-sided", "request"].map(|way| row(way, mix)))
            .collect();
        assert!(workloads(&all).is_ok_and(|said| said.starts_with("10 figures")));
        assert!(workloads(&all.replace("verbs/request/f", "tcp/request/f")).is_err());
        assert!(workloads("").is_err());
    }

    const SUITE: &str = "case a\ncase b\nconformance verbs ring: of rounds, one in 8\n\
        conformance verbs ring: a: ok (0.1 s)\nconformance verbs ring: b: ok (12.0 s)\n\
        conformance verbs ring: 2 passed, 0 failed\n";

    #[test]
    fn a_case_that_did_not_pass_on_verbs_is_named() {
        assert_eq!(conformance(SUITE).as_deref(), Ok("verbs ring: 2 passed, 0 failed"));
        let without = SUITE.replace("conformance verbs ring: b: ok (12.0 s)\n", "");
        assert!(conformance(&without).is_err_and(|why| why.contains("b did not pass")));
        assert!(conformance(&SUITE.replace("b: ok", "b: FAILED")).is_err());
        assert!(conformance(&SUITE.replace("verbs ring", "tcp")).is_err(), "another transport is no proof");
        assert!(conformance(&SUITE.replace("2 passed", "1 passed")).is_err());
        assert!(conformance("conformance verbs ring: 0 passed, 0 failed\n").is_err());
    }

    #[test]
    fn tables_are_checked_only_if_clients_died() {
        let line = |kind: &str, killed: u64| {
            format!(
                "{kind} over verbs, 2 nodes: 4100 operations on 90 keys in 1 rounds, 3 of unknown \
                 outcome, {killed} clients killed, one order for each key; grown 2 times\n"
            )
        };
        let all: String = KINDS.map(|kind| line(kind, 2)).concat();
        let said = "tables: 16400 operations, 8 clients killed, one order for each key";
        assert_eq!(tables(&all).as_deref(), Ok(said));
        assert!(tables(&(line("hopscotch", 2) + &line("cuckoo", 2))).is_err());
        let nobody = KINDS.map(|kind| line(kind, u64::from(kind != "cuckoo"))).concat();
        assert!(tables(&nobody).is_err());
        assert!(tables(&all.replace("verbs", "tcp")).is_err());
    }

    #[test]
    fn transactions_must_have_been_committed_over_verbs() {
        let line = "verbs, 2 nodes, 2 threads with 8 workers each: 3000 transactions in 1 histories (2900 \
                    committed, 90 refused, 10 of unknown outcome), 1 reads, 1 writes, one order for each\n";
        assert_eq!(transactions(line).as_deref(), Ok("3000 transactions, 2900 committed, one order"));
        assert!(transactions(&line.replace("2900", "0")).is_err());
        assert!(transactions(&line.replace("verbs", "tcp")).is_err());
    }

    #[test]
    fn the_tests_of_a_device_must_have_looked_for_leaks() {
        let ran = "test a_thousand_connections_that_come_and_are_killed_leave_nothing_behind ... ok\n\
                   test result: ok. 4 passed; 0 failed; 0 ignored\n";
        assert_eq!(device(ran).as_deref(), Ok("device: 4 passed"));
        assert!(device("test result: ok. 0 passed; 0 failed; 4 ignored\n").is_err());
    }

    #[test]
    fn a_program_without_its_library_must_say_so_and_go_on() {
        let said = "  limits verbs: cannot be used here\nsection refused\nbarn: no library\nsection tcp\n\
                    {\"name\":\"tcp/read-64/blocking\"}\n";
        assert!(without_library(said).is_ok());
        assert!(without_library(&said.replace("cannot", "can")).is_err());
        assert!(without_library(&said.replace("barn: no library", "measured what is not there")).is_err());
        assert!(without_library(&said.replace("tcp/read", "shm/read")).is_err());
    }
}
