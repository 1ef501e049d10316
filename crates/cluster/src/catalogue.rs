//! The catalogue: which tables there are, how they were made, and who holds their shards.
//!
//! What a table's options say is for the layer that makes tables; here they are text.

use crate::configuration::{ConfigurationError, in_order, within};
use crate::member::MemberId;
use serde::{Deserialize, Serialize};

/// Tables of one cluster.
pub const TABLES_MAX: usize = 4096;
/// Shards of one table.
pub const SHARDS_MAX: usize = 1024;
/// The longest name of a table.
pub const TABLE_NAME_BYTES_MAX: usize = 128;
/// The longest text of a table's options.
pub const TABLE_OPTIONS_BYTES_MAX: usize = 1024;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePlacement {
    /// Its number, which no other table ever has.
    pub table: u32,
    /// Its name, which no other table has now.
    pub name: String,
    /// How it was made.
    pub options: String,
    /// Who holds its shards.
    pub shards: Vec<MemberId>,
}

/// Whether a table can have this name: letters, digits and `_-.:/`, for it is typed and printed.
pub fn check_table_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > TABLE_NAME_BYTES_MAX {
        return Err(format!("a table's name has from 1 to {TABLE_NAME_BYTES_MAX} bytes"));
    }
    let odd = name.chars().find(|c| !(c.is_alphanumeric() || "_-.:/".contains(*c)));
    match odd {
        Some(odd) => Err(format!("a table's name has letters, digits and _-.:/ only, not {odd:?}")),
        None => Ok(()),
    }
}

/// Checks a catalogue: in order of numbers, names distinct, everything within its bounds.
pub(crate) fn validate(
    tables: &[TablePlacement],
    next_table: u32,
    next_member: u32,
) -> Result<(), ConfigurationError> {
    within("number of tables", tables.len() as u64, 0, TABLES_MAX as u64)?;
    in_order("tables", tables, |table| table.table)?;
    let mut names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    names.sort_unstable();
    in_order("names of tables", &names, |name| *name)?;
    for table in tables {
        within("table's number", table.table.into(), 1, u64::from(next_table.max(1)) - 1)?;
        within("length of a table's name", table.name.len() as u64, 1, TABLE_NAME_BYTES_MAX as u64)?;
        within("length of a table's options", table.options.len() as u64, 0, TABLE_OPTIONS_BYTES_MAX as u64)?;
        within("number of shards", table.shards.len() as u64, 1, SHARDS_MAX as u64)?;
        for member in &table.shards {
            within("shard's member", member.0.into(), 1, u64::from(next_member.max(1)) - 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(number: u32, name: &str) -> TablePlacement {
        TablePlacement { table: number, name: name.into(), options: "{}".into(), shards: vec![MemberId(1)] }
    }

    #[test]
    fn what_cannot_be_right_is_found() {
        assert_eq!(validate(&[table(1, "b"), table(2, "a")], 3, 2), Ok(()));
        assert!(validate(&[table(2, "b"), table(1, "a")], 3, 2).is_err(), "out of order");
        assert!(validate(&[table(1, "a"), table(2, "a")], 3, 2).is_err(), "a name twice");
        assert!(validate(&[table(3, "a")], 3, 2).is_err(), "a number that was never given out");
        assert!(validate(&[table(1, "a")], 2, 1).is_err(), "a member that never was");
        assert!(validate(&[TablePlacement { shards: Vec::new(), ..table(1, "a") }], 2, 2).is_err());
    }

    #[test]
    fn names_can_be_typed() {
        assert!(check_table_name("users/by-id.v2").is_ok());
        assert!(check_table_name("").is_err() && check_table_name("a b").is_err());
        assert!(check_table_name(&"x".repeat(TABLE_NAME_BYTES_MAX + 1)).is_err());
    }
}
