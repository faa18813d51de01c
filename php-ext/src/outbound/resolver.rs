//! A resolver of the application's: a function that names the bucket of a request.

use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecutorGlobals;

use super::observation::invalid;
use crate::convert::wrong_type;
use crate::engine;

/// A function; none for null.
pub(super) fn of(given: &Zval) -> PhpResult<Option<Zval>> {
    let given = given.dereference();
    if given.is_null() {
        return Ok(None);
    }
    if !given.is_callable() {
        return Err(wrong_type("resolver", "callable|null", &engine::type_name(given)));
    }
    Ok(Some(given.shallow_clone()))
}

/// Asks the function about a request; null leaves the bucket to the route. Its exception goes to the caller.
pub(super) fn ask(function: &Zval, method: &str, url: &str) -> PhpResult<Option<String>> {
    let answer = function.try_call(vec![&method, &url]);
    if ExecutorGlobals::has_exception() {
        return Err("the function threw".into());
    }
    let answer = answer.map_err(|error| error.to_string())?;
    let answer = answer.dereference();
    match answer.zend_str() {
        Some(bucket) => Ok(Some(String::from_utf8_lossy(bucket.as_bytes()).into_owned())),
        None if answer.is_null() => Ok(None),
        None => Err(invalid("resolver", format!("must give a string or null, got {}", engine::type_name(answer)))),
    }
}
