//! Capabilities of servers: what an upstream declared, and the union that clients are shown.

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
            parts.push(r#""resources":{"listChanged":true}"#);
        }
        if self.tools {
            parts.push(r#""tools":{"listChanged":true}"#);
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
        assert!(!b.to_json(Revision::V2024_11_05).contains("completions"));
        let both = a.union(b);
        assert!(both.tools && both.prompts && both.resources && both.completions);
        assert!(ServerCapabilities::read(b"[]").is_err());
    }
}
