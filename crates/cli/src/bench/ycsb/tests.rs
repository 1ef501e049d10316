//! What can be asked for, what is refused, and what rows are called.

use super::*;
use clap::error::ErrorKind;

fn parse(words: &[&str]) -> Result<Args, clap::Error> {
    Alone::try_parse_from(["ycsb"].iter().chain(words)).map(|alone| alone.args)
}

fn names(args: &Args) -> Vec<String> {
    let cells = |shape| args.cells(shape).into_iter().map(move |cell| args.name(cell, shape));
    args.load.shapes().flat_map(cells).collect()
}

#[test]
fn the_defaults_are_every_workload_over_every_transport() {
    let (quick, full) = (Args::quick(), Args::full());
    assert!(quick.load.quick && !full.load.quick);
    assert_eq!(names(&quick).len(), 6 * 3 * 2);
    assert!(names(&full).contains(&"embedded/auto/f/depth-1/16x32".to_owned()));
    let longest = quick.load.effort().slice * (quick.load.effort().repeats as u32 + 1) * 36;
    assert!(longest.as_secs() < 30, "a quick run is to last less than 50 s, with loading: {longest:?}");
}

#[test]
fn names_say_what_is_not_usual() {
    let args = parse(&[
        "--workload",
        "a",
        "--over",
        "tcp",
        "--way",
        "one-sided,request",
        "--depth",
        "4",
        "--shape",
        "cell,24x100",
        "--law",
        "uniform",
        "--clients",
        "2",
        "--threads",
        "3",
        "--rate",
        "5000",
    ]);
    let end = "uniform/clients-2x3/rate-5000";
    let expected: Vec<String> = ["8-64x8-256", "24x100"]
        .iter()
        .flat_map(|shape| ["one-sided", "request"].map(|way| format!("tcp/{way}/a/depth-4/{shape}/{end}")))
        .collect();
    assert_eq!(names(&args.expect("is right")), expected);
}

#[test]
fn only_rows_that_are_wanted_are_measured() {
    let args = parse(&["--rows", "shm/auto/a/"]).expect("is right");
    assert_eq!(names(&args), ["shm/auto/a/depth-1/16x32", "shm/auto/a/depth-16/16x32"]);
    let args = parse(&["--rows", "tcp/auto/e/", "--kind", "cuckoo"]).expect("is right");
    assert_eq!(names(&args), ["tcp/auto/e/depth-1/16x32", "tcp/auto/e/depth-16/16x32"]);
    let error = run(&parse(&["--rows", "nothing like this"]).expect("is right")).expect_err("has none");
    assert!(error.to_string().contains("--rows"), "{error}");
}

#[test]
fn the_printed_command_measures_the_same_cell() {
    let words =
        ["--workload", "b,c", "--depth", "1,8", "--rate", "1000", "--law", "uniform", "--shape", "cell"];
    let args = parse(&words).expect("is right");
    for shape in args.load.shapes() {
        for cell in args.cells(shape) {
            let command = args.command(cell, shape);
            let again: Vec<&str> = command.split(' ').skip(3).collect();
            let again = parse(&again).unwrap_or_else(|error| panic!("{command}: {error}"));
            assert_eq!(names(&again), [args.name(cell, shape)], "{command}");
            assert_eq!(again.load.records(shape), args.load.records(shape));
        }
    }
}

#[test]
fn bad_input_is_refused_with_what_would_be_right() {
    for (words, says) in [
        (&["--workload", "g"][..], "possible values"),
        (&["--shape", "dynamo"], "pilaf"),
        (&["--shape", "4x32"], "8 to 126"),
        (&["--rate", "0"], "operations a second"),
        (&["--rate", "fast"], "operations a second"),
        (&["--depth", "0"], "1..=1024"),
        (&["--over", "carrier-pigeon"], "embedded"),
        (&["--way", "left"], "one-sided"),
        (&["--kind", "heap"], "hopscotch"),
        (&["--keys", "3"], "1000"),
        (&["--clients", "0"], "1..=64"),
        (&["--repeats", "0"], "1..=100"),
    ] {
        let error = parse(words).expect_err("is wrong").to_string();
        assert!(error.contains(says), "{words:?}: {error}");
    }
    let error = run(&parse(&["--law", "uniform"]).expect("is understood")).expect_err("d has a law");
    assert!(error.to_string().contains("workload d"), "{error}");
}

#[test]
fn help_says_what_every_option_is_for() {
    let help = parse(&["--help"]).expect_err("is help");
    assert_eq!(help.kind(), ErrorKind::DisplayHelp);
    let help = help.to_string();
    for option in
        ["workload", "over", "way", "law", "depth", "rate", "arrivals", "shape", "clients", "threads"]
    {
        assert!(help.contains(&format!("--{option} ")), "{option}: {help}");
    }
    assert!(help.contains("always of a tree"), "{help}");
}
