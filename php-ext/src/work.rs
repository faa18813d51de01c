//! The argument `callable $work`: what is done while something is held.

use ext_php_rs::convert::FromZvalMut;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendCallable, Zval};
use ext_php_rs::zend::ExecutorGlobals;

use crate::convert::wrong_type;
use crate::{engine, wait};

/// What is to be done.
pub(crate) enum Work<'a> {
    /// Something that can be called.
    Given(ZendCallable<'a>),
    /// A value of this type, which cannot.
    Wrong(String),
}

/// What can be called.
pub(crate) struct Callable<'a>(ZendCallable<'a>);

impl<'a> Work<'a> {
    pub(crate) fn get(self) -> PhpResult<Callable<'a>> {
        match self {
            Self::Given(work) => Ok(Callable(work)),
            Self::Wrong(type_) => Err(wrong_type("work", "callable", &type_)),
        }
    }
}

impl Callable<'_> {
    /// Calls it with the text of a holder, and releases what that holds: when it has returned, when it throws, before an
    /// `exit` goes on, and before the engine leaves by a jump, as it does after a fatal error and at the time limit.
    pub(crate) fn run(&self, holder: &str, release: impl Fn()) -> PhpResult<Zval> {
        let mut returned = Zval::new();
        let call = || {
            let result = self.0.try_call(vec![&holder.to_owned()]);
            if ExecutorGlobals::has_exception() {
                // The pending exception is the one the caller gets; this one is never thrown.
                return Err("the work threw".into());
            }
            returned = result.map_err(|error| PhpException::from(error.to_string()))?;
            Ok(())
        };
        wait::unless_given_up(call, &release)?;
        release();
        Ok(returned)
    }
}

impl<'a> FromZvalMut<'a> for Work<'a> {
    const TYPE: DataType = DataType::Callable;

    fn from_zval_mut(value: &'a mut Zval) -> Option<Self> {
        let type_ = engine::type_name(value);
        Some(ZendCallable::new(value).map_or(Self::Wrong(type_), Self::Given))
    }
}
