//! Settings with a handful of words to choose from.
//!
//! What always holds: the word that a choice is shown as is the word that it is read from.

use std::fmt;
use std::str::FromStr;

/// Makes a choice: its words are written once, here.
macro_rules! choice {
    ($(#[$of:meta])* $name:ident, $what:literal, { $($(#[$one:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$one])* $variant),+ }

        impl $name {
            /// The words, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("`{word}` is no {}: write one of {}", $what, Self::WORDS.join(", "))),
                }
            }
        }
    };
}

choice! {
    /// How much the node says.
    LogLevel, "level", {
        /// Only what keeps it from serving.
        Error = "error",
        /// Also what somebody should look at.
        Warn = "warn",
        /// Also what changes: members, tables, its own start and end.
        Info = "info",
        /// Also what helps to find a fault.
        Debug = "debug",
    }
}

choice! {
    /// The form in which it says so.
    LogFormat, "format", {
        /// A line of words.
        Text = "text",
        /// An object of JSON for each line.
        Json = "json",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_is_shown_and_others_are_refused() {
        for word in LogLevel::WORDS {
            assert_eq!(word.parse::<LogLevel>().map(|choice| choice.to_string()), Ok(word.to_string()));
        }
        let why = "loud".parse::<LogLevel>().unwrap_err();
        assert_eq!(why, "`loud` is no level: write one of error, warn, info, debug");
        assert!("".parse::<LogFormat>().is_err() && "JSON".parse::<LogFormat>().is_err());
    }
}
