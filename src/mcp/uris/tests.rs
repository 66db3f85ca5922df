//! URIs: the table, the way back, and what is refused.

use proptest::prelude::*;

use super::*;

fn exposed(original: &str) -> String {
    expose("github", original).expect("this can be exposed").into_owned()
}

fn template(original: &str) -> String {
    expose_template("github", original).expect("this can be exposed").into_owned()
}

/// RES-04
#[test]
fn f_044_the_namespace_goes_into_the_scheme_and_comes_off_again() {
    let table = [
        ("file:///data/A%20b%2f.txt", "github+file:///data/A%20b%2f.txt"),
        ("git+ssh://h/x?q#f", "github+git+ssh://h/x?q#f"),
        ("http://[::1]:80/", "github+http://[::1]:80/"),
        ("FILE:///A", "github+FILE:///A"),
        ("urn:x", "github+urn:x"),
        ("ui://app/view", "ui://github.app/view"),
        ("ui://app.example/view", "ui://github.app.example/view"),
        ("ui:///view", "ui://github./view"),
        ("ui:view", "github+ui:view"),
    ];
    for (original, expected) in table {
        assert_eq!(exposed(original), expected);
        assert_eq!(split(expected), Some(("github", original.into())));
    }
}

/// RES-04
#[test]
fn f_044_what_is_no_uri_is_encoded() {
    let table = [
        ("README.md", "github+raw:README.md"),
        ("a b/c%20", "github+raw:a%20b/c%2520"),
        ("file:///a b", "github+raw:file:///a%20b"),
        ("file:///文", "github+raw:file:///%E6%96%87"),
        ("file:///100%", "github+raw:file:///100%25"),
        ("raw:x", "github+raw:raw:x"),
        ("RAW:x", "github+raw:RAW:x"),
        ("1:x", "github+raw:1:x"),
        (":", "github+raw::"),
        ("file:///{x}", "github+raw:file:///%7Bx%7D"),
    ];
    for (original, expected) in table {
        assert_eq!(exposed(original), expected);
        assert_eq!(split(expected), Some(("github", original.into())));
        assert!(url::Url::parse(expected).is_ok());
    }
}

/// RES-05, R-20
#[test]
fn https_stays_as_it_is() {
    assert_eq!(exposed("https://host/a"), "https://host/a");
    assert_eq!(exposed("HTTPS://host/a"), "HTTPS://host/a");
    assert_eq!(template("https://host/{a}"), "https://host/{a}");
    assert_eq!(split("https://host/a"), None);
}

/// RES-04
#[test]
fn f_044_templates_keep_their_expressions() {
    let table = [
        ("file:///{path}", "github+file:///{path}"),
        ("file:///{+path}{?a,b*}", "github+file:///{+path}{?a,b*}"),
        ("ui://{app}/{x}", "ui://github.{app}/{x}"),
        ("{scheme}://x", "github+raw:{scheme}://x"),
        ("notes/{id}#", "github+raw:notes/{id}%23"),
        ("file:///{a}/{b c}", "github+raw:file:///{a}/%7Bb%20c%7D"),
        ("file:///{a{b}", "github+raw:file:///%7Ba{b}"),
        ("file:///{}", "github+raw:file:///%7B%7D"),
    ];
    for (original, expected) in table {
        assert_eq!(template(original), expected);
    }
}

/// RES-04: an expanded template leads to the URI that the upstream's own template gives.
#[test]
fn f_044_expansions_lead_back() {
    let expand = |template: String| template.replace("{+path}", "data/A%20b.txt");
    let original = "file:///{+path}";
    let through = expand(template(original));
    assert_eq!(split(&through), Some(("github", expand(original.into()).into())));
}

/// RES-08
#[test]
fn f_044_control_characters_and_excess_are_refused() {
    let long = format!("file:///{}", "a".repeat(caps::URI_BYTES - 8));
    let odd = "é".repeat(caps::URI_BYTES / 4);
    assert_eq!(expose("a", ""), Err(UriFault::Empty));
    assert_eq!(expose("a", "file:///a\nb"), Err(UriFault::Control));
    assert_eq!(expose("a", "file:///a\u{85}b"), Err(UriFault::Control));
    assert_eq!(expose("a", &long), Err(UriFault::TooLong));
    assert_eq!(expose("a", &odd), Err(UriFault::TooLong));
    assert_eq!(expose("a", &format!("{long}aa")), Err(UriFault::TooLong));
    assert_eq!(split(&format!("a+{long}")), None);
    assert_eq!(split("a+file:///\n"), None);
    assert_eq!(split("a+raw:%0A"), None);
    assert_eq!(split("a+raw:%ff"), None);
    assert_eq!(split("a+raw:"), None);
}

#[test]
fn what_we_never_exposed_does_not_split() {
    for text in [
        "",
        "a",
        "a+",
        "a+b",
        "A+b:c",
        "+b:c",
        "a_b+c:d",
        "a.b+c:d",
        "a+:c",
        "a+1:c",
        "ui://a",
        "ui://",
        "ui:///a.b",
        "ui://A.b",
    ] {
        assert_eq!(split(text), None, "{text}");
    }
}

#[test]
fn slugs_are_scheme_characters() {
    assert_eq!(scheme_slug("a_b-c"), "a-b-c");
}

fn original() -> impl Strategy<Value = String> {
    prop_oneof![
        "(file|git\\+ssh|x|raw|RAW|ui|UI|http|urn):(//)?[ -~]{0,30}",
        "[a-z.:/%+{} ]{0,20}",
        ".{0,30}",
    ]
}

proptest! {
    /// RES-04, F-044
    #[test]
    fn every_uri_comes_back_byte_for_byte(slug in "[a-z][a-z0-9-]{0,9}", original in original()) {
        let Ok(exposed) = expose(&slug, &original) else {
            prop_assert!(original.is_empty() || has_control(&original));
            return Ok(());
        };
        if original.to_ascii_lowercase().starts_with("https:") {
            prop_assert_eq!(exposed, original.as_str());
        } else {
            prop_assert_eq!(split(&exposed), Some((slug.as_str(), Cow::Borrowed(original.as_str()))));
            let is_ui = original.to_ascii_lowercase().starts_with("ui://");
            prop_assert!(is_ui || is_legal(&exposed, Kind::Uri), "{}", exposed);
        }
    }

    /// F-044: two upstreams never show one URI.
    #[test]
    fn two_upstreams_never_share_a_uri(a in original(), b in original()) {
        if let (Ok(a), Ok(b)) = (expose("a", &a), expose("b", &b)) {
            prop_assert!(a != b || split(&a).is_none());
        }
    }

    /// Nothing a client asks for does harm, and what splits can be exposed again.
    #[test]
    fn any_text_splits_or_not(text in "[ab]\\+(raw|x|https|ui|):[ -~]{0,20}|ui://[ -~]{0,20}|.{0,40}") {
        if let Some((slug, original)) = split(&text) {
            prop_assert!(is_slug(slug));
            if let Ok(again) = expose(slug, &original) {
                prop_assert!(split(&again).is_none_or(|(_, back)| back == original));
            }
        }
    }

    /// A template without expressions is a URI.
    #[test]
    fn templates_without_expressions_are_uris(text in "[a-z:/%. ]{0,20}") {
        prop_assert_eq!(expose_template("a", &text), expose("a", &text));
    }
}
