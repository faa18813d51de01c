//! What the Zend engine exports and `ext-php-rs` has no name for, behind functions that are safe to call.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use ext_php_rs::convert::IntoZval;
use ext_php_rs::ffi::{
    ext_php_rs_executor_globals, zend_atomic_bool, zend_atomic_bool_store, zend_class_entry, zend_execute_data,
    zend_hash_add_new, zend_lookup_class_ex, zend_property_info, zend_string, zend_type,
};
use ext_php_rs::types::{ZendHashTable, ZendObject, ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, ModuleEntry};

/// `ZEND_FETCH_CLASS_NO_AUTOLOAD`: an object cannot be of a class that nobody has loaded.
const NO_AUTOLOAD: u32 = 0x80;

unsafe extern "C" {
    static php_json_serializable_ce: *mut zend_class_entry;
    static spl_ce_InvalidArgumentException: *mut zend_class_entry;
    static spl_ce_RuntimeException: *mut zend_class_entry;
    static zend_interrupt_function: Option<unsafe extern "C" fn(*mut zend_execute_data)>;

    fn display_ini_entries(module: *mut ModuleEntry);
    fn is_numeric_str_function(text: *const zend_string, long: *mut i64, double: *mut f64) -> c_uchar;
    fn object_init_ex(object: *mut Zval, class: *mut zend_class_entry) -> c_int;
    fn php_log_err_with_severity(message: *const c_char, severity: c_int);
    fn usleep(microseconds: c_uint) -> c_int;
    fn zend_atomic_bool_load(flag: *const zend_atomic_bool) -> bool;
    fn zend_is_graceful_exit(exception: *const ZendObject) -> bool;
    fn zend_is_unwind_exit(exception: *const ZendObject) -> bool;
    fn zend_declare_typed_property(
        class: *mut zend_class_entry,
        name: *mut zend_string,
        default: *mut Zval,
        flags: c_int,
        doc: *mut zend_string,
        type_: zend_type,
    ) -> *mut zend_property_info;
    fn zend_ini_string_ex(name: *const c_char, length: usize, original: c_int, exists: *mut bool) -> *mut c_char;
    fn zend_parse_arg_str_weak(argument: *mut Zval, text: *mut *mut zend_string, position: u32) -> bool;
    fn zend_read_property(
        scope: *mut zend_class_entry,
        object: *mut ZendObject,
        name: *const c_char,
        length: usize,
        silent: bool,
        result: *mut Zval,
    ) -> *mut Zval;
    fn zend_timeout() -> !;
    fn zend_update_property(
        scope: *mut zend_class_entry,
        object: *mut ZendObject,
        name: *const c_char,
        length: usize,
        value: *mut Zval,
    );
    fn zend_zval_type_name(value: *const Zval) -> *const c_char;
}

/// A number in a string, as PHP reads it where it wants a number.
pub(crate) enum Number {
    Long(i64),
    Double(f64),
}

/// `\JsonSerializable`.
pub(crate) fn json_serializable() -> &'static ClassEntry {
    // SAFETY: the json extension is always part of PHP and started before any shared extension.
    unsafe { &*php_json_serializable_ce }
}

/// `\InvalidArgumentException`.
pub(crate) fn invalid_argument_exception() -> &'static ClassEntry {
    // SAFETY: the SPL extension is always part of PHP and started before any shared extension.
    unsafe { &*spl_ce_InvalidArgumentException }
}

/// `\RuntimeException`.
pub(crate) fn runtime_exception() -> &'static ClassEntry {
    // SAFETY: as above.
    unsafe { &*spl_ce_RuntimeException }
}

/// The number a string holds; with trailing garbage PHP warns, and the warning may have become an exception.
pub(crate) fn numeric(text: &ZendStr) -> Option<Number> {
    const IS_LONG: c_uchar = 4;
    const IS_DOUBLE: c_uchar = 5;
    let (mut long, mut double) = (0, 0.0);
    // SAFETY: the string is alive for the call, and both results are written before they are read.
    match unsafe { is_numeric_str_function(text.as_ptr(), &raw mut long, &raw mut double) } {
        IS_LONG => Some(Number::Long(long)),
        IS_DOUBLE => Some(Number::Double(double)),
        _ => None,
    }
}

/// Turns an argument into a string in place, as PHP does for a parameter of type `string`. False when it cannot be
/// one; then an exception may be pending.
pub(crate) fn make_string(argument: &mut Zval) -> bool {
    let mut text = ptr::null_mut();
    // SAFETY: the value is an argument slot that its call owns, so the engine may replace what is in it.
    unsafe { zend_parse_arg_str_weak(argument, &raw mut text, 0) }
}

/// A setting's current value; none when it is empty or nobody registered it.
pub(crate) fn setting(name: &CStr) -> Option<String> {
    let mut exists = false;
    // SAFETY: the name is a C string of that length; the answer is null or a C string that lives until the setting
    // changes, and it is copied at once.
    let value = unsafe {
        let value = zend_ini_string_ex(name.as_ptr(), name.count_bytes(), 0, &raw mut exists);
        if value.is_null() { None } else { Some(CStr::from_ptr(value).to_string_lossy().into_owned()) }
    };
    value.filter(|value| exists && !value.is_empty())
}

/// Prints the table of the module's settings.
pub(crate) fn print_settings(module: *mut ModuleEntry) {
    // SAFETY: the engine passes its own entry of this module to the function that calls this.
    unsafe { display_ini_entries(module) }
}

/// Declares a typed property. Without a default it stays uninitialized, as one whose value lives in Rust has to.
pub(crate) fn declare_property(
    class: &mut ClassEntry,
    name: &str,
    flags: u32,
    type_: zend_type,
    default: Option<&mut Zval>,
) {
    let name = ZendStr::new_interned(name, true).into_raw();
    let mut undefined = Zval::new();
    undefined.u1.type_info = 0;
    let default = default.unwrap_or(&mut undefined);
    // SAFETY: called while the module starts; the class has just been registered, the name is interned for good and
    // the default needs no memory of a request.
    unsafe { zend_declare_typed_property(class, name, default, flags.cast_signed(), ptr::null_mut(), type_) };
}

/// A new object of a class, without a call of its constructor.
pub(crate) fn new_object(class: &ClassEntry) -> Zval {
    let mut object = Zval::new();
    // SAFETY: the class is registered and can be instantiated; the result is written before it is read.
    unsafe { object_init_ex(&raw mut object, ptr::from_ref(class).cast_mut()) };
    object
}

/// Writes a property as code of `scope` would: also a private or a readonly one.
pub(crate) fn write_property(scope: &ClassEntry, object: &mut ZendObject, name: &str, mut value: Zval) {
    let scope = ptr::from_ref(scope).cast_mut();
    // SAFETY: scope and object are alive; the engine copies the value, which is dropped afterwards.
    unsafe { zend_update_property(scope, object, name.as_ptr().cast(), name.len(), &raw mut value) };
}

/// Does what the engine does between two statements when somebody has asked for its attention: signal handlers run, and
/// a script over its time limit ends.
pub(crate) fn handle_interrupt() {
    // SAFETY: called inside a call of PHP's on the engine's thread, so the globals are alive and so is the frame of that
    // call. Both functions may leave by a jump to the engine, as any call into PHP may; nothing here has to be undone.
    unsafe {
        let globals = ext_php_rs_executor_globals();
        if !zend_atomic_bool_load(&raw const (*globals).vm_interrupt) {
            return;
        }
        if zend_atomic_bool_load(&raw const (*globals).timed_out) {
            zend_timeout();
        }
        zend_atomic_bool_store(&raw mut (*globals).vm_interrupt, false);
        if let Some(interrupt) = zend_interrupt_function {
            interrupt((*globals).current_execute_data);
        }
        // The engine looks once more when the call returns, for what else there may be.
        zend_atomic_bool_store(&raw mut (*globals).vm_interrupt, true);
    }
}

/// Goes on with a jump to the engine that was caught on its way.
pub(crate) fn bail_out() -> ! {
    // SAFETY: called inside a call of PHP's on the engine's thread, which the engine has begun with a place to jump to.
    unsafe { ext_php_rs::zend::bailout() }
}

/// Whether what is pending as an exception is an `exit` on its way.
pub(crate) fn is_exit() -> bool {
    // SAFETY: called inside a call of PHP's on the engine's thread; the pending object is alive, and only looked at.
    unsafe {
        let pending = (*ext_php_rs_executor_globals()).exception;
        !pending.is_null() && (zend_is_unwind_exit(pending) || zend_is_graceful_exit(pending))
    }
}

/// Writes a line to PHP's error log. A NUL ends it.
pub(crate) fn log(line: &str) {
    const LOG_NOTICE: c_int = 5;
    let line = format!("PHP Warning:  ratelimit: {line}\0");
    // SAFETY: the text is ended by a NUL and copied by the function.
    unsafe { php_log_err_with_severity(line.as_ptr().cast(), LOG_NOTICE) };
}

/// Sleeps for less than a second; a signal ends it.
pub(crate) fn sleep(duration: Duration) {
    // SAFETY: the function takes any number below a million.
    unsafe { usleep(duration.subsec_micros()) };
}

/// What PHP calls the type of a value in its own messages: `int`, `array`, or the name of an object's class.
pub(crate) fn type_name(value: &Zval) -> String {
    if let Some(name) = value.object().and_then(|object| object.get_class_name().ok()) {
        return name;
    }
    // SAFETY: the value is alive; the answer is a constant C string.
    unsafe { CStr::from_ptr(zend_zval_type_name(value)) }.to_string_lossy().into_owned()
}

/// A class or interface by its name. Loads nothing.
pub(crate) fn class(name: &str) -> Option<&'static ClassEntry> {
    let mut name = ZendStr::new(name, false);
    // SAFETY: the name is alive for the call; the answer is null or a class that lives until the request is over.
    unsafe { zend_lookup_class_ex(&raw mut *name, ptr::null_mut(), NO_AUTOLOAD).as_ref() }
}

/// A property as code of `scope` would read it: also a private one. Null where there is none.
pub(crate) fn read_property(scope: &ClassEntry, object: &ZendObject, name: &str) -> Zval {
    let scope = ptr::from_ref(scope).cast_mut();
    let object = ptr::from_ref(object).cast_mut();
    let mut own = Zval::new();
    // SAFETY: scope and object are alive. The answer is null, the place of a property, or `own` with a value that
    // getters of the class have made and that is ours; it is copied at once.
    unsafe {
        zend_read_property(scope, object, name.as_ptr().cast(), name.len(), true, &raw mut own)
            .as_ref()
            .map(|value| value.dereference().shallow_clone())
            .unwrap_or_default()
    }
}

/// A declared type that `ext-php-rs` cannot spell: adds `bits` to the type of a method's argument.
pub(crate) fn widen_argument(class: &ClassEntry, method: &CStr, argument: usize, bits: u32) {
    // SAFETY: called while the module starts. The table holds the method that was just registered, its argument
    // infos have been allocated for it and nobody else reads them yet.
    unsafe {
        let function =
            ext_php_rs::ffi::zend_hash_str_find(&raw const class.function_table, method.as_ptr(), method.count_bytes());
        if let Some(function) = function.as_ref() {
            let function = function.value.ptr.cast::<ext_php_rs::ffi::zend_function>();
            let infos = (*function).internal_function.arg_info;
            (*infos.add(argument)).type_.type_mask |= bits;
        }
    }
}

/// A type that is a class, for a property.
pub(crate) fn class_type(name: &str) -> zend_type {
    let name = ZendStr::new_interned(name, true).into_raw().cast::<c_void>();
    zend_type { ptr: name, type_mask: ext_php_rs::ffi::_ZEND_TYPE_NAME_BIT }
}

/// A key of the arrays that we return, made once: the engine then neither copies nor hashes it.
pub(crate) struct Key(AtomicPtr<ZendStr>);

impl Key {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Makes the key, while the module starts.
    pub(crate) fn set(&self, text: &str) {
        self.0.store(ZendStr::new_interned(text, true).into_raw(), Ordering::Release);
    }

    /// Adds a member to an array that has none of this key.
    pub(crate) fn add(&self, array: &mut ZendHashTable, value: impl IntoZval) -> ext_php_rs::error::Result<()> {
        let mut value = ManuallyDrop::new(value.into_zval(false)?);
        // SAFETY: the key was made when the module started and is interned for good; the array takes the value over.
        unsafe { zend_hash_add_new(array, self.0.load(Ordering::Acquire), &raw mut *value) };
        Ok(())
    }
}
