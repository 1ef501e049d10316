//! Settings from all sources: who counts, what is said of mistakes, and what is shown.

use super::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// A home of the test's own, and an environment.
struct World {
    home: PathBuf,
    variables: HashMap<String, String>,
}

impl World {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("barn-settings-{}-{number}", std::process::id()));
        std::fs::create_dir_all(home.join(".config/barn")).expect("makes a home");
        let variables = HashMap::from([("HOME".into(), home.display().to_string())]);
        Self { home, variables }
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn file(self, text: &str) -> Self {
        std::fs::write(self.home.join(".config/barn/barn.toml"), text).expect("writes");
        self
    }

    fn resolve(&self, flags: &[(&'static str, &str)]) -> Result<Effective, String> {
        self.resolve_with(None, flags)
    }

    fn resolve_with(
        &self,
        config: Option<&str>,
        flags: &[(&'static str, &str)],
    ) -> Result<Effective, String> {
        let given = Given {
            config: config.map(PathBuf::from),
            flags: flags.iter().map(|(key, value)| (*key, value.to_string(), format!("--{key}"))).collect(),
        };
        let around = Surroundings {
            variable: &|name| self.variables.get(name).map(OsString::from),
            variables: self.variables.keys().cloned().collect(),
            memory_bytes: 8 << 30,
            memory_available_bytes: 8 << 30,
        };
        Effective::resolve(&given, &around).map_err(|error| error.to_string())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn of<'a>(effective: &'a Effective, key: &str) -> (&'a str, String) {
    let settled = effective.get(key).expect("is a setting");
    (&settled.value, settled.origin.to_string())
}

#[test]
fn a_flag_counts_before_the_environment_that_before_the_file_that_before_the_default() {
    let file = "memory = \"1GiB\"\n\nlease_ms = 100\ntcp = \"none\"\n";
    let world = World::new().file(file).set("BARN_MEMORY", "2GiB").set("BARN_LEASE_MS", "200");
    let effective = world.resolve(&[("memory", "3GiB")]).expect("resolves");
    assert_eq!(of(&effective, "memory"), ("3GiB", "flag --memory".into()));
    assert_eq!(of(&effective, "lease_ms"), ("200", "environment variable BARN_LEASE_MS".into()));
    let path = world.home.join(".config/barn/barn.toml");
    assert_eq!(of(&effective, "tcp"), ("none", format!("{}, line 4", path.display())));
    assert_eq!(of(&effective, "durability"), ("logged", "default".into()));
    let options = effective.options();
    assert_eq!((options.memory_bytes, options.lease.as_millis(), options.tcp), (3 << 30, 200, None));
    assert_eq!(options.data, Some(world.home.join(".local/state/barn")));
}

#[test]
fn a_quarter_of_the_memory_is_the_default_and_no_more_than_half_of_what_is_free() {
    assert_eq!(memory_default_bytes(8 << 30, 8 << 30), 2 << 30);
    assert_eq!(memory_default_bytes(8 << 30, 1 << 30), 512 << 20);
    assert_eq!(memory_default_bytes(8 << 30, 0), 2 << 30);
    assert_eq!(memory_default_bytes(1_000_000_001, 0), 238 << 20, "in whole huge pages");
    assert_eq!(memory_default_bytes(0, 0), MEMORY_BYTES_MIN);
    let effective = World::new().resolve(&[]).expect("resolves");
    assert_eq!(of(&effective, "memory"), ("2GiB", "default".into()));
}

#[test]
fn files_are_looked_for_in_order_and_a_named_one_must_be_there() {
    let world = World::new().file("lease_ms = 100");
    let other = world.home.join("other.toml");
    std::fs::write(&other, "lease_ms = 300").expect("writes");
    let named = other.display().to_string();
    let lease = |effective: Result<Effective, String>| effective.map(|one| one.options().lease.as_millis());
    assert_eq!(lease(world.resolve(&[])), Ok(100));
    assert_eq!(lease(world.resolve_with(Some(&named), &[])), Ok(300));
    assert_eq!(lease(world.resolve_with(Some("none"), &[])), Ok(1000));
    let why = world.resolve_with(Some("/nowhere/barn.toml"), &[]).unwrap_err();
    assert!(why.starts_with("/nowhere/barn.toml: ") && why.contains("--config none"), "{why}");
    let world = world.set("BARN_CONFIG", &named);
    assert_eq!(lease(world.resolve(&[])), Ok(300));
    assert_eq!(lease(world.resolve_with(Some("none"), &[])), Ok(1000), "a flag counts before a variable");
    let config = world.home.join("xdg");
    std::fs::create_dir_all(config.join("barn")).expect("makes");
    std::fs::write(config.join("barn/barn.toml"), "lease_ms = 400").expect("writes");
    let world = world.set("BARN_CONFIG", "").set("XDG_CONFIG_HOME", &config.display().to_string());
    assert_eq!(lease(world.resolve(&[])), Ok(400));
}

#[test]
fn a_bad_value_is_said_with_its_source_also_where_another_counts() {
    let world = World::new().file("\nlease_ms = 5\n");
    let why = world.resolve(&[("lease_ms", "500")]).unwrap_err();
    assert!(
        why.ends_with("barn.toml:2: lease_ms: `5` is not a number of milliseconds from 50 to 600000"),
        "{why}"
    );
    let why = World::new().set("BARN_MEMORY", "lots").resolve(&[]).unwrap_err();
    assert!(why.starts_with("environment variable BARN_MEMORY: `lots` is no number of bytes"), "{why}");
    let why = World::new().resolve(&[("socket", "none"), ("tcp", "none")]).unwrap_err();
    assert!(why.contains("listens nowhere"), "{why}");
}

#[test]
fn old_names_of_variables_still_count_and_slips_are_noticed() {
    let world =
        World::new().set("BARN_SHM", "/run/x.sock").set("BARN_MEMROY", "1GiB").set("BARN_TEST_X", "1");
    let effective = world.resolve(&[]).expect("resolves");
    assert_eq!(of(&effective, "socket"), ("/run/x.sock", "environment variable BARN_SHM".into()));
    assert_eq!(effective.suspects, [("BARN_MEMROY".to_string(), "BARN_MEMORY".to_string())]);
    assert!(effective.toml().contains("BARN_MEMROY means nothing; BARN_MEMORY would"));
    let world = world.set("BARN_SOCKET", "/run/y.sock");
    assert_eq!(of(&world.resolve(&[]).expect("resolves"), "socket").0, "/run/y.sock");
}

#[test]
fn what_is_shown_is_toml_and_leads_back_to_the_same_options() {
    let odd = "/tmp/a \"quoted\" \\ path\tof mine";
    let world = World::new().file("durability = \"synced\"").set("BARN_CHECKPOINT_BYTES", "1048577");
    let effective = world.resolve(&[("data", odd), ("accept_loss", "true")]).expect("resolves");
    let shown = effective.toml();
    let path = world.home.join("shown.toml");
    std::fs::write(&path, &shown).expect("writes");
    let again = World::new().resolve_with(Some(&path.display().to_string()), &[]).expect(&shown);
    assert_eq!(format!("{:?}", again.options()), format!("{:?}", effective.options()));
    assert_eq!(again.options().data, Some(PathBuf::from(odd)));
    assert!(again.settled.iter().all(|settled| matches!(settled.origin, Origin::File { .. })));
    assert!(shown.lines().all(|line| line.is_empty() || line.starts_with('#') || line.contains(" = ")));
}

#[test]
fn json_says_where_each_value_came_from() {
    let world = World::new().file("lease_ms = 100").set("BARN_TCP", "none");
    let json = world.resolve(&[("accept_loss", "true")]).expect("resolves").json();
    let settings = &json["settings"];
    assert_eq!((&settings["lease_ms"]["value"], &settings["lease_ms"]["line"]), (&100.into(), &1.into()));
    assert_eq!(settings["tcp"]["variable"], "BARN_TCP");
    assert_eq!(
        (&settings["accept_loss"]["value"], &settings["accept_loss"]["from"]),
        (&true.into(), &"flag".into())
    );
    assert_eq!(settings["join"]["from"], "default");
    assert_eq!(settings.as_object().map(serde_json::Map::len), Some(SETTINGS.len()));
}

#[test]
fn the_socket_is_in_the_runtime_directory_or_a_private_one() {
    let world = World::new().set("USER", "ada");
    let socket = |world: &World| world.resolve(&[]).expect("resolves").options().shm;
    assert_eq!(socket(&world), Some("/tmp/barn-ada/node.sock".into()));
    let world = world.set("XDG_RUNTIME_DIR", "/run/user/7");
    assert_eq!(socket(&world), Some("/run/user/7/barn/node.sock".into()));
}

#[test]
fn raw_memory_is_split_into_regions() {
    let regions =
        |raw_bytes| ServerOptions { raw_bytes, ..ServerOptions::default() }.raw_regions().collect::<Vec<_>>();
    assert_eq!(regions(0), [0u64; 0]);
    assert_eq!(regions(5), [5]);
    assert_eq!(regions(DATA_REGION_BYTES_MAX), [DATA_REGION_BYTES_MAX]);
    assert_eq!(regions(2 * DATA_REGION_BYTES_MAX + 1), [DATA_REGION_BYTES_MAX, DATA_REGION_BYTES_MAX, 1]);
}

#[test]
fn the_readme_has_the_settings_as_they_are() {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once("checked by a test -->\n").expect("has a mark");
    let (table, _) = rest.split_once("<!-- settings end -->").expect("has an end");
    if std::env::var_os("BARN_WRITE_DOCS").is_some() && table != markdown() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        std::fs::write(path, readme.replace(table, &markdown())).unwrap();
    }
    assert_eq!(table, markdown(), "put what `barn_server::options::markdown` gives between the marks");
}
