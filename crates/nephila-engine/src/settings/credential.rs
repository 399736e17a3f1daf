//! User names and passwords for sites: `[[credentials]]` of the settings file.

use std::fmt;
use std::path::PathBuf;

use nephila_core::spider::auth::Scheme;
use nephila_core::url::CrawlUrl;
use serde::{Deserialize, Serialize};

/// Maximum number of entries.
const CREDENTIALS_MAX: usize = 10_000;

/// User name and password for one origin.
#[derive(Clone, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credential {
    /// Scheme, host and port, such as `https://intranet.example.org`. The credentials are sent to this origin only: not
    /// after a redirect to another one, and not over http if the scheme is https.
    pub origin: String,
    /// User name.
    pub user: String,
    /// Password. A file is safer; the settings that a crawl folder keeps omit passwords.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// File with the password, read at the start; a newline at its end is ignored.
    pub password_file: PathBuf,
    /// `basic`: sent with every request, which saves a second request; a site that asks for a digest gets one.
    /// `digest`: sent when the site asks, and never in readable form.
    pub scheme: Scheme,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("origin", &self.origin)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Checks the credentials. Returns the first fault.
pub(super) fn check(credentials: &[Credential]) -> Result<(), String> {
    if credentials.len() > CREDENTIALS_MAX {
        return Err(format!("credentials: there may be {CREDENTIALS_MAX}"));
    }
    for credential in credentials {
        let Credential { origin, user, .. } = credential;
        let url =
            CrawlUrl::parse(origin).map_err(|error| format!("credentials.origin {origin:?}: {error}"))?;
        if url.credentials().is_some() || url.path_and_query() != "/" {
            return Err(format!(
                "credentials.origin {:?}: scheme, host and port are meant, such as {:?}",
                url.as_str(),
                url.origin()
            ));
        }
        if user.contains([':', '\r', '\n', '\0']) {
            return Err(format!(
                "credentials.user {user:?}: a name has neither colons nor control characters"
            ));
        }
        if credential.password.is_some() && !credential.password_file.as_os_str().is_empty() {
            return Err(format!("credentials of {origin}: either password or password_file, not both"));
        }
    }
    Ok(())
}
