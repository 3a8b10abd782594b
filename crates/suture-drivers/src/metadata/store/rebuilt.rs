//! Metadata that are made again from what the agents hold.
//!
//! Place: beside the life of a repair, before a coordinator starts on them.
//! Invariant: what is recorded already stays as it is, but that a newer object may take its name;
//! what is added comes at once or not at all.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Transaction, params};
use suture_repair::id::{ChunkIndex, StripeId};
use suture_repair::wire::ClusterId;

use super::{MetadataError, MetadataStore, Object, ObjectStripe, put, sealed, stripes};

/// What to do with chunks that belong to no object in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They stay: agents that did not report may hold what they lack.
    Keep,
    /// They are orphans from now on, and a coordinator has them deleted.
    Forget,
}

/// What was added to the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The objects, in the order of their stripes.
    pub objects: u64,
    /// How many stripes they have together.
    pub stripes: u64,
    /// Bytes of the objects together.
    pub bytes: u64,
    /// Objects whose name a newer one has, or one that can be read: theirs, and what they are
    /// called now.
    pub renamed: Vec<(String, String)>,
    /// Objects whose records were damaged, and removed before.
    pub damaged: u64,
}

impl MetadataStore {
    /// These metadata, which nothing was ever recorded in, are of this cluster.
    ///
    /// # Errors
    /// When the database fails.
    pub fn take_cluster(&mut self, cluster: ClusterId) -> Result<(), MetadataError> {
        let transaction = self.database.transaction()?;
        sealed::change_cluster(&transaction, |own| {
            own.execute("UPDATE cluster SET id = ?1", [cluster.0.cast_signed()])
        })?;
        transaction.commit()?;
        self.cluster = cluster;
        Ok(())
    }

    /// The ids of all stripes, but for those of objects that were set aside.
    ///
    /// # Errors
    /// When the database fails.
    pub fn stripe_ids(&self) -> Result<BTreeSet<StripeId>, MetadataError> {
        let mut query = self.database.prepare("SELECT id, object FROM stripe")?;
        let ids = query.query_map([], |row| Ok((StripeId(row.get(0)?), row.get(1)?)))?;
        let ids: Vec<(StripeId, i64)> = ids.collect::<Result<_, _>>()?;
        let is_good = |(_, object): &(StripeId, i64)| !self.damaged.contains(object);
        Ok(ids.into_iter().filter(is_good).map(|(id, _)| id).collect())
    }

    /// Records objects that were found. Of those with one name the first keeps it; where the name
    /// is recorded already, that is for the older one to give up if the newer can be read. Others
    /// get other names. The metadata count as complete then.
    ///
    /// # Errors
    /// When the database fails; then none is recorded.
    pub fn add_found(
        &mut self,
        found: &[(Object, Vec<ObjectStripe>)],
        leftovers: Leftovers,
    ) -> Result<Added, MetadataError> {
        let transaction = self.database.transaction()?;
        remove_damaged(&transaction, &self.damaged)?;
        let mut added = Added { damaged: self.damaged.len() as u64, ..Added::default() };
        for (object, stripes) in found {
            let first = stripes[0].stripe.id;
            let other = free_name(&transaction, &object.name, &of_stripe(first))?;
            let older = older(&transaction, object, first)?;
            let name = match older.filter(|_| is_readable(stripes)) {
                None => other,
                Some(older) => {
                    let name = free_name(&transaction, &object.name, &older)?;
                    let rename = "UPDATE object SET name = ?2 WHERE name = ?1";
                    transaction.execute(rename, (&object.name, &name))?;
                    stripes::complete_object(&transaction, &name)?;
                    added.renamed.push((object.name.clone(), name));
                    object.name.clone()
                }
            };
            if name != object.name {
                added.renamed.push((object.name.clone(), name.clone()));
            }
            put::insert_object(&transaction, &Object { name, ..object.clone() }, stripes)?;
            added.objects += 1;
            added.stripes += stripes.len() as u64;
            added.bytes += object.bytes;
        }
        let beyond = "UPDATE cluster SET set_back = 0, next_stripe =
                          max(next_stripe, (SELECT coalesce(max(id) + 1, 0) FROM stripe))";
        sealed::change_cluster(&transaction, |cluster| cluster.execute(beyond, []))?;
        if leftovers == Leftovers::Forget {
            transaction.execute("DELETE FROM unknown", [])?;
        }
        transaction.commit()?;
        self.is_set_back = false;
        Ok(added)
    }
}

/// Removes damaged objects, which come again where their labels are found.
fn remove_damaged(
    transaction: &Transaction<'_>,
    damaged: &BTreeSet<i64>,
) -> Result<(), MetadataError> {
    for object in damaged {
        transaction.execute("DELETE FROM stripe WHERE object = ?1", [object])?;
        transaction.execute("DELETE FROM object WHERE id = ?1", [object])?;
    }
    let left = "DELETE FROM chunk WHERE stripe NOT IN (SELECT id FROM stripe)";
    transaction.execute(left, [])?;
    Ok(())
}

/// Whether enough chunks of each stripe are anywhere.
pub fn is_readable(stripes: &[ObjectStripe]) -> bool {
    stripes.iter().all(|ObjectStripe { stripe, .. }| {
        let is_there = |chunk: &ChunkIndex| stripe.record(*chunk).node.is_some();
        stripe.code.decodable(&stripe.indices().filter(is_there).collect::<Vec<ChunkIndex>>())
    })
}

/// What distinguishes the object that has the name of `than`, if it is older than this, which
/// begins with that stripe: clocks are set, but ids of stripes only grow. One of no bytes has no
/// stripe, and its time has to do.
fn older(
    transaction: &Transaction<'_>,
    than: &Object,
    begins: StripeId,
) -> Result<Option<String>, MetadataError> {
    let recorded =
        "SELECT created, (SELECT id FROM stripe WHERE object = object.id AND ordinal = 0)
                    FROM object WHERE name = ?1";
    let recorded = transaction.query_row(recorded, [&than.name], |row| {
        Ok((row.get::<_, u64>(0)?, row.get::<_, Option<u64>>(1)?.map(StripeId)))
    });
    Ok(match recorded.optional()? {
        Some((_, Some(first))) => (first < begins).then(|| of_stripe(first)),
        Some((created, None)) => (created <= than.created).then(|| "empty".into()),
        None => None,
    })
}

/// What distinguishes an object that begins with a stripe.
fn of_stripe(first: StripeId) -> String {
    format!("stripe-{}", first.0)
}

/// The name, or one that is made of it where that is taken.
fn free_name(
    transaction: &Transaction<'_>,
    wanted: &str,
    which: &str,
) -> Result<String, MetadataError> {
    let mut is_taken =
        transaction.prepare_cached("SELECT EXISTS (SELECT 1 FROM object WHERE name = ?1)")?;
    let mut name = wanted.to_string();
    for again in 0u64.. {
        if !is_taken.query_row(params![name], |row| row.get(0))? {
            break;
        }
        let suffix = if again == 0 { String::new() } else { format!(".{again}") };
        name = format!("{wanted}.{which}{suffix}");
    }
    Ok(name)
}
