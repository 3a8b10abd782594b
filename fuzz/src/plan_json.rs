//! Plans as JSON: whatever is read is written and read back as the same, and what is valid rebuilds
//! what was lost.
//!
//! Place: `suture-plan-1`, which other programs write and people edit. The cluster has fourteen
//! nodes n0 to n13; chunk i of every stripe lies on node i unless the plan rebuilds it.

use suture_code::{Code, Program};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::oracle::{self, Chunks};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::json::{PlannedBatch, read_document, read_plan, write_plan};
use suture_repair::plan::validate::{validate, validate_starts};
use suture_repair::plan::{Plan, StripeFacts};
use suture_repair::random::Random;

const NODES: usize = 14;
/// What is executed: larger chunks and codes take seconds.
const CHUNK_BYTES_MAX: u64 = 16 << 10;
const SUB_CHUNKS_MAX: usize = 128;

const CODES: [&str; 6] =
    ["rs(2,1)", "rs(4,2)", "rs(6,3)", "lrc(4,2,2)", "butterfly(4)", "clay(4,2,5)"];

/// Inputs to begin with: documents of two arbitrary plans.
pub fn valid() -> Vec<Vec<u8>> {
    let cluster = cluster();
    let document = |(index, code): (usize, &&str)| {
        let chunk_bytes = code.parse::<Code>().expect("a code").alignment() as u64 * 4;
        let plan = |seed| write_plan(&plan(code, chunk_bytes, seed), &cluster);
        let plans = [plan(index as u64), plan(index as u64 + 100)].join(",");
        format!(
            "{{\"format\":\"suture-plan-1\",\"code\":\"{code}\",\"chunk_bytes\":{chunk_bytes},\"plans\":[{plans}]}}"
        )
    };
    CODES.iter().enumerate().map(document).map(String::into_bytes).collect()
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::uniform(NODES, Rate(1e6));
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        node.name = format!("n{index}");
    }
    cluster
}

fn plan(code: &str, chunk_bytes: u64, seed: u64) -> Plan {
    let code: Code = code.parse().expect("it is a code");
    let lost = [ChunkIndex((seed % code.chunk_count() as u64) as u8)];
    let survivors = survivors(code, &lost);
    let stripe = StripeId(seed);
    let facts =
        StripeFacts { stripe, code: code.into(), chunk_bytes, survivors: &survivors, source: None };
    arbitrary_plan(&mut Random::new(seed), &facts, NODES)
}

fn survivors(code: Code, lost: &[ChunkIndex]) -> Vec<(ChunkIndex, NodeId)> {
    let others = code.chunks().filter(|chunk| !lost.contains(chunk));
    others.map(|chunk| (chunk, NodeId(chunk.0.into()))).collect()
}

/// Gives whether the input is a document with a valid plan.
///
/// # Panics
/// When a plan is not written and read back as the same, or a valid one rebuilds other bytes.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let cluster = cluster();
    let batch = match read_document(text, &cluster) {
        Ok(batch) => batch,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return false;
        }
    };
    let starts = validate_starts(&batch.plans);
    assert!(starts.err().is_none_or(|fault| !fault.to_string().is_empty()));
    let check = |plan: &&Plan| {
        let again = read_plan(&write_plan(plan, &cluster), &cluster);
        assert_eq!(again.as_ref(), Ok(*plan));
        is_valid(plan, &batch)
    };
    batch.plans.iter().filter(check).count() > 0
}

fn is_valid(plan: &Plan, batch: &PlannedBatch) -> bool {
    let code = batch.code;
    if code.chunk_count() * code.sub_chunk_count() as usize > SUB_CHUNKS_MAX {
        return false;
    }
    let survivors = survivors(code, &plan.lost);
    let facts = StripeFacts {
        stripe: plan.stripe,
        code: code.into(),
        chunk_bytes: batch.chunk_bytes,
        survivors: &survivors,
        source: None,
    };
    if let Err(fault) = validate(plan, &facts, NODES) {
        assert!(!fault.to_string().is_empty());
        return false;
    }
    let is_whole = batch.chunk_bytes.is_multiple_of(code.alignment() as u64);
    if is_whole && batch.chunk_bytes <= CHUNK_BYTES_MAX {
        let chunks = encode(code, batch.chunk_bytes as usize);
        let held = |chunk: &&ChunkIndex| !plan.lost.contains(chunk);
        let surviving = chunks.keys().filter(held).map(|chunk| (*chunk, chunks[chunk].clone()));
        for (lost, bytes) in oracle::execute(plan, &facts, &surviving.collect()) {
            let expected = oracle::expected(&chunks[&lost], &facts, plan.range);
            assert!(bytes == expected, "chunk {lost} comes out wrong: {plan:?}");
        }
    }
    true
}

/// Data of noise, and its parity.
fn encode(code: Code, chunk_bytes: usize) -> Chunks {
    let (alpha, k) = (code.sub_chunk_count() as usize, code.data_chunks());
    let byte = |chunk: usize, at: usize| (at * 31 + at / 251 + chunk * 17) as u8;
    let chunk = |chunk| (0..chunk_bytes).map(|at| byte(chunk, at)).collect::<Vec<u8>>();
    let mut chunks: Vec<Vec<u8>> = (0..k).map(chunk).collect();
    let sub_chunk = chunk_bytes / alpha;
    let mut parity = vec![vec![0; sub_chunk]; alpha * code.parity_chunks()];
    let data: Vec<&[u8]> = chunks.iter().flat_map(|chunk| chunk.chunks(sub_chunk.max(1))).collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    let program = Program::compile(&code.encode_dag()).expect("every code encodes");
    program.run(&data, &mut outputs).expect("the chunks are of equal lengths");
    chunks.extend(parity.chunks(alpha).map(|parts| parts.concat()));
    (0..).map(ChunkIndex).zip(chunks).collect()
}
