//! Writes the inputs that each target begins with to its corpus, and says how many go deep:
//! `cargo run --example seeds`.

use std::fs;
use std::path::Path;

use suture_fuzz::TARGETS;

fn main() {
    for (target, valid, check) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder).expect("the corpus can be written");
        let inputs = valid();
        let deep = inputs.iter().filter(|input| check(input)).count();
        for (index, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index:02}")), input).expect("it can be written");
        }
        println!("{target}: {} inputs, of which {deep} are accepted", inputs.len());
    }
}
