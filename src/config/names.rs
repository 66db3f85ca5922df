//! What an upstream is called in paths and metrics, and what prefix its names get.
//!
//! *Invariants*: the same file gives the same names on every start and every replica.

use std::collections::HashSet;

use crate::base::caps;
use crate::mcp::names::namespace_of;
use crate::mcp::uris::scheme_slug;

/// What may be a namespace, in words.
pub(super) const NAMESPACE_ALLOWED: &str =
    "`none`, or a word of at most 32 lowercase letters, digits, `-` and single `_`, a letter first";

/// The longest name in a path.
const MAX_NAME: usize = 64;

/// The name in paths and metrics that follows from a name in the file: the same, if paths can have it.
pub(super) fn path_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fits = name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if fits && name.chars().all(plain) { name.to_owned() } else { namespace_of(name) }
}

/// Names that are taken already. Two that make one slug in URIs count as one (RES-04).
#[derive(Debug, Default)]
pub(super) struct Taken(HashSet<String>);

impl Taken {
    /// Takes a name, if it is free.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.0.insert(scheme_slug(name).into_owned())
    }

    /// Takes a name, or the first of `name-2`, `name-3` and so on that is free.
    pub(super) fn take_like(&mut self, name: String) -> String {
        if self.take(&name) {
            return name;
        }
        let numbered = |number: usize| {
            let ending = format!("-{number}");
            let room = caps::NAMESPACE_CHARS.saturating_sub(ending.len());
            let stem = &name[..name.floor_char_boundary(room)];
            format!("{}{ending}", stem.trim_end_matches(['-', '_']))
        };
        (2..).map(numbered).find(|name| self.take(name)).expect("some number is free")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mcp::names::check_namespace;

    #[test]
    fn paths_keep_the_name_where_they_can() {
        for (name, path) in [
            ("github", Some("github")),
            ("GitHub", Some("GitHub")),
            ("my_server.v2", Some("my_server.v2")),
            ("1password", Some("1password")),
            ("My Server!", None),
            ("@scope/pkg", None),
            ("..", None),
        ] {
            match path {
                Some(path) => assert_eq!(path_name(name), path),
                None => assert_eq!(path_name(name), namespace_of(name)),
            }
        }
    }

    #[test]
    fn taken_names_get_a_number() {
        let mut taken = Taken::default();
        assert_eq!(taken.take_like("a_b".to_owned()), "a_b");
        assert_eq!(taken.take_like("a-b".to_owned()), "a-b-2");
        assert_eq!(taken.take_like("a_b".to_owned()), "a_b-3");
        let long = "x".repeat(caps::NAMESPACE_CHARS);
        taken.take(&long);
        assert_eq!(check_namespace(&taken.take_like(long)), Ok(()));
    }

    proptest! {
        #[test]
        fn any_name_gives_a_path(name: String) {
            let path = path_name(&name);
            prop_assert!(!path.is_empty() && !path.starts_with('.'));
            prop_assert!(path.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)));
        }
    }
}
