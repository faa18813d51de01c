//! The argument `array $calls` of `Limiter::allowMany()`, and what it is answered with.

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::FromZvalMut;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendClassObject, ZendHashTable, Zval};
use ratelimit_core::{self as core, Call, Error, ErrorKind};

use crate::call::Extras;
use crate::convert::{Integer, shown, wrong_type};
use crate::decision::Decision;
use crate::key::{self, Key};
use crate::{engine, exception};

/// Keys and costs as they were given. They are copies: code of the script that runs while one is converted may change
/// what the array refers to.
pub(crate) struct Calls(PhpResult<Vec<(Zval, Option<Zval>)>>);

impl Calls {
    /// Calls with the calls as the core takes them, each with what all of them have.
    pub(crate) fn with<R>(self, extras: &Extras<'_>, decide: impl FnOnce(&[Call<'_>]) -> PhpResult<R>) -> PhpResult<R> {
        let mut given = self.0?;
        let mut calls = Vec::with_capacity(given.len());
        for (index, (key, cost)) in given.iter_mut().enumerate() {
            let cost = cost.as_mut().and_then(Integer::from_zval_mut).unwrap_or(1.into());
            let invalid = |cost| exception::from_core(&core::limiter::invalid_cost(&shown(cost)).at_index(index));
            let cost = cost.get(&format!("calls[{index}][1]"), invalid)?;
            let key = Key::from_zval_mut(key).ok_or("a key is missing")?;
            if let Err(type_) = key.keys(&[]) {
                return Err(wrong_type(&format!("calls[{index}][0]"), key::TYPE, type_));
            }
            calls.push((key, cost));
        }
        let named: Vec<_> = calls.iter().map(|(key, _)| key.named()).collect();
        let calls = calls.iter().zip(&named).filter_map(|((key, cost), named)| {
            let keys = key.keys(named).ok()?;
            Some(extras.on(Call::allow(keys, *cost)))
        });
        decide(&calls.collect::<Vec<_>>())
    }

    fn of(list: &ZendHashTable) -> PhpResult<Vec<(Zval, Option<Zval>)>> {
        if !list.has_sequential_keys() {
            return Err(no_pairs("an array that is no list"));
        }
        list.values().enumerate().map(|(index, pair)| Self::pair(index, pair.dereference())).collect()
    }

    fn pair(index: usize, pair: &Zval) -> PhpResult<(Zval, Option<Zval>)> {
        let wrong = |got: String| no_pairs(&format!("{got} at index {index}"));
        let Some(array) = pair.array() else { return Err(wrong(engine::type_name(pair))) };
        match (array.get_index(0), array.get_index(1), array.len()) {
            (Some(key), None, 1) => Ok((copy(key), None)),
            (Some(key), Some(cost), 2) => Ok((copy(key), Some(copy(cost)))),
            _ => Err(wrong("another array".to_owned())),
        }
    }
}

impl FromZvalMut<'_> for Calls {
    const TYPE: DataType = DataType::Array;

    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        Some(Self(match value.array() {
            Some(list) => Self::of(list),
            None => Err(wrong_type("calls", "array", &engine::type_name(value))),
        }))
    }
}

/// The decisions in order, or the exception where a call has none.
pub(crate) fn decisions(
    outcomes: Vec<core::Result<core::Decision>>,
    answer: impl Fn(core::Decision) -> ZBox<ZendClassObject<Decision>>,
) -> PhpResult<ZBox<ZendHashTable>> {
    let mut decisions = ZendHashTable::with_capacity(u32::try_from(outcomes.len()).unwrap_or(0));
    let (mut missing, mut first) = (0, None);
    for outcome in outcomes {
        match outcome {
            Ok(decision) => decisions.push(answer(decision))?,
            Err(error) => {
                decisions.push(Zval::null())?;
                missing += 1;
                first.get_or_insert(error);
            }
        }
    }
    match first {
        None => Ok(decisions),
        Some(error) => Err(exception::with_decisions(&error, missing, decisions)),
    }
}

fn copy(value: &Zval) -> Zval {
    value.dereference().shallow_clone()
}

fn no_pairs(got: &str) -> PhpException {
    let detail = format!("must be a list of [key, cost] pairs, got {got}");
    exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, "calls", detail))
}
