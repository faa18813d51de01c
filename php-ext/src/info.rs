//! The extension's section of `phpinfo()`.

use ext_php_rs::zend::ModuleEntry;
use ext_php_rs::{info_table_end, info_table_header, info_table_row, info_table_start};
use ratelimit_core::{VERSION, lua, store};

use crate::engine;

/// Prints version, stores, idle connections, scripts and settings.
pub(crate) extern "C" fn print(module: *mut ModuleEntry) {
    info_table_start!();
    info_table_row!("ratelimit", "enabled");
    info_table_row!("Version", VERSION);
    info_table_row!("Stores", "memory, shared, redis, sentinel, cluster");
    info_table_row!("Open connections", store::idle_connections().to_string());
    info_table_end!();

    info_table_start!();
    info_table_header!("Script", "SHA-1");
    for script in lua::scripts() {
        info_table_row!(script.name(), script.sha());
    }
    info_table_end!();
    engine::print_settings(module);
}
