//! The settings: `ratelimit.store` and `ratelimit.global_token_bucket`.

use std::ffi::{CStr, c_int, c_void};

use ext_php_rs::ffi::{php_output_write, sapi_module, zend_ini_entry, zend_string};
use ext_php_rs::flags::IniEntryPermission;
use ext_php_rs::zend::{IniEntryDef, IniEntryDefs};

use crate::engine;

static SETTINGS: IniEntryDefs<3> = IniEntryDefs::new([
    IniEntryDef { displayer: Some(display_store), ..setting(c"ratelimit.store", c"", IniEntryPermission::All) },
    setting(c"ratelimit.global_token_bucket", c"1", IniEntryPermission::System),
    IniEntryDef::end(),
]);

const fn setting(name: &'static CStr, default: &'static CStr, permission: IniEntryPermission) -> IniEntryDef {
    IniEntryDef { on_modify: Some(accept), ..IniEntryDef::new(name, default, permission) }
}

/// Registers the settings, while the module starts.
pub(crate) fn register(module: i32) {
    IniEntryDef::register(SETTINGS.as_slice(), module);
}

/// The DSN of the default store, if there is one.
pub(crate) fn store() -> Option<String> {
    engine::setting(c"ratelimit.store")
}

/// Whether the global class `TokenBucket` is wanted.
pub(crate) fn global_token_bucket() -> bool {
    let value = engine::setting(c"ratelimit.global_token_bucket").unwrap_or_default().to_lowercase();
    !matches!(value.as_str(), "" | "0" | "off" | "no" | "false")
}

/// Takes any value: the engine restores a changed setting only where somebody says that it may.
unsafe extern "C" fn accept(
    _entry: *mut zend_ini_entry,
    _value: *mut zend_string,
    _argument1: *mut c_void,
    _argument2: *mut c_void,
    _argument3: *mut c_void,
    _stage: c_int,
) -> c_int {
    0
}

/// Prints the DSN for `phpinfo()`, without the password that may be in it.
unsafe extern "C" fn display_store(entry: *mut zend_ini_entry, kind: c_int) {
    const ORIGINAL: c_int = 1;
    // SAFETY: the engine passes a live entry, whose values are null or strings.
    let dsn = unsafe {
        let entry = &*entry;
        let modified = kind == ORIGINAL && entry.modified != 0;
        if modified { entry.orig_value.as_ref() } else { entry.value.as_ref() }
    };
    let dsn = dsn.map(|dsn| String::from_utf8_lossy(dsn.as_bytes())).filter(|dsn| !dsn.is_empty());
    let shown = dsn.map_or_else(|| "no value".to_owned(), |dsn| without_password(&dsn));
    // SAFETY: the server interface is set up before any request; the text is alive for the call.
    unsafe {
        let shown = if sapi_module.phpinfo_as_text == 0 { escaped(&shown) } else { shown };
        php_output_write(shown.as_ptr().cast(), shown.len());
    }
}

/// A DSN with what stands before its `@`, and a password among its options, left out.
fn without_password(dsn: &str) -> String {
    let (place, options) = dsn.split_once('?').unwrap_or((dsn, ""));
    let mut shown = match (place.find("://"), place.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => format!("{}***{}", &place[..scheme + 3], &place[at..]),
        _ => place.to_owned(),
    };
    for (position, option) in options.split('&').filter(|option| !option.is_empty()).enumerate() {
        shown.push(if position == 0 { '?' } else { '&' });
        shown.push_str(if option.starts_with("password") { "password=***" } else { option });
    }
    shown
}

/// A text inside HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
