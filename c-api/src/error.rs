//! What a function returns, and the sentence that goes with it.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use ratelimit_core::{Error, ErrorKind};

/// What came of a call. On anything but `RL_OK` the call's outputs are as they were before (`rl_allow_many` writes those
/// that are known), and `rl_last_error()` has a sentence about it. A denial is no error: it is `RL_OK` with `allowed`
/// false.
/// cbindgen:rename-all=None
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Spelled as in C, where variants live in one space with everything else.
#[allow(non_camel_case_types)]
pub enum Status {
    /// It worked.
    RL_OK = 0,
    /// An argument is out of its range, or `NULL` where something is needed. Nothing was asked or changed.
    RL_ERR_INVALID_ARGUMENT,
    /// Numbers or a name that make no policy.
    RL_ERR_INVALID_POLICY,
    /// A DSN that names no store.
    RL_ERR_INVALID_STORE,
    /// The store gave no usable answer within its time limit. A call that timed out may have been counted.
    RL_ERR_STORE_UNAVAILABLE,
    /// The wait needed is longer than the caller is ready to wait.
    RL_ERR_WAIT_TOO_LONG,
    /// A defect of this library.
    RL_ERR_INTERNAL,
}

impl From<ErrorKind> for Status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidArgument | ErrorKind::InvalidCost => Self::RL_ERR_INVALID_ARGUMENT,
            ErrorKind::InvalidPolicy => Self::RL_ERR_INVALID_POLICY,
            ErrorKind::InvalidStore => Self::RL_ERR_INVALID_STORE,
            ErrorKind::StoreUnavailable(_) => Self::RL_ERR_STORE_UNAVAILABLE,
            ErrorKind::WaitTooLong => Self::RL_ERR_WAIT_TOO_LONG,
            // A kind that has no status yet is a defect of this file.
            _ => Self::RL_ERR_INTERNAL,
        }
    }
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Keeps the error's sentence for this thread and says which status it is.
pub(crate) fn report(error: &Error) -> Status {
    // A text of C ends at a zero byte; what a server answered may hold one.
    let sentence = CString::new(error.to_string().replace('\0', "\u{fffd}"));
    // At the end of a thread its slot is gone; a sentence nobody can ask for any more may be lost.
    let _ = LAST.try_with(|last| *last.borrow_mut() = sentence.ok());
    error.kind().into()
}

/// The sentence about this thread's last call that failed, in UTF-8: `capacity must be between 1 and 2147483647, got
/// 0`. Never `NULL`; empty when no call has failed. It holds no key and no password.
///
/// The text belongs to the library and stays valid until this thread's next call of a function of this library other
/// than this one. A call that works leaves it as it is, so look at the returned status, not at this.
#[unsafe(no_mangle)]
pub extern "C" fn rl_last_error() -> *const c_char {
    let sentence = LAST.try_with(|last| last.borrow().as_ref().map(|sentence| sentence.as_ptr()));
    sentence.ok().flatten().unwrap_or(c"".as_ptr())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ffi::CStr;

    use super::*;

    pub(crate) fn last_error() -> String {
        // SAFETY: the function returns a text ended by a zero byte, and no other call comes before it is copied.
        unsafe { CStr::from_ptr(rl_last_error()) }.to_str().expect("sentences are UTF-8").to_owned()
    }

    #[test]
    fn a_sentence_is_kept_for_its_thread_alone() {
        assert_eq!(last_error(), "");
        assert_eq!(report(&Error::invalid_store("no such store")), Status::RL_ERR_INVALID_STORE);
        assert_eq!(last_error(), "no such store");
        assert_eq!(std::thread::spawn(last_error).join().expect("no panic"), "");
    }

    #[test]
    fn a_zero_byte_does_not_cut_the_sentence() {
        report(&Error::internal("before\0after"));
        assert_eq!(last_error(), "before\u{fffd}after");
    }

    #[test]
    fn every_kind_has_its_status() {
        let kinds = [
            (ErrorKind::InvalidArgument, Status::RL_ERR_INVALID_ARGUMENT),
            (ErrorKind::InvalidCost, Status::RL_ERR_INVALID_ARGUMENT),
            (ErrorKind::InvalidPolicy, Status::RL_ERR_INVALID_POLICY),
            (ErrorKind::InvalidStore, Status::RL_ERR_INVALID_STORE),
            (ErrorKind::StoreUnavailable(ratelimit_core::StoreErrorKind::Timeout), Status::RL_ERR_STORE_UNAVAILABLE),
            (ErrorKind::WaitTooLong, Status::RL_ERR_WAIT_TOO_LONG),
            (ErrorKind::Internal, Status::RL_ERR_INTERNAL),
        ];
        for (kind, status) in kinds {
            assert_eq!(Status::from(kind), status, "{kind:?}");
        }
    }
}
