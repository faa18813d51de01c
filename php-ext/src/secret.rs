//! The argument `array|string|null $secret`: the secret of the key hash, or several while one takes over from another.

use ext_php_rs::convert::FromZvalMut;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::flags::DataType;
use ext_php_rs::types::Zval;

use crate::convert::{Text, wrong_type};
use crate::engine;

/// Secrets, copied; or the type of what is none.
pub(crate) struct Secrets(Result<Vec<Vec<u8>>, String>);

impl Secrets {
    pub(crate) fn get(self) -> PhpResult<Vec<Vec<u8>>> {
        self.0.map_err(|got| wrong_type("secret", "array|string|null", &got))
    }
}

impl FromZvalMut<'_> for Secrets {
    const TYPE: DataType = DataType::String;

    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        let Some(array) = value.array() else { return Some(Self(bytes(value).map(|secret| vec![secret]))) };
        let each = array.values().map(|value| {
            // Not in place: the array is the caller's.
            let copy = &mut value.dereference().shallow_clone();
            bytes(copy).map_err(|_| format!("array with {}", engine::type_name(value.dereference())))
        });
        Some(Self(each.collect()))
    }
}

fn bytes(value: &mut Zval) -> Result<Vec<u8>, String> {
    match Text::from_zval_mut(value) {
        Some(Text::Passed(secret)) => Ok(secret.as_bytes().to_vec()),
        Some(Text::Wrong(got)) => Err(got),
        _ => Err("null".to_owned()),
    }
}
