//! Capabilities: of servers, what an upstream declared and the union that clients are shown; of clients, what one
//! declared and what an upstream is told of it.

use crate::jsonrpc::Object;
use crate::jsonrpc::scan::ScanError;
use crate::mcp::revision::Revision;

/// What a server declares that decides how we treat it (LIFE-12).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerCapabilities {
    /// `tools`
    pub tools: bool,
    /// `tools.listChanged`
    pub tools_changed: bool,
    /// `prompts`
    pub prompts: bool,
    /// `prompts.listChanged`
    pub prompts_changed: bool,
    /// `resources`
    pub resources: bool,
    /// `resources.listChanged`
    pub resources_changed: bool,
    /// `resources.subscribe`
    pub subscribe: bool,
    /// `logging`
    pub logging: bool,
    /// `completions`
    pub completions: bool,
}

impl ServerCapabilities {
    /// Reads a `capabilities` object; members that we do not know are ignored (LIFE-10).
    ///
    /// # Errors
    /// What the scan reports; `NotObject` when `text` is something else.
    pub fn read(text: &[u8]) -> Result<Self, ScanError> {
        let all = Object::scan(text, 0)?;
        let has = |name: &str| all.value(text, name).is_some_and(|value| value != b"null");
        let flag = |name: &str, inner: &str| {
            let Some(span) = all.find(text, name).filter(|span| text[span.start] == b'{') else {
                return Ok(false);
            };
            Object::scan(text, span.start).map(|object| object.value(text, inner) == Some(b"true".as_slice()))
        };
        Ok(Self {
            tools: has("tools"),
            tools_changed: flag("tools", "listChanged")?,
            prompts: has("prompts"),
            prompts_changed: flag("prompts", "listChanged")?,
            resources: has("resources"),
            resources_changed: flag("resources", "listChanged")?,
            subscribe: flag("resources", "subscribe")?,
            logging: has("logging"),
            completions: has("completions"),
        })
    }

    /// What either declares.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            tools_changed: self.tools_changed || other.tools_changed,
            prompts: self.prompts || other.prompts,
            prompts_changed: self.prompts_changed || other.prompts_changed,
            resources: self.resources || other.resources,
            resources_changed: self.resources_changed || other.resources_changed,
            subscribe: self.subscribe || other.subscribe,
            logging: self.logging || other.logging,
            completions: self.completions || other.completions,
        }
    }

    /// The object for clients of `revision` (LIFE-13, VER-06).
    ///
    /// We announce list changes ourselves, whatever an upstream does, so `listChanged` is always true.
    #[must_use]
    pub fn to_json(self, revision: Revision) -> String {
        let mut parts = Vec::new();
        if self.completions && revision >= Revision::V2025_03_26 {
            parts.push(r#""completions":{}"#);
        }
        if self.logging {
            parts.push(r#""logging":{}"#);
        }
        if self.prompts {
            parts.push(r#""prompts":{"listChanged":true}"#);
        }
        if self.resources {
            parts.push(match self.subscribe {
                true => r#""resources":{"listChanged":true,"subscribe":true}"#,
                false => r#""resources":{"listChanged":true}"#,
            });
        }
        if self.tools {
            parts.push(r#""tools":{"listChanged":true}"#);
        }
        format!("{{{}}}", parts.join(","))
    }
}

/// What a client declares that it can be asked for (LIFE-11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// `roots`
    pub roots: bool,
    /// `roots.listChanged`
    pub roots_changed: bool,
    /// `sampling`
    pub sampling: bool,
    /// `sampling.tools`
    pub sampling_tools: bool,
    /// `sampling.context`
    pub sampling_context: bool,
    /// `elicitation` in form mode
    pub form: bool,
    /// `elicitation.form` is named; an empty object means it too (ELIC-01).
    pub form_named: bool,
    /// `elicitation.url`
    pub url: bool,
}

impl ClientCapabilities {
    /// Whatever a client could have.
    pub const ALL: Self = Self {
        roots: true,
        roots_changed: true,
        sampling: true,
        sampling_tools: true,
        sampling_context: true,
        form: true,
        form_named: true,
        url: true,
    };

    /// Reads the `capabilities` object of a client that speaks `revision`; members that the revision does not
    /// have are ignored (LIFE-10, LIFE-11).
    ///
    /// # Errors
    /// What the scan reports; `NotObject` when `text` is something else.
    pub fn read(text: &[u8], revision: Revision) -> Result<Self, ScanError> {
        let all = Object::scan(text, 0)?;
        let member = |name: &str| {
            let span = all.find(text, name).filter(|span| text[span.start] == b'{');
            span.map(|span| Object::scan(text, span.start)).transpose()
        };
        let has = |object: &Option<Object>, name: &str| {
            object.as_ref().and_then(|object| object.value(text, name)).is_some_and(|value| value != b"null")
        };
        let (roots, sampling, elicitation) = (member("roots")?, member("sampling")?, member("elicitation")?);
        let changed = roots.as_ref().and_then(|roots| roots.value(text, "listChanged"));
        let (form, url) = (has(&elicitation, "form"), has(&elicitation, "url"));
        let read = Self {
            roots: roots.is_some(),
            roots_changed: changed == Some(b"true".as_slice()),
            sampling: sampling.is_some(),
            sampling_tools: has(&sampling, "tools"),
            sampling_context: has(&sampling, "context"),
            form: elicitation.is_some() && (form || !url),
            form_named: form,
            url,
        };
        Ok(read.within(revision))
    }

    /// What of it `revision` has (VER-05).
    #[must_use]
    pub fn within(self, revision: Revision) -> Self {
        let (modes, elicits) = (revision >= Revision::V2025_11_25, revision >= Revision::V2025_06_18);
        Self {
            sampling_tools: self.sampling_tools && modes,
            sampling_context: self.sampling_context && modes,
            form: self.form && elicits,
            form_named: self.form_named && modes,
            url: self.url && modes,
            ..self
        }
    }

    /// What both have (LIFE-14).
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            roots: self.roots && other.roots,
            roots_changed: self.roots_changed && other.roots_changed,
            sampling: self.sampling && other.sampling,
            sampling_tools: self.sampling_tools && other.sampling_tools,
            sampling_context: self.sampling_context && other.sampling_context,
            form: self.form && other.form,
            form_named: self.form_named && other.form_named,
            url: self.url && other.url,
        }
    }

    /// The object for an upstream that is offered `revision` (LIFE-14, ELIC-01).
    #[must_use]
    pub fn to_json(self, revision: Revision) -> String {
        let shown = self.within(revision);
        let object = |members: &[(bool, &str)]| {
            let members: Vec<_> = members.iter().filter(|(has, _)| *has).map(|(_, text)| *text).collect();
            format!("{{{}}}", members.join(","))
        };
        let mut parts = Vec::new();
        if shown.form || shown.url {
            let modes =
                [(shown.form && (shown.form_named || shown.url), r#""form":{}"#), (shown.url, r#""url":{}"#)];
            parts.push(format!(r#""elicitation":{}"#, object(&modes)));
        }
        if shown.roots {
            parts.push(format!(r#""roots":{}"#, object(&[(shown.roots_changed, r#""listChanged":true"#)])));
        }
        if shown.sampling {
            let inner =
                [(shown.sampling_context, r#""context":{}"#), (shown.sampling_tools, r#""tools":{}"#)];
            parts.push(format!(r#""sampling":{}"#, object(&inner)));
        }
        format!("{{{}}}", parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIFE-10, LIFE-12, LIFE-13, VER-06
    #[test]
    fn reads_joins_and_shows() {
        let a = ServerCapabilities::read(br#"{"tools":{"listChanged":true},"x":[1],"logging":{}}"#).unwrap();
        let b =
            ServerCapabilities::read(br#"{"resources":{"subscribe":true},"completions":{},"prompts":{}}"#)
                .unwrap();
        assert!(a.tools_changed && a.logging && !a.resources && b.subscribe && !b.resources_changed);
        assert_eq!(a.to_json(Revision::LATEST), r#"{"logging":{},"tools":{"listChanged":true}}"#);
        assert!(b.to_json(Revision::V2025_03_26).contains("completions"));
        assert!(
            b.to_json(Revision::V2024_11_05).contains(r#""resources":{"listChanged":true,"subscribe":true}"#)
        );
        assert!(!b.to_json(Revision::V2024_11_05).contains("completions"));
        let both = a.union(b);
        assert!(both.tools && both.prompts && both.resources && both.completions);
        assert!(ServerCapabilities::read(b"[]").is_err());
    }

    /// LIFE-11, LIFE-14, ELIC-01, VER-05
    #[test]
    fn life_14_what_a_client_declared_is_shown_as_far_as_the_revision_has_it() {
        let read = |text: &str, revision| ClientCapabilities::read(text.as_bytes(), revision).unwrap();
        let (old, middle, new) = (Revision::V2024_11_05, Revision::V2025_06_18, Revision::V2025_11_25);
        let whole = r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}}}"#;
        assert_eq!(read(whole, new), ClientCapabilities::ALL);
        assert_eq!(read(whole, new).to_json(new), whole);
        let plain = r#"{"elicitation":{},"roots":{"listChanged":true},"sampling":{}}"#;
        assert_eq!(read(whole, new).to_json(middle), plain);
        assert_eq!(read(plain, middle).to_json(new), plain);
        assert_eq!(read(whole, old).to_json(new), r#"{"roots":{"listChanged":true},"sampling":{}}"#);
        // Whoever has only URLs has nothing that an older upstream could ask for.
        let url = read(r#"{"elicitation":{"url":{}}}"#, new);
        assert_eq!((url.form, &*url.to_json(new)), (false, r#"{"elicitation":{"url":{}}}"#));
        assert_eq!(url.to_json(middle), "{}");
        assert_eq!(read(r#"{"roots":null,"x":1,"sampling":7}"#, new), ClientCapabilities::default());
        assert_eq!(ClientCapabilities::ALL.and(url), url);
        assert!(ClientCapabilities::read(br#"{"roots":{},"roots":{}}"#, new).is_err());
    }
}
