//! HDFS behind Suture's two seams: its NameNode as the keeper of the metadata, its DataNodes as
//! stores of chunks. A plugin in each daemon speaks the frames of `docs/hdfs-protocol.md`; nothing
//! of Hadoop is patched.
//!
//! Place: [stripes affected] -> queue -> plan -> [claim] -> dispatch -> [slices flow -> chunk
//! durable -> commit location] -> healthy.
//! * [`frame`] is one end of a connection; [`group`] reads a block group as a stripe;
//! * [`keeper`] is the NameNode as a keeper, which asks through [`namenode`]; [`link`] drives it,
//!   over the [`connections`] that [`listener`] takes, each a [`plugin_connection`];
//! * [`lease`] decides whether HDFS leaves its lost blocks to Suture, [`view`] shows how all of
//!   that stands;
//! * [`rebuilt`] writes down what was rebuilt;
//! * [`store`] is a DataNode as a chunk store, which asks through [`datanode`].
//!
//! Deliberately absent: deleting. What HDFS has in excess it removes itself.

pub mod connections;
pub mod datanode;
pub mod frame;
pub mod group;
pub mod keeper;
pub mod lease;
pub mod link;
pub mod listener;
pub mod namenode;
pub mod plugin_connection;
pub mod rebuilt;
pub mod store;
pub mod view;
