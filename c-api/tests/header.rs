//! The committed header is what the sources say. `UPDATE_HEADER=1 cargo test -p ratelimit-c` writes it anew.

use std::fs;
use std::path::Path;

#[test]
fn the_committed_header_is_the_generated_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = folder.join("../include/ratelimit.h");
    let generated = generated(folder);
    if std::env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&committed, &generated).expect("the header can be written");
    }
    let committed = fs::read_to_string(&committed).expect("the header is committed");
    assert!(
        committed == generated,
        "include/ratelimit.h is not what c-api/src says; UPDATE_HEADER=1 cargo test -p ratelimit-c writes it anew"
    );
}

fn generated(folder: &Path) -> String {
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a valid configuration");
    let bindings = cbindgen::Builder::new().with_config(config).with_crate(folder).generate().expect("valid sources");
    let mut header = Vec::new();
    bindings.write(&mut header);
    String::from_utf8(header).expect("a header in UTF-8")
}
