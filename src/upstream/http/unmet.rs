//! Why a server on the network was not met: it may speak the other transport, or it failed.

use http::StatusCode;

use crate::upstream::blame::Blame;
use crate::upstream::flight::Failure;

/// Why there is no connection.
#[derive(Debug)]
pub enum Unmet {
    /// Nothing there speaks this transport, so it may be worth trying another (HTTP-38). Says what there is instead.
    Absent(String),
    /// It failed in a way that no other transport would mend.
    Failed(Failure),
}

impl From<Failure> for Unmet {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Unmet {
    /// The failure that it is where no other transport is tried.
    #[must_use]
    pub fn into_failure(self, blame: &Blame) -> Failure {
        match self {
            Self::Absent(why) => Failure::plain(blame.unsent(why)),
            Self::Failed(failure) => failure,
        }
    }
}

/// How a refusal is told.
#[must_use]
pub fn status_told(status: StatusCode) -> String {
    format!("it answers with HTTP status {}", status.as_u16())
}
