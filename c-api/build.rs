//! Gives the shared library the name that programs linked with it look for.

/// Raised with every incompatible change of the interface.
const SONAME: &str = "libratelimit.so.0";

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    println!("cargo:rerun-if-changed=build.rs");
}
