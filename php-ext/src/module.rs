//! What PHP loads: the module with its settings, classes and `phpinfo()` section.

use ext_php_rs::internal::startup_guard;
use ext_php_rs::prelude::*;

use crate::class::{self, OR_ARRAY, OR_OBJECT};
use crate::client_ip::ClientIp;
use crate::clock::{self, ManualClock};
use crate::concurrency::Concurrency;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::lock::Lock;
use crate::policy::Policy;
use crate::store::Store;
use crate::{exception, info, ini, metrics, outbound, token_bucket};

#[php_module]
#[php(startup = start)]
pub fn get_module(module: ModuleBuilder) -> ModuleBuilder {
    let module = module.name("ratelimit").version(ratelimit_core::VERSION).info_function(info::print);
    outbound::with_functions(metrics::register(module))
}

/// Runs once per process, or once per restart of a server that restarts its modules.
fn start(_type: i32, module: i32) -> i32 {
    startup_guard(|| {
        ini::register(module);
        // Before the master of a server forks its workers, so that they count together.
        ratelimit_core::metrics::touch();
        exception::register()?;
        clock::register()?;
        class::register::<ManualClock>()?;
        class::register::<Policy>()?;
        class::register::<Store>()?;
        class::register::<Decision>()?;
        class::register::<ClientIp>()?;
        for header in [1, 2] {
            class::widen::<ClientIp>(c"resolve", header, OR_ARRAY);
        }
        class::register::<Limiter>()?;
        for policies_or_secrets in [0, 5] {
            class::widen::<Limiter>(c"__construct", policies_or_secrets, OR_ARRAY);
        }
        for verb in [c"allow", c"peek", c"reserve", c"wait", c"refund", c"reset"] {
            class::widen::<Limiter>(verb, 0, OR_ARRAY);
        }
        class::register::<Lock>()?;
        class::register::<Concurrency>()?;
        class::widen::<Store>(c"redis", 0, OR_OBJECT);
        outbound::register()?;
        if ini::global_token_bucket() {
            token_bucket::register()?;
        }
        Ok(())
    })
}
