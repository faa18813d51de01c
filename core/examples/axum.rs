//! A service with axum: reports cost a unit each, of two per minute and caller. A login costs a unit only when it fails,
//! of one per minute and address. `RATELIMIT_STORE=redis://127.0.0.1:6379` shares the budgets between servers.
//!
//! ```sh
//! cargo run --package ratelimit-core --features tower --example axum -- 127.0.0.1:8000
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use ratelimit_core::http::tower::{RateLimitLayer, by_client_ip};
use ratelimit_core::http::{ClientIp, ForwardedHeader};
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Limiter, Policy};

/// The layer for a policy: by the address of the caller, of which the proxy on this machine says whom it had before it.
fn limited(policy: Policy, store: &Arc<dyn Store>) -> ratelimit_core::Result<RateLimitLayer> {
    let client_ip = ClientIp::new(["127.0.0.1"])?.header(ForwardedHeader::XForwardedFor);
    let peer = |request: &Parts| Some(request.extensions.get::<ConnectInfo<SocketAddr>>()?.0.ip());
    let limiter = Limiter::new(policy, store.clone())?;
    Ok(RateLimitLayer::new(limiter, by_client_ip(client_ip, peer)))
}

async fn login(password: String) -> StatusCode {
    if password == "secret" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
}

fn app(store: &Arc<dyn Store>) -> ratelimit_core::Result<Router> {
    let reports = limited(Policy::parse("2/m")?.named("reports")?, store)?;
    let logins = limited(Policy::parse("1/m")?.named("login")?, store)?;
    let logins = logins.after(|response| i64::from(response.status == StatusCode::UNAUTHORIZED));
    Ok(Router::new()
        .route("/reports", get(|| async { "a report\n" }).layer(reports))
        .route("/login", post(login).layer(logins)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let app = app(&store::open_default(None)?)?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    /// The status and the headers that a server answers, which closes the connection.
    fn send(server: SocketAddr, request: &str, headers: &str, body: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(server).expect("a connection");
        let length = body.len();
        let request = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        connection.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        (answer[9..12].parse().expect("a status"), answer)
    }

    #[test]
    fn the_service_answers_over_http_as_its_first_lines_say() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let server = listener.local_addr().expect("an address");
        let store = store::memory(1_000).expect("a store");
        let app = app(&store).expect("an application").into_make_service_with_connect_info::<SocketAddr>();
        runtime.spawn(async { axum::serve(listener, app).await });

        for caller in ["192.0.2.1", "192.0.2.2"] {
            // What stands on the left is the caller's own word.
            let report =
                |spoofed: &str| send(server, "GET /reports", &format!("X-Forwarded-For: {spoofed}, {caller}\r\n"), "");
            let (status, answer) = report("6.6.6.1");
            assert_eq!(status, 200);
            assert!(answer.contains("ratelimit: \"reports\";r=1;t=60\r\n"), "{answer}");
            assert_eq!(report("6.6.6.2").0, 200);
            let (status, answer) = report("6.6.6.3");
            assert_eq!(status, 429);
            assert!(answer.contains("retry-after: 60\r\n"), "{answer}");
            assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
            assert!(answer.ends_with("\"violated-policies\":[\"reports\"]}"), "{answer}");
        }
        let statuses = ["secret", "secret", "guess", "guess", "secret"].map(|it| send(server, "POST /login", "", it).0);
        assert_eq!(statuses, [200, 200, 401, 429, 429]);
    }
}
