//! Making and dropping tables in the catalogue.

use super::{Coordinator, No};
use crate::catalogue::{SHARDS_MAX, TABLE_OPTIONS_BYTES_MAX, TABLES_MAX, TablePlacement, check_table_name};
use crate::member::MemberId;
use crate::message::{Refusal, Response};
use std::time::Duration;

impl Coordinator {
    /// Makes a table. One that is there with the same options is the answer, too: a request that is
    /// asked again is answered in the same way.
    pub(super) async fn create_table(
        &mut self,
        now: Duration,
        name: String,
        options: String,
        shards: u32,
    ) -> Result<Response, No> {
        let bad = |why: String| No::from(Refusal::BadRequest { why });
        check_table_name(&name).map_err(bad)?;
        if options.len() > TABLE_OPTIONS_BYTES_MAX {
            return Err(bad(format!("the options have {} bytes", options.len())));
        }
        if let Some(there) = self.configuration.tables.iter().find(|table| table.name == name) {
            if there.options != options {
                return Err(Refusal::TableExists { name }.into());
            }
            let (placed, configuration) = (there.clone(), self.configuration.clone());
            return Ok(Response::TableCreated { placed, configuration });
        }
        if self.configuration.tables.len() >= TABLES_MAX {
            return Err(bad(format!("there are {TABLES_MAX} tables, the most there may be: drop one")));
        }
        let holders: Vec<MemberId> = (self.configuration.members.iter().map(|member| member.id))
            .filter(|member| self.configuration.regions_of(*member).next().is_some())
            .collect();
        if holders.is_empty() {
            return Err(bad("no member has memory".into()));
        }
        let count = if shards == 0 { holders.len() } else { shards as usize };
        if count > SHARDS_MAX {
            return Err(bad(format!("{count} shards: at most {SHARDS_MAX}")));
        }
        let table = self.configuration.next_table.max(1);
        // Tables begin at different members, so that small ones do not all lie at the first.
        let first = table as usize % holders.len();
        let shards = (0..count).map(|shard| holders[(first + shard) % holders.len()]).collect();
        let placed = TablePlacement { table, name, options, shards };
        tracing::info!(table = placed.name, number = table, shards = placed.shards.len(), "a table was made");
        let added = placed.clone();
        self.establish(now, move |next| {
            next.next_table = table + 1;
            next.tables.push(added);
        })
        .await?;
        Ok(Response::TableCreated { placed, configuration: self.configuration.clone() })
    }

    /// Drops a table: its memory is given back when the nodes hear of it.
    pub(super) async fn drop_table(&mut self, now: Duration, name: String) -> Result<Response, No> {
        if !self.configuration.tables.iter().any(|table| table.name == name) {
            return Err(Refusal::NoTable { name }.into());
        }
        tracing::info!(table = name, "a table was dropped");
        self.establish(now, move |next| next.tables.retain(|table| table.name != name)).await?;
        Ok(Response::TableDropped { configuration: self.configuration.clone() })
    }
}
