//! The three readers give one tree, with places, and survive anything.

use proptest::prelude::*;

use super::*;

fn read(format: Format, text: &str) -> Result<Node, Vec<Problem>> {
    format.read(&Source::new("file", text))
}

/// A tree in one line, without places.
fn shape(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(written) => written.clone(),
        Value::Text(text) => format!("{text:?}"),
        Value::List(list) => {
            let list: Vec<_> = list.iter().map(shape).collect();
            format!("[{}]", list.join(","))
        }
        Value::Table(members) => {
            let member = |member: &Member| format!("{}:{}", member.key, shape(&member.value));
            let members: Vec<_> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

#[test]
fn three_formats_are_one_tree() {
    let json = r#"{
        // a comment
        "z": {"list": ["a", 'b', 3,], "yes": true}, /* and another */
        "version": 1.10, "hex": 0x10, "none": null,
    }"#;
    let yaml = "z:\n  list: [a, 'b', 3]\n  yes: true\nversion: 1.10\nhex: 16\nnone: ~\n";
    let toml = "version = 1.10\nhex = 0x10\nnone = 'null'\n[z]\nlist = ['a', \"b\", 3]\nyes = true\n";
    let expected = r#"{z:{list:["a","b",3],yes:true},version:1.10,hex:16,none:null}"#;
    assert_eq!(shape(&read(Format::Json, json).unwrap()), expected);
    assert_eq!(shape(&read(Format::Yaml, yaml).unwrap()), expected);
    assert_eq!(
        shape(&read(Format::Toml, toml).unwrap()),
        r#"{version:1.10,hex:16,none:"null",z:{list:["a","b",3],yes:true}}"#
    );
}

#[test]
fn keys_and_values_know_their_place() {
    for (format, text) in [
        (Format::Json, "{\"ä\": {\n  \"key\": \"value\"}}"),
        (Format::Yaml, "ä:\n  key: value\n"),
        (Format::Toml, "[\"ä\"]\n  key = \"value\"\n"),
    ] {
        let source = Source::new("file", text);
        let node = format.read(&source).unwrap();
        let Value::Table(members) = &node.value else { panic!("{format:?}") };
        let Value::Table(inner) = &members[0].value.value else { panic!("{format:?}") };
        let member = &inner[0];
        assert!(text[member.key_span.clone()].contains("key"), "{format:?}");
        assert!(text[member.value.span.clone()].contains("value"), "{format:?}");
        let position = source.position(member.key_span.start);
        assert_eq!((position.line, position.column), (2, 3), "{format:?}");
    }
}

#[test]
fn yaml_scalars_keep_their_writing() {
    let text = "a: 0644\nb: 1e3\nc: yes\nd: 0x1F\ne: 1_000\nf: '8080'\n8080: g\n";
    assert_eq!(
        shape(&read(Format::Yaml, text).unwrap()),
        r#"{a:0644,b:1e3,c:"yes",d:31,e:1000,f:"8080",8080:"g"}"#
    );
}

#[test]
fn yaml_aliases_and_merges_are_resolved() {
    let text = "base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nlist: [*b]\n";
    assert_eq!(shape(&read(Format::Yaml, text).unwrap()), "{base:{x:1,y:2},use:{y:3,x:1},list:[{x:1,y:2}]}");
}

/// R-28
#[test]
fn yaml_bombs_are_refused() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let previous = format!("*a{}", level - 1);
        let list = vec![previous; 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert!(read(Format::Yaml, &bomb).is_err());
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    for format in [Format::Yaml, Format::Json] {
        assert!(read(format, &deep).is_err(), "{format:?}");
    }
    assert!(read(Format::Toml, &format!("a = {deep}")).is_err());
}

#[test]
fn faults_of_form_are_placed() {
    for (format, text, line) in [
        (Format::Json, "{\n  \"a\": 1\n  \"b\": 2\n}", 3),
        (Format::Json, "{\n\"a\": 1,\n\"a\": 2}", 3),
        (Format::Json, "{\n  \"a\": ", 2),
        (Format::Yaml, "a: 1\na: 2\n", 2),
        (Format::Yaml, "a: 1\nb: \"x\n", 2),
        (Format::Yaml, "a: 1\n---\nb: 2\n", 3),
        (Format::Toml, "a = 1\na = 2\n", 2),
        (Format::Toml, "a = \n", 1),
    ] {
        let problems = read(format, text).expect_err(text);
        let position = problems[0].position.unwrap();
        assert!(position.line.abs_diff(line) <= 1, "{text:?}: {problems:?}");
        assert!(!problems[0].message.is_empty());
    }
    let both = read(Format::Toml, "a = \nb = 1\nc = [\n").unwrap_err();
    assert!(both.len() >= 2, "all of them at once: {both:?}");
}

#[test]
fn endings_tell_the_format() {
    for (name, format) in [
        ("a.json", Some(Format::Json)),
        ("a.JSONC", Some(Format::Json)),
        ("a.yml", Some(Format::Yaml)),
        ("a.toml", Some(Format::Toml)),
        ("a.txt", None),
        ("a", None),
    ] {
        assert_eq!(Format::of(Path::new(name)), format, "{name}");
    }
}

fn check_spans(source: &Source, node: &Node) {
    let inside = |span: &Span| source.text().get(span.clone()).is_some();
    assert!(inside(&node.span));
    match &node.value {
        Value::List(list) => list.iter().for_each(|node| check_spans(source, node)),
        Value::Table(members) => members.iter().for_each(|member| {
            assert!(inside(&member.key_span));
            check_spans(source, &member.value);
        }),
        _ => {}
    }
}

fn survive(text: String) {
    for format in [Format::Json, Format::Yaml, Format::Toml] {
        let source = Source::new("file", text.clone());
        match format.read(&source) {
            Ok(node) => check_spans(&source, &node),
            Err(problems) => {
                let lines = source.text().split('\n').count();
                for problem in problems {
                    let position = problem.position.unwrap();
                    assert!((1..=lines).contains(&position.line));
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        survive(String::from_utf8_lossy(&bytes).into_owned());
    }

    #[test]
    fn anything_like_a_document_is_survived(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", "\"", "'", "\n", "  ", "- ", "a", "ä", "1", "=", "#",
                "//", "/*", "&x ", "*x", "<<", "|", ">", "!!int ", "---", "\t", "\r", "?", "0x", "\\u",
                "true", "null", "\u{feff}", "\u{2028}", "%", "`", "..",
            ]),
            0..40,
        )
    ) {
        survive(parts.concat());
    }
}
