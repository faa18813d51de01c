//! Encryption, as the DSN asks for it.

use std::io::{self, ErrorKind as Io};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{Error, ErrorKind, Result};
use crate::store::dsn::{Address, TlsOptions};

/// What every encrypted connection of a store has in common.
#[derive(Debug)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the files that the options name.
    pub(super) fn new(options: &TlsOptions) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Error::internal(format!("the cryptography has no protocol: {error}")))?;
        let builder = if options.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(authorities(options.ca.as_deref())?)
        };
        let config = match (&options.cert, &options.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates("cert", cert)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("key", key, &error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unreadable("cert", cert, &error))?
            }
            _ => builder.with_no_client_auth(),
        };
        let server_name = options.server_name.as_ref().map(|name| {
            ServerName::try_from(name.clone())
                .map_err(|_| invalid("server_name", format!("must be a name or an address, got {name:?}")))
        });
        Ok(Self { config: Arc::new(config), server_name: server_name.transpose()? })
    }

    /// The state of a new connection to `address`.
    pub(super) fn connection(&self, address: &Address) -> io::Result<ClientConnection> {
        ClientConnection::new(self.config.clone(), self.name_of(address)?).map_err(io::Error::other)
    }

    /// The configuration, for connections that are driven elsewhere.
    #[cfg(feature = "tokio")]
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// The name that the certificate of the server at `address` has to bear.
    pub(super) fn name_of(&self, address: &Address) -> io::Result<ServerName<'static>> {
        match (&self.server_name, address) {
            (Some(name), _) => Ok(name.clone()),
            (None, Address::Tcp(host, _)) => {
                ServerName::try_from(host.clone()).map_err(|error| io::Error::new(Io::InvalidInput, error))
            }
            (None, Address::Unix(_)) => Err(io::Error::new(Io::InvalidInput, "a socket of this host is not encrypted")),
        }
    }
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        for certificate in certificates("ca", file)? {
            roots.add(certificate).map_err(|error| unreadable("ca", file, &error))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let detail =
            "is needed: this system has no certificates of authorities, so name a file with ?ca=/path/to/ca.pem";
        return Err(invalid("ca", detail));
    }
    Ok(roots)
}

fn certificates(argument: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unreadable(argument, file, &error))?;
    if certificates.is_empty() {
        return Err(invalid(argument, format!("must be a PEM file with certificates; {} has none", file.display())));
    }
    Ok(certificates)
}

fn unreadable(argument: &'static str, file: &Path, error: &dyn std::fmt::Display) -> Error {
    invalid(argument, format!("must be a PEM file that can be used; {} cannot: {error}", file.display()))
}

fn invalid(argument: &'static str, detail: impl Into<String>) -> Error {
    Error::argument_error(ErrorKind::InvalidStore, argument, detail)
}

/// Takes any certificate, as `insecure=1` asks for; signatures still have to be the certificate's own.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
