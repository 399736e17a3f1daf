//! Names and passwords for sites, as a person writes them. `[[credentials]]` of the settings file.

use std::fmt;
use std::path::PathBuf;

use nephila_core::spider::auth::Scheme;
use nephila_core::url::CrawlUrl;
use serde::{Deserialize, Serialize};

/// Most entries there may be.
const CREDENTIALS_MAX: usize = 10_000;

/// A name and a password for one origin.
#[derive(Clone, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credential {
    /// Scheme, host and port, such as `https://intranet.example.org`: they are sent there and nowhere else, not after a
    /// redirect and not over http if this says https.
    pub origin: String,
    /// The name.
    pub user: String,
    /// The password. Better in a file: it is left out of the settings that a crawl keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A file with the password, read at the start; the end of its line does not count.
    pub password_file: PathBuf,
    /// `basic`: sent with every request, so that none is asked twice; a site that wants a digest instead gets one. `digest`:
    /// sent when the site asks for it, and never readable.
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

/// What is wrong with them.
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
