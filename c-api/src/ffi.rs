//! Pointers from C as references, and results back: the only place that handles raw memory.
//!
//! The macros name the argument in the error for `NULL` and hold the `unsafe` blocks, so that the functions
//! themselves read as plain Rust. What they rely on is what the header asks of its users: a pointer is either `NULL`
//! or points to what its type says, and stays so until the function returns.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use ratelimit_core::{Error, ErrorKind, Result};

/// What C holds by an opaque pointer. [`Out::give`] makes the pointer, [`release!`] ends it; nothing else owns one.
pub(crate) trait Handle {}

/// The place for a result. It is written once, at the end, so that it stays as it was when something fails.
pub(crate) struct Out<'a, T>(&'a mut MaybeUninit<T>);

impl<T> Out<'_, T> {
    /// Writes the result.
    pub(crate) fn write(self, value: T) {
        self.0.write(value);
    }
}

impl<T: Handle> Out<'_, *mut T> {
    /// Hands a new handle over to C, which owns it from now on.
    pub(crate) fn give(self, value: T) {
        self.write(Box::into_raw(Box::new(value)));
    }
}

/// A `const T *` or `T *` argument as `Result<&T>`; `NULL` is an error.
macro_rules! shared {
    ($argument:ident) => {
        // SAFETY: the caller of the C function passes NULL or a valid pointer, and keeps it valid until the return.
        unsafe { $crate::ffi::shared(stringify!($argument), $argument) }
    };
}

/// A `T *` argument that nobody else uses during the call, as `Result<&mut T>`; `NULL` is an error.
macro_rules! exclusive {
    ($argument:ident) => {
        // SAFETY: as for `shared!`, and the function's comment forbids other uses during the call.
        unsafe { $crate::ffi::exclusive(stringify!($argument), $argument) }
    };
}

/// An out-parameter as `Result<Out<T>>`; `NULL` is an error.
macro_rules! output {
    ($argument:ident) => {
        // SAFETY: the caller of the C function passes NULL or memory for one T that nobody else uses during the call.
        unsafe { $crate::ffi::output(stringify!($argument), $argument) }
    };
}

/// A pointer and a length as `Result<&[T]>`; `NULL` is an error unless the length is 0.
macro_rules! slice {
    ($argument:ident, $length:ident) => {
        // SAFETY: the caller of the C function passes NULL or a pointer to as many elements as it says.
        unsafe { $crate::ffi::slice(stringify!($argument), $argument, stringify!($length), $length) }
    };
}

/// A place for as many results as a length says, as `Result<&mut [MaybeUninit<T>]>`; `NULL` is an error unless the
/// length is 0.
macro_rules! outputs {
    ($argument:ident, $length:ident) => {
        // SAFETY: the caller of the C function passes NULL or memory for that many elements that nobody else uses.
        unsafe { $crate::ffi::outputs(stringify!($argument), $argument, stringify!($length), $length) }
    };
}

/// A place for bytes and its length as `Option<&mut [MaybeUninit<u8>]>`; `NULL` is none.
macro_rules! buffer {
    ($argument:ident, $length:ident) => {
        // SAFETY: the caller of the C function passes NULL or memory of that length that nobody else uses.
        unsafe { $crate::ffi::buffer($argument, $length) }
    };
}

/// A text ended by a zero byte as `Result<&str>`; `NULL` and anything but UTF-8 is an error.
macro_rules! text {
    ($argument:ident) => {
        // SAFETY: the caller of the C function passes NULL or a text ended by a zero byte.
        unsafe { $crate::ffi::text(stringify!($argument), $argument) }
    };
}

/// A text ended by a zero byte as `Option<&[u8]>`, of whatever bytes; `NULL` is none.
macro_rules! optional_bytes {
    ($argument:expr) => {
        // SAFETY: the caller of the C function passes NULL or a text ended by a zero byte.
        unsafe { $crate::ffi::optional_bytes($argument) }
    };
}

/// A struct that starts with its own size, as `Result<Option<&T>>`; `NULL` is none, another size is an error.
macro_rules! sized {
    ($argument:ident) => {
        // SAFETY: the caller of the C function passes NULL or a struct that is as long as its first member says.
        unsafe { $crate::ffi::sized($argument) }
    };
}

/// Takes a handle back from C and drops it; `NULL` is nothing to drop.
macro_rules! release {
    ($argument:ident) => {
        // SAFETY: the caller of the C function passes NULL or a handle of this library, and gives it up.
        unsafe { $crate::ffi::release($argument) }
    };
}

pub(crate) unsafe fn shared<'a, T>(name: &'static str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: the caller's promise: NULL, or valid.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

pub(crate) unsafe fn exclusive<'a, T>(name: &'static str, pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller's promise: NULL, or valid and used by nobody else.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

pub(crate) unsafe fn output<'a, T>(name: &'static str, pointer: *mut T) -> Result<Out<'a, T>> {
    // SAFETY: the caller's promise: NULL, or memory for one T; whether it is initialised does not matter.
    unsafe { pointer.cast::<MaybeUninit<T>>().as_mut() }.map(Out).ok_or_else(|| null(name))
}

pub(crate) unsafe fn slice<'a, T>(
    name: &'static str,
    pointer: *const T,
    length_name: &'static str,
    length: usize,
) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    fits(name, pointer, length_name, length)?;
    // SAFETY: the caller's promise: that many elements; and their size fits, as checked.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

pub(crate) unsafe fn outputs<'a, T>(
    name: &'static str,
    pointer: *mut T,
    length_name: &'static str,
    length: usize,
) -> Result<&'a mut [MaybeUninit<T>]> {
    if length == 0 {
        return Ok(&mut []);
    }
    fits(name, pointer, length_name, length)?;
    // SAFETY: the caller's promise: memory for that many elements, initialised or not; their size fits, as checked.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), length) })
}

/// Whether so many elements can be there at all.
fn fits<T>(name: &'static str, pointer: *const T, length_name: &'static str, length: usize) -> Result<()> {
    if pointer.is_null() {
        return Err(null(name));
    }
    let most = isize::MAX.unsigned_abs() / size_of::<T>();
    if length > most {
        return Err(invalid(length_name, format!("must be at most {most}, got {length}")));
    }
    Ok(())
}

pub(crate) unsafe fn buffer<'a>(pointer: *mut c_char, length: usize) -> Option<&'a mut [MaybeUninit<u8>]> {
    if pointer.is_null() {
        return None;
    }
    // A longer buffer than memory can be is as good as the longest.
    let length = length.min(isize::MAX.unsigned_abs());
    // SAFETY: the caller's promise: memory of that length; bytes may be written whatever they were.
    Some(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), length) })
}

pub(crate) unsafe fn text<'a>(name: &'static str, pointer: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise is passed on.
    let bytes = unsafe { optional_bytes(pointer) }.ok_or_else(|| null(name))?;
    std::str::from_utf8(bytes).map_err(|_| invalid(name, "must be UTF-8"))
}

pub(crate) unsafe fn optional_bytes<'a>(pointer: *const c_char) -> Option<&'a [u8]> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller's promise: a zero byte ends the text.
    Some(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

pub(crate) unsafe fn sized<'a, T>(pointer: *const T) -> Result<Option<&'a T>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise: the first member, a 32-bit number, is there whatever the size.
    let size = unsafe { pointer.cast::<u32>().read() };
    if usize::try_from(size) != Ok(size_of::<T>()) {
        return Err(invalid("struct_size", format!("must be {}, the size of the struct, got {size}", size_of::<T>())));
    }
    // SAFETY: the caller's promise: the struct is as long as it says, which is the length of T.
    Ok(unsafe { pointer.as_ref() })
}

pub(crate) unsafe fn release<T: Handle>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: only `Out::give` makes pointers to handles, from a box; the caller gives this one up.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// An enum in memory of C as the number that is there, which need not be one of the enum's.
pub(crate) fn number<T>(value: &MaybeUninit<T>) -> u32 {
    const { assert!(size_of::<T>() == size_of::<u32>() && align_of::<T>() == align_of::<u32>()) };
    // SAFETY: size and alignment are those of a u32, as checked, and C has written the memory.
    unsafe { value.as_ptr().cast::<u32>().read() }
}

/// A `bool` in memory of C, where it may hold more than `true` and `false`: whatever is not zero is true.
pub(crate) fn flag(value: &MaybeUninit<bool>) -> bool {
    // SAFETY: a bool is one byte, any byte is a u8, and C has written the memory.
    unsafe { value.as_ptr().cast::<u8>().read() != 0 }
}

/// What a program wants to have back in its callbacks.
pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: the pointer is only handed back; the header asks that it is good in every thread that uses the limiter.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// Calls a function of C about an event.
    pub(crate) fn call<E>(&self, callback: unsafe extern "C" fn(*const E, *mut c_void), event: &E) {
        // SAFETY: the header asks for a function of this type that returns; the event is alive until then.
        unsafe { callback(event, self.0) }
    }
}

/// An error about an argument.
pub(crate) fn invalid(argument: &'static str, detail: impl Into<String>) -> Error {
    Error::argument_error(ErrorKind::InvalidArgument, argument, detail)
}

/// The error for an argument that is needed and is `NULL`.
pub(crate) fn null(argument: &'static str) -> Error {
    invalid(argument, "must not be NULL")
}
