use ratelimit_core::{Error, ErrorKind, Limiter, Policy, StoreErrorKind, aio, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::certificates::Certificates;
use ratelimit_tests::server::free_port;

fn start(certificates: &Certificates, asks_clients: bool) -> (RedisServer, u16) {
    let port = free_port();
    let options = certificates.server_options(port, asks_clients);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    (RedisServer::start_with(&options), port)
}

fn asked(dsn: &str) -> Result<u64, Error> {
    let policy = Policy::token_bucket(10, 1.0, 3600.0).expect("a policy");
    let limiter = Limiter::new(policy, store::open(dsn)?)?;
    for _ in 0..2 {
        // The second on a connection that has rested.
        limiter.allow("key", 1)?;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let remaining = limiter.allow_many(&[("key", 1), ("key", 1)])?.pop().expect("two outcomes")?.remaining();
    limiter.reset("key").map(|()| remaining)
}

#[test]
fn the_server_has_to_be_certified_by_the_authority_that_is_named() {
    let certificates = Certificates::new();
    let (_server, port) = start(&certificates, false);
    let ca = certificates.path("ca.pem").display().to_string();
    for dsn in [
        format!("rediss://127.0.0.1:{port}?ca={ca}"),
        format!("valkeys://localhost:{port}/0?ca={ca}&protocol=resp3&client_name=web"),
        format!("rediss://127.0.0.1:{port}?ca={ca}&server_name=localhost"),
        format!("rediss://127.0.0.1:{port}?insecure=1"),
    ] {
        assert_eq!(asked(&format!("{dsn}&timeout=2&connect_timeout=2")), Ok(6), "{dsn}");
    }
    let other = Certificates::new();
    for (dsn, why) in [
        (format!("rediss://127.0.0.1:{port}"), "UnknownIssuer"),
        (format!("rediss://127.0.0.1:{port}?ca={}", other.path("ca.pem").display()), "UnknownIssuer"),
        (format!("rediss://127.0.0.1:{port}?ca={ca}&server_name=elsewhere"), "not valid for name"),
    ] {
        match asked(&dsn) {
            Err(error) if error.store_kind() == Some(StoreErrorKind::Refused) => {
                assert!(error.to_string().contains(why), "{error}");
            }
            other => panic!("{dsn}: {other:?}"),
        }
    }
}

#[test]
fn a_client_certificate_is_shown_where_the_server_asks_for_one() {
    let certificates = Certificates::new();
    let (_server, port) = start(&certificates, true);
    let path = |name: &str| certificates.path(name).display().to_string();
    let dsn = format!("rediss://127.0.0.1:{port}?ca={}&timeout=2&connect_timeout=2", path("ca.pem"));
    assert_eq!(asked(&format!("{dsn}&cert={}&key={}", path("client.pem"), path("client.key"))), Ok(6));
    assert!(asked(&dsn).is_err(), "no certificate was shown");
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_is_sent() {
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name).display().to_string();
    for (options, file) in [
        ("ca=/nowhere/ca.pem".to_owned(), "/nowhere/ca.pem".to_owned()),
        (format!("ca={}", path("client.key")), path("client.key")),
        (format!("ca={}&cert={}&key={}", path("ca.pem"), path("client.pem"), path("server.pem")), path("server.pem")),
        (format!("ca={}&cert={}&key={}", path("ca.pem"), path("client.pem"), path("server.key")), path("client.pem")),
    ] {
        let error = store::open(&format!("rediss://127.0.0.1:1?{options}")).expect_err(&options);
        assert_eq!(error.kind(), ErrorKind::InvalidStore, "{error}");
        assert!(error.to_string().contains(&file), "{error}");
    }
}

#[test]
fn encryption_and_its_absence_do_not_hang_when_mistaken_for_each_other() {
    let certificates = Certificates::new();
    let (server, port) = start(&certificates, false);
    for dsn in [
        format!("redis://127.0.0.1:{port}?timeout=0.3&connect_timeout=0.3"),
        format!("rediss://127.0.0.1:{}?insecure=1&timeout=0.3&connect_timeout=0.3", server.port()),
    ] {
        let started = std::time::Instant::now();
        asked(&dsn).expect_err(&dsn);
        assert!(started.elapsed() < std::time::Duration::from_millis(900), "{dsn}: {:?}", started.elapsed());
    }
}

#[test]
fn a_limiter_that_is_awaited_is_encrypted_as_well() {
    let certificates = Certificates::new();
    let (_server, port) = start(&certificates, false);
    let ca = certificates.path("ca.pem").display().to_string();
    let policy = Policy::token_bucket(10, 1.0, 3600.0).expect("a policy");
    let store =
        store::open(&format!("rediss://127.0.0.1:{port}?ca={ca}&timeout=2&connect_timeout=2")).expect("a store");
    let limiter = aio::Limiter::new(Limiter::new(policy, store).expect("a limiter"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for left in [9, 8] {
            assert_eq!(limiter.allow("key", 1).await.expect("a decision").remaining(), left);
        }
    });
}
