//! The settings of a node on the command line: a flag for each row of the server's table.
//!
//! What always holds: no flag stands here that is not in the table, but for `--config`, which names
//! the file, and the two short ways to write `none`.

use std::path::PathBuf;

use barn_server::options::{Effective, Given, Literal, NONE, SETTINGS, Setting, Surroundings};
use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::failure::{Failure, USAGE};
use crate::machine::{Machine, Source, memory};

/// Short ways to write `none`: flag, setting, what it does.
const LEFT_OUT: [(&str, &str, &str); 2] = [
    ("no-shm", "socket", "Do not listen for clients of this host: the same as --socket none"),
    ("no-tcp", "tcp", "Do not listen on tcp: the same as --tcp none"),
];

/// What the command line says of settings.
#[derive(Clone, Debug, Default)]
pub struct SettingsArgs {
    /// The file and the flags.
    pub given: Given,
}

impl SettingsArgs {
    /// The configuration that counts, with the environment and the files of this machine.
    pub fn resolve(&self) -> Result<Effective, Failure> {
        let variable = |name: &str| std::env::var_os(name);
        let memory = memory::Memory::read(&Source::live());
        let around = Surroundings {
            variable: &variable,
            variables: std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
            memory_bytes: memory.usable_bytes(),
            memory_available_bytes: memory.available_bytes,
        };
        Effective::resolve(&self.given, &around).map_err(|error| Failure {
            error: error.to_string(),
            hint: None,
            code: USAGE,
        })
    }
}

/// Refuses to take more memory than there is: the system would end this process, or another.
pub fn check_memory(asked: u64, machine: &Machine) -> Result<(), Failure> {
    // A machine that does not say how much it has is taken at its user's word.
    if machine.memory_available_bytes == 0 || asked <= machine.memory_available_bytes {
        return Ok(());
    }
    let human = crate::bytes::human;
    Err(Failure::new(
        format!(
            "memory: {} asked for, and {} are available here",
            human(asked),
            human(machine.memory_available_bytes)
        ),
        "ask for less (--memory), or free some",
    ))
}

fn flag(setting: &'static Setting) -> Arg {
    let help =
        format!("{} [env: {}] [default: {}]", setting.about, setting.variable(), setting.default_words());
    // Up to the first pause; what stands within a word, as in tcp://, is none.
    let pause = ["; ", ". ", ": "].into_iter().filter_map(|pause| setting.about.find(pause)).min();
    let short = setting.about[..pause.unwrap_or(setting.about.len())].trim_end_matches('.');
    let check = move |text: &str| setting.check(text).map(|()| text.to_owned());
    let arg = Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.value_name)
        .help(format!("{short} [default: {}]", setting.default_words()))
        .long_help(help)
        .value_parser(check)
        .action(ArgAction::Set)
        .help_heading("Settings");
    let arg = setting.once.map_or(arg.clone(), |once| arg.visible_alias(once));
    match setting.literal {
        Literal::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => arg,
    }
}

impl Args for SettingsArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The file with settings; none reads none [env: BARN_CONFIG] [default: barn/barn.toml in $XDG_CONFIG_HOME or ~/.config, then /etc/barn/barn.toml]")
            .help_heading("Settings");
        let left_out = LEFT_OUT.into_iter().map(|(name, setting, help)| {
            let action = ArgAction::SetTrue;
            Arg::new(name)
                .long(name)
                .action(action)
                .conflicts_with(setting)
                .help(help)
                .help_heading("Settings")
        });
        command.arg(file).args(SETTINGS.iter().map(flag)).args(left_out)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Given { config: matches.get_one::<PathBuf>("config").cloned(), flags: Vec::new() };
        for setting in SETTINGS {
            if let Some(value) = matches.get_one::<String>(setting.key) {
                given.flags.push((setting.key, value.clone(), format!("--{}", setting.flag())));
            }
        }
        for (name, setting, _) in LEFT_OUT {
            if matches.get_flag(name) {
                given.flags.push((setting, NONE.into(), format!("--{name}")));
            }
        }
        Ok(Self { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<SettingsArgs, clap::Error> {
        let command = SettingsArgs::augment_args(Command::new("serve"));
        SettingsArgs::from_arg_matches(&command.try_get_matches_from([&["serve"], args].concat())?)
    }

    #[test]
    fn every_setting_is_a_flag_and_nothing_else_is() {
        let command = SettingsArgs::augment_args(Command::new("serve"));
        let flags = command.get_arguments().filter_map(Arg::get_long).count();
        assert_eq!(flags, SETTINGS.len() + 1 + LEFT_OUT.len());
        command.debug_assert();
    }

    #[test]
    fn flags_are_told_from_what_was_not_said() {
        assert_eq!(parse(&[]).expect("parses").given, Given::default());
        let given =
            parse(&["--shm", "/x", "--accept-loss", "--no-tcp", "--config", "none"]).expect("parses").given;
        assert_eq!(given.config, Some("none".into()));
        let flags: Vec<_> =
            given.flags.iter().map(|(key, value, flag)| (*key, &value[..], &flag[..])).collect();
        assert_eq!(
            flags,
            [
                ("socket", "/x", "--socket"),
                ("accept_loss", "true", "--accept-loss"),
                ("tcp", "none", "--no-tcp")
            ]
        );
        assert_eq!(parse(&["--accept-loss=false"]).expect("parses").given.flags[0].1, "false");
    }

    #[test]
    fn a_flag_with_a_value_that_cannot_be_is_refused() {
        for (args, why) in [
            (&["--lease-ms", "1"][..], "from 50 to 600000"),
            (&["--memory", "much"], "64MiB"),
            (&["--tcp", "nowhere"], "ADDRESS:PORT"),
            (&["--no-tcp", "--tcp", "127.0.0.1:0"], "cannot be used with"),
            (&["--plough"], "unexpected"),
        ] {
            let said = parse(args).expect_err(why).to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        let mut machine = Machine::here();
        machine.memory_available_bytes = 1 << 30;
        assert!(check_memory(64 << 20, &machine).is_ok());
        for bytes in [(1 << 30) + 1, 1 << 50, u64::MAX] {
            let error = check_memory(bytes, &machine).unwrap_err().to_string();
            assert!(error.contains("1 GiB are available"), "{error}");
        }
        machine.memory_available_bytes = 0;
        assert!(check_memory(1 << 50, &machine).is_ok());
    }
}
