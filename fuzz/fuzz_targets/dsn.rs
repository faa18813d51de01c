//! Texts that may name a store. The word `hunter2` in a text is a password, where it stands as one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimit_core::ErrorKind;
use ratelimit_core::store::dsn::{Address, Dsn, Secret, Servers};

const PASSWORD: &str = "hunter2";

fuzz_target!(|text: &str| {
    let parsed: Result<Dsn, _> = text.parse();
    match &parsed {
        Ok(Dsn::Redis(options)) => {
            let secret = options.password.as_ref().map(Secret::reveal).unwrap_or_default();
            if secret.contains(PASSWORD) && once(text) {
                assert!(!format!("{parsed:?}").contains(PASSWORD), "a password is shown");
            }
            match &options.servers {
                Servers::One(address @ Address::Tcp(..)) => {
                    let again = format!("redis://{address}").parse();
                    let Ok(Dsn::Redis(again)) = again else { panic!("{address} cannot be read again: {again:?}") };
                    assert_eq!(again.servers, options.servers);
                }
                Servers::One(Address::Unix(path)) => assert!(path.is_absolute()),
                _ => {}
            }
            assert!(!options.timeout.is_zero() && !options.connect_timeout.is_zero());
        }
        Ok(_) => {}
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidStore);
            assert!(
                !once(text) || !is_password(text) || !error.to_string().contains(PASSWORD),
                "a password is repeated: {error}"
            );
        }
    }
});

/// Whether the word is there for one purpose alone.
fn once(text: &str) -> bool {
    text.matches(PASSWORD).count() == 1
}

/// Whether the word stands between the first colon after `//` and the last at sign.
fn is_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let Some((credentials, _)) = rest.rsplit_once('@') else { return false };
    let Some((username, password)) = credentials.split_once(':') else { return false };
    // A slash before the colon, and it is no password but a path that has one.
    !username.contains(['/', '?', '#', '@']) && password.contains(PASSWORD)
}
