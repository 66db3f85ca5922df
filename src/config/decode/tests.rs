//! What is said of values that are wrong.

use super::*;
use crate::config::document::{Format, Node};
use crate::config::environment::Environment;

/// Reads the key `x` of a JSON text, and returns what is noted.
fn noted<T>(text: &str, read: impl FnOnce(&mut Field<'_, '_>) -> Result<T, Refusal>) -> String {
    let source = Source::new("f", text);
    let root: Node = Format::Json.read(&source).unwrap();
    let environment: Environment = [("SECRET", "hunter2")].into_iter().collect();
    let variables = Variables { environment: &environment, folder: None };
    let mut decoder = Decoder::new(&source, variables);
    Field::root(&mut decoder, &root).noted(|field| field.table(|table| table.read("x", read)));
    let noted = decoder.problems.iter().chain(&decoder.failures);
    noted.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_allowed_is_said() {
    for (text, said) in [
        (r#"{"x": 7}"#, ""),
        (r#"{"x": "7"}"#, ""),
        (r#"{"x": null}"#, ""),
        (r#"{}"#, ""),
        (r#"{"x": 0}"#, "f:1:7: x: `0` is not allowed\n    allowed: a whole number from 1 to 9"),
        (r#"{"x": -1}"#, "f:1:7: x: `-1` is not allowed\n    allowed: a whole number from 1 to 9"),
        (r#"{"x": []}"#, "f:1:7: x: this is a list\n    allowed: a whole number from 1 to 9"),
        (
            r#"{"x": "${SECRET}"}"#,
            "f:1:7: x: the value, which comes from a variable or a file, is not allowed\n    \
             allowed: a whole number from 1 to 9",
        ),
        (r#"{"y": 1}"#, "f:1:2: y: unknown key `y`\n    did you mean `x`?\n    allowed here: x"),
        (r#"{"other": 1}"#, "f:1:2: other: unknown key `other`\n    allowed here: x"),
    ] {
        assert_eq!(noted(text, |field| field.count(1..=9)), said, "{text}");
    }
}

#[test]
fn words_are_suggested() {
    let choices = [("session", 1), ("shared", 2)];
    let said = noted(r#"{"x": "sesion"}"#, |field| field.choice(&choices));
    assert!(said.contains("did you mean `session`?"), "{said}");
    let said = noted(r#"{"x": "else"}"#, |field| field.choice(&choices));
    assert!(said.contains("allowed: one of session, shared"), "{said}");
}

#[test]
fn addresses_need_a_port() {
    for (text, accepted) in [
        ("127.0.0.1:0", true),
        ("[::1]:7420", true),
        ("localhost:80", true),
        ("0.0.0.0:80", true),
        ("127.0.0.1", false),
        (":80", false),
        ("example.com:80", false),
        ("127.0.0.1:99999", false),
    ] {
        let said = noted(&format!(r#"{{"x": "{text}"}}"#), |field| field.socket());
        assert_eq!(said.is_empty(), accepted, "{text}: {said}");
    }
}

#[test]
fn items_that_are_wrong_are_all_noted() {
    let said = noted(r#"{"x": ["a", 1, [], "${MISSING}"]}"#, |field| field.words());
    assert!(said.contains("x[1]: this is a number"), "{said}");
    assert!(said.contains("x[2]: this is a list"), "{said}");
    assert!(said.contains("x[3]: variable `MISSING` is not set"), "{said}");
}

#[test]
fn odd_keys_are_quoted_in_paths() {
    let place = Place { path: "a".to_owned(), span: 0..0 };
    assert_eq!(place.inside("b"), "a.b");
    assert_eq!(place.inside("b c"), "a.\"b c\"");
    assert_eq!(place.inside(""), "a.\"\"");
}
