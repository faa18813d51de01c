//! Which version this is.

use std::ffi::{CStr, c_char};

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero byte"),
};

/// The version of the library that runs, such as `0.1.0`. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn rl_version() -> *const c_char {
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_that_of_the_core() {
        assert_eq!(super::VERSION.to_str(), Ok(ratelimit_core::VERSION));
    }
}
