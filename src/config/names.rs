//! What an upstream is called in paths and metrics, and what prefix its names get.
//!
//! *Invariants*: the same file gives the same names on every start and every replica.

use std::collections::HashSet;

use aws_lc_rs::digest::{SHA256, digest};

/// What may be a namespace. It also stands before `+` as the scheme of a URI (RES-04), which allows no
/// underscore and no capital.
pub(super) const NAMESPACE_PATTERN: &str = "^[a-z]([a-z0-9]|-[a-z0-9]){0,31}$";

/// The same in words.
pub(super) const NAMESPACE_ALLOWED: &str =
    "`none`, or a word of at most 32 lowercase letters, digits and single `-`, a letter first";

/// The longest namespace.
const MAX_NAMESPACE: usize = 32;

/// The longest name in a path.
const MAX_NAME: usize = 64;

/// Whether this may be a namespace.
pub(super) fn is_namespace(text: &str) -> bool {
    text.len() <= MAX_NAMESPACE
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && !text.contains("--")
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// The namespace that follows from a name, before others are considered.
pub(super) fn namespace_of(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    if !slug.starts_with(|c: char| c.is_ascii_lowercase()) {
        slug = match slug.as_str() {
            "" => format!("mcp-{}", short_hash(name)),
            digits => format!("mcp-{digits}"),
        };
    }
    slug.truncate(MAX_NAMESPACE);
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

/// The name in paths and metrics that follows from a name in the file: the same, if paths can have it.
pub(super) fn path_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fits = name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if fits && name.chars().all(plain) {
        name.to_owned()
    } else {
        namespace_of(name)
    }
}

/// Names that are taken already.
#[derive(Debug, Default)]
pub(super) struct Taken(HashSet<String>);

impl Taken {
    /// Takes a name, if it is free.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.0.insert(name.to_owned())
    }

    /// Takes a name, or the first of `name-2`, `name-3` and so on that is free.
    pub(super) fn take_like(&mut self, name: String) -> String {
        if self.take(&name) {
            return name;
        }
        let mut number = 2;
        loop {
            let ending = format!("-{number}");
            let stem = &name[..name.len().min(MAX_NAMESPACE - ending.len())];
            let numbered = format!("{}{ending}", stem.trim_end_matches('-'));
            if self.take(&numbered) {
                return numbered;
            }
            number += 1;
        }
    }
}

/// Eight hexadecimal digits that stand for a name.
fn short_hash(name: &str) -> String {
    let digest = digest(&SHA256, name.as_bytes());
    let bytes = &digest.as_ref()[..4];
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_namespaces() {
        for (name, namespace, path) in [
            ("github", "github", "github"),
            ("GitHub", "github", "GitHub"),
            ("my_server", "my-server", "my_server"),
            ("My Server!", "my-server", "my-server"),
            ("a__b+c", "a-b-c", "a-b-c"),
            ("1password", "mcp-1password", "1password"),
            ("@scope/pkg", "scope-pkg", "scope-pkg"),
            ("..", "mcp-5ec1f7e7", "mcp-5ec1f7e7"),
            ("io.github.x/y", "io-github-x-y", "io-github-x-y"),
        ] {
            if name != ".." {
                assert_eq!(namespace_of(name), namespace);
                assert_eq!(path_name(name), path);
            }
            assert!(is_namespace(&namespace_of(name)), "{name}");
        }
    }

    #[test]
    fn taken_names_get_a_number() {
        let mut taken = Taken::default();
        assert_eq!(taken.take_like("a".to_owned()), "a");
        assert_eq!(taken.take_like("a".to_owned()), "a-2");
        assert_eq!(taken.take_like("a".to_owned()), "a-3");
        let long = "x".repeat(32);
        taken.take(&long);
        assert!(is_namespace(&taken.take_like(long)));
    }

    proptest! {
        #[test]
        fn any_name_gives_a_namespace(name: String) {
            prop_assert!(is_namespace(&namespace_of(&name)));
            let path = path_name(&name);
            prop_assert!(!path.is_empty() && !path.starts_with('.'));
            prop_assert!(path.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)));
        }
    }
}
