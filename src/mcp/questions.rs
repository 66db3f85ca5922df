//! The requests that servers send to clients, by what is asked.

use crate::jsonrpc::Object;
use crate::mcp::capabilities::ClientCapabilities;

/// What a server asks a client for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// `sampling/createMessage`
    Sampling,
    /// `elicitation/create`, in form or URL mode
    Elicitation,
    /// `roots/list`
    Roots,
}

impl QuestionKind {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Sampling, Self::Elicitation, Self::Roots];

    /// The kind of the request `method`, if it is a question.
    #[must_use]
    pub fn find(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The method.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Elicitation => "elicitation/create",
            Self::Roots => "roots/list",
        }
    }

    /// The value of the metrics' label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
        }
    }
}

/// Why a question must not be put to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// The client cannot be asked for such a thing at all: -32601 (SAMP-06, ROOT-04, ELIC-07).
    Never,
    /// Not in this way: -32602, with what is wrong (SAMP-06, ELIC-02, ELIC-07).
    Mode(&'static str),
}

/// Checks a question with these `params` (their members, of `text`) against what the asker was told of the client.
///
/// # Errors
/// Why it must not be put.
pub fn check(
    kind: QuestionKind,
    text: &[u8],
    params: &Object,
    shown: ClientCapabilities,
) -> Result<(), Unasked> {
    match kind {
        QuestionKind::Roots if shown.roots => Ok(()),
        QuestionKind::Sampling if shown.sampling => {
            let wants_tools = ["tools", "toolChoice"].iter().any(|name| params.find(text, name).is_some());
            if wants_tools && !shown.sampling_tools {
                return Err(Unasked::Mode("the client did not declare `sampling.tools`"));
            }
            Ok(())
        }
        QuestionKind::Elicitation if shown.form || shown.url => {
            match params.string(text, "mode").as_deref() {
                None if params.find(text, "mode").is_some() => Err(Unasked::Mode("`mode` is not a string")),
                None | Some("form") if shown.form => Ok(()),
                None | Some("form") => Err(Unasked::Mode("the client did not declare form elicitation")),
                Some("url") if shown.url => Ok(()),
                Some("url") => Err(Unasked::Mode("the client did not declare URL elicitation")),
                Some(_) => Err(Unasked::Mode("`mode` is neither `form` nor `url`")),
            }
        }
        _ => Err(Unasked::Never),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(kind: QuestionKind, params: &str, shown: ClientCapabilities) -> Result<(), Unasked> {
        let text = params.as_bytes();
        check(kind, text, &Object::scan(text, 0).unwrap(), shown)
    }

    /// LIFE-09, LIFE-14, SAMP-01, SAMP-06, ELIC-01, ELIC-02, ELIC-07, ROOT-04
    #[test]
    fn life_14_only_what_was_declared_may_be_asked() {
        let (none, all) = (ClientCapabilities::default(), ClientCapabilities::ALL);
        for kind in QuestionKind::ALL {
            assert_eq!(QuestionKind::find(kind.method()), Some(kind));
            assert_eq!(checked(kind, "{}", none), Err(Unasked::Never));
            assert_eq!(checked(kind, "{}", all), Ok(()));
        }
        assert_eq!(QuestionKind::find("ping"), None);
        let plain = ClientCapabilities { sampling: true, form: true, ..none };
        let with_tools = checked(QuestionKind::Sampling, r#"{"tools":[]}"#, plain);
        assert!(matches!(with_tools, Err(Unasked::Mode(_))));
        assert!(checked(QuestionKind::Sampling, r#"{"toolChoice":{}}"#, all).is_ok());
        let elicit =
            |mode: &str, shown| checked(QuestionKind::Elicitation, &format!(r#"{{"mode":{mode}}}"#), shown);
        assert!(elicit(r#""form""#, plain).is_ok());
        for mode in [r#""url""#, r#""page""#, "7"] {
            assert!(matches!(elicit(mode, plain), Err(Unasked::Mode(_))), "{mode}");
        }
        let url = ClientCapabilities { url: true, ..none };
        assert!(elicit(r#""url""#, url).is_ok());
        assert!(matches!(checked(QuestionKind::Elicitation, "{}", url), Err(Unasked::Mode(_))));
    }
}
