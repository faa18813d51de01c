//! What limiters have done, as text for a monitoring system.

use ext_php_rs::prelude::*;

#[php_function]
#[php(name = "RateLimit\\metrics")]
pub(crate) fn metrics() -> String {
    ratelimit_core::metrics::text()
}

/// Adds the function to the module.
pub(crate) fn register(module: ModuleBuilder) -> ModuleBuilder {
    module.function(wrap_function!(metrics))
}
