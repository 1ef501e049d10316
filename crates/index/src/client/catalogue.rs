//! Making, opening, listing and dropping tables.

use super::table::Table;
use crate::error::TableError;
use crate::options::TableOptions;
use barn_cluster::{Refusal, Request, Response, TablePlacement};
use barn_transaction::{Client, ClientError};

/// A table in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Its number.
    pub table: u32,
    /// How it was made.
    pub options: TableOptions,
    /// How many shards it has.
    pub shards: usize,
}

fn refused(refusal: Refusal) -> TableError {
    match refusal {
        Refusal::TableExists { name } => TableError::Exists(name),
        Refusal::NoTable { name } => TableError::NoTable(name),
        other => TableError::Client(ClientError::Refused { why: other.to_string() }),
    }
}

fn odd(response: &Response) -> TableError {
    TableError::Client(ClientError::Refused { why: format!("an answer of another kind: {response:?}") })
}

/// Brings the directory up to date; if no node answers, the cluster is looked for until the deadline.
async fn find_cluster(client: &Client) -> Result<(), ClientError> {
    let mut waits = client.attempts();
    loop {
        if client.refresh(waits.left() / 2).await || client.recover(waits.left()).await {
            return Ok(());
        }
        let error = ClientError::NotReady { why: "no node of the cluster answers".into() };
        if !waits.again(&error).await {
            return Err(error);
        }
    }
}

impl Table {
    /// Makes a table with `shards` shards, 0 for one at each node. A seed of 0 is replaced by a random
    /// one. An error if there is a table of this name.
    pub async fn create(
        client: &Client,
        name: &str,
        mut options: TableOptions,
        shards: u32,
    ) -> Result<Self, TableError> {
        options.validate()?;
        if options.seed == 0 {
            options.seed = client.random();
        }
        let request = Request::CreateTable { name: name.into(), options: options.to_text(), shards };
        match client.coordinate(&request).await?.0 {
            Response::TableCreated { placed, .. } => Self::new(client.clone(), placed),
            Response::Refused(refusal) => Err(refused(refusal)),
            other => Err(odd(&other)),
        }
    }

    /// Opens a table that is there.
    pub async fn open(client: &Client, name: &str) -> Result<Self, TableError> {
        let placed = || client.directory().configuration().table_named(name).cloned();
        // A table that this client knows may have been dropped and made again; that costs a question
        // only when it is opened.
        find_cluster(client).await?;
        let placed: Option<TablePlacement> = placed();
        Self::new(client.clone(), placed.ok_or_else(|| TableError::NoTable(name.into()))?)
    }

    /// Opens a table, which is made if it is not there. One that is there keeps its options.
    pub async fn open_or_create(
        client: &Client,
        name: &str,
        options: TableOptions,
    ) -> Result<Self, TableError> {
        match Self::open(client, name).await {
            Err(TableError::NoTable(_)) => match Self::create(client, name, options, 0).await {
                // Somebody else was faster.
                Err(TableError::Exists(_)) => Self::open(client, name).await,
                created => created,
            },
            opened => opened,
        }
    }

    /// Drops a table, with all that is in it.
    pub async fn drop(client: &Client, name: &str) -> Result<(), TableError> {
        match client.coordinate(&Request::DropTable { name: name.into() }).await? {
            (Response::TableDropped { .. }, _) => Ok(()),
            // An attempt whose answer was lost has dropped it.
            (Response::Refused(Refusal::NoTable { .. }), true) => Ok(()),
            (Response::Refused(refusal), _) => Err(refused(refusal)),
            (other, _) => Err(odd(&other)),
        }
    }

    /// The tables that there are, by name.
    pub async fn list(client: &Client) -> Result<Vec<TableInfo>, TableError> {
        find_cluster(client).await?;
        let configuration = client.directory().configuration();
        let mut tables = Vec::new();
        for placed in &configuration.tables {
            tables.push(TableInfo {
                name: placed.name.clone(),
                table: placed.table,
                options: TableOptions::from_text(&placed.options)?,
                shards: placed.shards.len(),
            });
        }
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tables)
    }
}
