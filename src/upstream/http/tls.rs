//! Whom to trust over TLS: the system's roots and, per upstream, a file of more (F-095, R-29).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;

/// Why there is no TLS. For operators.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TrustError {
    /// The extra CA file.
    #[error("cannot read the CA file {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Roots or protocol settings.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
}

/// Makes TLS connectors.
///
/// *Invariants.* The extra CA file is read again when it has changed; the system's roots are read once.
#[derive(Debug)]
pub struct Trust {
    ca_file: Option<PathBuf>,
    made: Mutex<Option<(Option<SystemTime>, Arc<ClientConfig>)>>,
}

impl Trust {
    /// The system's roots, and those in `ca_file`.
    #[must_use]
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, made: Mutex::new(None) }
    }

    /// A connector for a new connection.
    ///
    /// # Errors
    /// When the CA file or the system's roots cannot be read.
    pub async fn connector(&self) -> Result<TlsConnector, TrustError> {
        let changed = match &self.ca_file {
            Some(path) => tokio::fs::metadata(path).await.ok().and_then(|file| file.modified().ok()),
            None => None,
        };
        if let Some((of, config)) = &*self.made.lock().unwrap_or_else(PoisonError::into_inner)
            && *of == changed
        {
            return Ok(TlsConnector::from(Arc::clone(config)));
        }
        let config = Arc::new(self.build().await?);
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some((changed, Arc::clone(&config)));
        Ok(TlsConnector::from(config))
    }

    async fn build(&self) -> Result<ClientConfig, TrustError> {
        let extra = match &self.ca_file {
            Some(path) => {
                let wrong = |why: String| TrustError::File { path: path.clone(), why };
                let text = tokio::fs::read(path).await.map_err(|error| wrong(error.to_string()))?;
                let found: Vec<_> = CertificateDer::pem_slice_iter(&text)
                    .collect::<Result<_, _>>()
                    .map_err(|error| wrong(error.to_string()))?;
                if found.is_empty() {
                    return Err(wrong("it holds no certificate".into()));
                }
                found
            }
            None => Vec::new(),
        };
        let setup = |error: rustls::Error| TrustError::Setup(error.to_string());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&provider)).map_err(setup)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(setup)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}
