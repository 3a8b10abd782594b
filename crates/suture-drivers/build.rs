//! Generates the control plane's messages and services from `proto/suture.proto`, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["suture.proto"], ["proto"])?;
    // Encoded once, shared by many: not copied for each.
    let shared = ".suture.v1.CoordinatorMessage.dispatch";
    tonic_prost_build::configure().bytes(shared).compile_fds(descriptors)?;
    Ok(())
}
