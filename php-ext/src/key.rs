//! The argument `string|array $key`: one key for all policies, or one for each by the policy's name.

use ext_php_rs::convert::FromZvalMut;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendHashTable, Zval};
use ratelimit_core::Keys;

use crate::convert::{Text, wrong_type};
use crate::engine;

/// The type of such an argument, for errors.
pub(crate) const TYPE: &str = "string|array";

/// Whose budget.
pub(crate) enum Key<'a> {
    /// The same for all policies.
    One(Text<'a>),
    /// Policy names and keys. They are copies: a `__toString()` among them may change what the array refers to.
    Each(Vec<(String, Vec<u8>)>),
    /// An array with something of this type in it, which is no key.
    Wrong(String),
}

impl Key<'_> {
    /// Calls with the keys as the core takes them.
    #[inline]
    pub(crate) fn with<R>(self, call: impl FnOnce(Keys<'_>) -> PhpResult<R>) -> PhpResult<R> {
        let named = self.named();
        match self.keys(&named) {
            Ok(keys) => call(keys),
            Err(type_) => Err(wrong_type("key", TYPE, type_)),
        }
    }

    /// Policy names and keys, where there are several.
    #[inline]
    pub(crate) fn named(&self) -> Vec<(&str, &[u8])> {
        match self {
            Self::Each(keys) => keys.iter().map(|(name, key)| (name.as_str(), key.as_slice())).collect(),
            _ => Vec::new(),
        }
    }

    /// The keys as the core takes them, with what [`named`](Self::named) says; or the type of what is no key.
    #[inline]
    pub(crate) fn keys<'k>(&'k self, named: &'k [(&'k str, &'k [u8])]) -> Result<Keys<'k>, &'k str> {
        match self {
            Self::One(Text::Passed(key)) => Ok(Keys::One(key.as_bytes())),
            Self::One(Text::Default(key)) => Ok(Keys::One(key.as_bytes())),
            Self::Each(_) => Ok(Keys::Each(named)),
            Self::One(Text::Wrong(type_)) | Self::Wrong(type_) => Err(type_),
        }
    }

    #[cold]
    fn of_no_string(value: &mut Zval) -> Option<Key<'_>> {
        if let Some(array) = value.array() {
            return Some(Key::each(array));
        }
        Text::from_zval_mut(value).map(Key::One)
    }

    fn each(array: &ZendHashTable) -> Self {
        let mut keys = Vec::with_capacity(array.len());
        let mut members = array.iter();
        while let Some((name, value)) = members.next_zval() {
            // Not in place: the array is the caller's.
            let mut key = value.dereference().shallow_clone();
            let Some(Text::Passed(key)) = Text::from_zval_mut(&mut key) else {
                return Self::Wrong(format!("array with {}", engine::type_name(value.dereference())));
            };
            keys.push((policy_name(&name), key.as_bytes().to_vec()));
        }
        Self::Each(keys)
    }
}

/// The name of a policy, also where PHP has made a number of it.
fn policy_name(name: &Zval) -> String {
    match name.zend_str() {
        Some(name) => String::from_utf8_lossy(name.as_bytes()).into_owned(),
        None => name.long().unwrap_or_default().to_string(),
    }
}

impl<'a> FromZvalMut<'a> for Key<'a> {
    const TYPE: DataType = DataType::String;

    #[inline]
    fn from_zval_mut(value: &'a mut Zval) -> Option<Self> {
        if value.is_string() { Text::from_zval_mut(value).map(Self::One) } else { Self::of_no_string(value) }
    }
}
