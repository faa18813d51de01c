//! Certificates of a test's own authority.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority, a server's certificate for `localhost` and 127.0.0.1, and a client's, as PEM files.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// New ones.
    ///
    /// # Panics
    ///
    /// When they cannot be written.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: String| fs::write(folder.path().join(name), text).expect("a file");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        // Each authority has a name of its own, by which certificates say who issued them.
        let name = format!("Authority of {}", folder.path().display());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        write("ca.pem", authority.pem());
        let server = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        for (name, subjects, purpose) in [
            ("server", server.to_vec(), ExtendedKeyUsagePurpose::ServerAuth),
            ("client", vec!["client".to_owned()], ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let mut params = CertificateParams::new(subjects).expect("parameters");
            params.extended_key_usages = vec![purpose];
            let key = KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &authority).expect("a certificate");
            write(&format!("{name}.pem"), certificate.pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self { folder }
    }

    /// The path of `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options for a server that takes encrypted connections on `port`, with clients' certificates checked or not.
    pub fn server_options(&self, port: u16, asks_clients: bool) -> Vec<String> {
        let file = |name: &str| self.path(name).display().to_string();
        let auth = if asks_clients { "yes" } else { "no" };
        [
            ["--tls-port", &port.to_string()],
            ["--tls-ca-cert-file", &file("ca.pem")],
            ["--tls-cert-file", &file("server.pem")],
            ["--tls-key-file", &file("server.key")],
            ["--tls-auth-clients", auth],
        ]
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect()
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
