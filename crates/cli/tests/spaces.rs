//! `barn space`, against a real node: what it prints, how it ends, and that files come out as they went in.

mod common;

use common::Node;
use serde_json::{Value, json};

fn node() -> Node {
    Node::start_with(&["--no-tcp", "--space-memory", "16MiB"])
}

/// Makes a space; its keys.
fn create(node: &Node, name: &str) -> Value {
    node.json(&["space", "create", name, "--chunk", "1MiB"])["keys"].clone()
}

fn key<'a>(keys: &'a Value, role: &str) -> &'a str {
    keys[role].as_str().expect("a key is text")
}

#[test]
fn spaces_are_made_listed_described_and_deleted() {
    let node = node();
    node.barn(&["space", "list"]).prints("no spaces yet: `barn space create NAME` makes the first\n");
    assert_eq!(node.json(&["space", "list"]), json!([]));
    let made = node.json(&["space", "create", "images", "--chunk", "1MiB", "--reserve", "3MiB"]);
    assert_eq!(
        (&made["name"], &made["chunk_bytes"], &made["everyone"], &made["reserved_bytes"]),
        (&json!("images"), &json!(1 << 20), &json!("nobody"), &json!(3 << 20))
    );
    let owner = key(&made["keys"], "owner").to_owned();
    let said = node.barn(&["space", "create", "open", "--chunk", "64KiB", "--everyone", "reader"]).out();
    assert!(said.starts_with("made space open: chunks of 64 KiB, 0 B reserved\n  owner's key "), "{said}");
    node.barn(&["space", "create", "images"]).ends_with(1).says("a space `images` is there already");

    let listed = node.json(&["space", "list"]);
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&json!("images"), &json!("open")));
    assert_eq!((&listed[0]["reserved_bytes"], &listed[0]["ranges"]), (&json!(3 << 20), &json!(0)));
    let lines = node.barn(&["space", "list"]).out();
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(node.json(&["space", "stat", "images"])["ranges"], json!([]));
    assert!(node.barn(&["space", "stat", "images"]).out().contains("reserved   3 MiB"));
    // What is reserved shows in the node's own figures.
    let status = node.json(&["status"]);
    let spaces = status["memory"].as_array().and_then(|memory| {
        memory.iter().find(|used| used["purpose"] == "spaces").map(|used| used["held_bytes"].clone())
    });
    assert!(spaces.and_then(|bytes| bytes.as_u64()).is_some_and(|bytes| bytes >= 3 << 20), "{status}");

    node.barn(&["space", "rm", "images"]).ends_with(2).says("--yes");
    node.barn(&["space", "rm", "images", "--yes"]).ends_with(1).says("--key");
    node.barn(&["space", "rm", "images", "--yes", "--key", "00"]).ends_with(1).says("none of this space's");
    assert_eq!(
        node.json(&["space", "rm", "images", "--yes", "--key", &owner]),
        json!({ "name": "images", "deleted": true })
    );
    node.barn(&["space", "stat", "images"]).ends_with(1).says("no space `images`: `barn space list`");
}

#[test]
fn a_file_comes_out_as_it_went_in() {
    let node = node();
    let keys = create(&node, "files");
    let (file, back) = (node.path("in.bin"), node.path("out.bin"));
    // Over three chunks, and no whole number of words.
    let content: Vec<u8> = (0..2_500_001u32).map(|at| (at * 31 + (at >> 8)) as u8).collect();
    std::fs::write(&file, &content).expect("a file is written");
    let (file, back) = (file.display().to_string(), back.display().to_string());
    let copied = node.json(&["space", "cp", &file, "space:files", "--key", key(&keys, "writer")]);
    assert_eq!((&copied["bytes"], &copied["space"]), (&json!(2_500_001), &json!("files")));
    let place = format!("space:files/{:#x}", copied["address"].as_u64().expect("a number"));
    for from in ["space:files", &place] {
        node.barn(&["space", "cp", from, &back, "--key", key(&keys, "reader")]).ends_with(0);
        assert!(std::fs::read(&back).expect("a file is there") == content, "{from}");
    }
    let out = node.barn(&["space", "cp", &place, "-", "--key", key(&keys, "reader")]);
    assert!(out.ends_with(0).0.stdout == content);

    // Over what is there, in part.
    std::fs::write(&file, b"shorter").expect("a file is written");
    node.barn(&["space", "cp", &file, &place, "--key", key(&keys, "reader")]).ends_with(1).says("a writer");
    node.barn(&["space", "cp", &file, &place, "--key", key(&keys, "writer")]).ends_with(0);
    node.barn(&["space", "cp", &place, &back, "--key", key(&keys, "reader")]).ends_with(0);
    let now = std::fs::read(&back).expect("a file is there");
    assert!(now[..7] == *b"shorter" && now[7..] == content[7..]);
    let stat = node.json(&["space", "stat", "files"]);
    assert_eq!((&stat["ranges"][0]["version"], &stat["ranges"][0]["holds"]), (&json!(0), &json!(0)));
}

#[test]
fn a_copy_on_write_range_is_replaced_as_a_whole() {
    let node = node();
    let keys = create(&node, "model");
    let writer = key(&keys, "writer");
    let (file, back) = (node.path("in.bin"), node.path("out.bin"));
    let (file_name, back_name) = (file.display().to_string(), back.display().to_string());
    let mut place = "space:model".to_string();
    for version in 1..=3u8 {
        std::fs::write(&file, vec![version; 1_500_000]).expect("a file is written");
        match version {
            1 => node.barn(&["space", "cp", &file_name, "space:model", "--copy-on-write", "--key", writer]),
            _ => node.barn(&["space", "cp", &file_name, &place, "--key", writer]),
        }
        .ends_with(0);
        node.barn(&["space", "cp", "space:model", &back_name, "--key", writer]).ends_with(0);
        assert!(std::fs::read(&back).expect("a file is there") == vec![version; 1_500_000]);
        let range = node.json(&["space", "stat", "model"])["ranges"][0].clone();
        assert_eq!(range["version"], json!(version));
        place = format!("space:model/{}", range["address"]);
    }
}

#[test]
fn copies_that_cannot_be_are_refused_with_what_to_do() {
    let node = node();
    let keys = create(&node, "space");
    let file = node.path("in.bin");
    std::fs::write(&file, b"x").expect("a file is written");
    let (file, writer) = (file.display().to_string(), key(&keys, "writer").to_owned());
    let cp = |from: &str, to: &str| node.barn(&["space", "cp", from, to, "--key", &writer]);
    cp(&file, &file).ends_with(2).says("one of the two");
    cp("space:space", "space:other").ends_with(2).says("one of the two");
    cp("space:space", &file).ends_with(1).says("has no range");
    cp("space:space/4096", &file).ends_with(1).says("no range at 0x1000");
    cp(&file, "space:space/0").ends_with(1).says("no range at 0x0");
    cp(&file, "space:nobody").ends_with(1).says("no space `nobody`");
    cp("space:nobody", &file).ends_with(1).says("no space `nobody`");
    cp("/nowhere", "space:space").ends_with(1).says("/nowhere");
    cp("/", "space:space").ends_with(2).says("no plain file");
    cp(&file, "space:space/0xzz").ends_with(2).says("no address");
    std::fs::write(&file, b"").expect("a file is written");
    cp(&file, "space:space").ends_with(2).says("empty");
    std::fs::write(&file, vec![0; 17 << 20]).expect("a file is written");
    cp(&file, "space:space").ends_with(1).says("space_memory");
    assert_eq!(node.json(&["space", "stat", "space"])["ranges"], json!([]));
    node.barn(&["space", "create", "odd", "--chunk", "100KiB"]).ends_with(1).says("power of two");
}
