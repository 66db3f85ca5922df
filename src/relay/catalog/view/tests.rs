//! Merging: names, clashes, owners of URIs, order.

use super::*;
use crate::call::Handshake;
use crate::mcp::revision::Revision;
use crate::relay::catalog::item;

fn snapshot(tools: &[&str], resources: &[&str], templates: &[&str]) -> Arc<Snapshot> {
    let read = |kind: ItemKind, text: String| item::read(kind, &Bytes::from(text), 9999).unwrap();
    let tools = tools.iter().map(|name| {
        read(ItemKind::Tool, format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
    });
    let resources =
        resources.iter().map(|uri| read(ItemKind::Resource, format!(r#"{{"uri":"{uri}","name":"n"}}"#)));
    let templates = templates
        .iter()
        .map(|uri| read(ItemKind::Template, format!(r#"{{"uriTemplate":"{uri}","name":"n"}}"#)));
    Arc::new(Snapshot {
        handshake: Arc::new(Handshake {
            revision: Revision::LATEST,
            capabilities: ServerCapabilities { tools: true, ..ServerCapabilities::default() },
            server_info: Bytes::from_static(b"{}"),
            instructions: None,
        }),
        items: [
            Arc::new(tools.collect()),
            Arc::default(),
            Arc::new(resources.collect()),
            Arc::new(templates.collect()),
        ],
        read_at: crate::base::clock::now(),
        stale: false,
    })
}

fn source(id: u16, namespace: Option<&str>, snapshot: Option<Arc<Snapshot>>) -> Source {
    Source { id: UpstreamId(id), namespace: namespace.map(Arc::from), snapshot, barred: Arc::default() }
}

fn names(view: &View) -> Vec<String> {
    let name = |item: &Bytes| {
        crate::jsonrpc::Object::scan(item, 0).unwrap().string(item, "name").unwrap().into_owned()
    };
    view.lists[ItemKind::Tool.index()].items.iter().map(name).collect()
}

/// TOOL-04, F-041: looked up, never split; names of one upstream do not depend on the others.
#[test]
fn names_lead_to_their_upstream() {
    let alpha = source(0, Some("alpha"), Some(snapshot(&["echo", "a__b"], &[], &[])));
    let alone = merge(std::slice::from_ref(&alpha), 46, 1);
    let both = merge(&[alpha, source(1, Some("beta"), Some(snapshot(&["echo"], &[], &[])))], 46, 2);
    assert_eq!(names(&both), ["alpha__echo", "alpha__a__b", "beta__echo"]);
    assert_eq!(names(&alone), names(&both)[..2]);
    let route = both.route(ItemKind::Tool, "alpha__a__b").unwrap();
    assert_eq!((route.upstream, &*route.original), (UpstreamId(0), "a__b"));
    assert!(both.route(ItemKind::Tool, "echo").is_none());
    assert!(both.route(ItemKind::Prompt, "alpha__echo").is_none());
    assert!(both.lists[0].whole.starts_with(br#"{"tools":[{"name":"alpha__echo""#));
}

/// R-19, F-042: a clash withholds both, in whatever order they came.
#[test]
fn a_clash_is_nobodys() {
    let one = source(0, None, Some(snapshot(&["search", "a"], &[], &[])));
    let two = source(1, None, Some(snapshot(&["search", "b"], &[], &[])));
    let view = merge(&[one.clone(), two.clone()], 46, 1);
    assert_eq!(names(&view), ["a", "b"]);
    assert!(view.route(ItemKind::Tool, "search").is_none());
    assert_eq!(view.withheld.len(), 2);
    // One that came later at run time takes nothing away.
    let barred = Source { barred: Arc::new(HashSet::from([(ItemKind::Tool, "search".to_owned())])), ..two };
    let view = merge(&[one, barred], 46, 2);
    assert_eq!(names(&view), ["search", "a", "b"]);
    assert_eq!(view.route(ItemKind::Tool, "search").unwrap().upstream, UpstreamId(0));
}

/// RES-04, RES-05, R-20, F-044
#[test]
fn uris_lead_to_their_owner() {
    let alpha = source(
        0,
        Some("alpha"),
        Some(snapshot(&[], &["file:///d/A%20b.txt", "https://x/1"], &["https://x/{id}/raw"])),
    );
    let beta = source(
        1,
        Some("beta"),
        Some(snapshot(&[], &["file:///d/A%20b.txt", "https://x/1", "https://x/2"], &[])),
    );
    let view = merge(&[alpha, beta], 46, 1);
    assert_eq!(
        view.locate("beta+file:///d/A%20b.txt"),
        Some((UpstreamId(1), Cow::Borrowed("file:///d/A%20b.txt")))
    );
    assert_eq!(view.locate("alpha+never:listed").unwrap().0, UpstreamId(0));
    assert_eq!(view.locate("https://x/1").unwrap().0, UpstreamId(0));
    assert_eq!(view.locate("https://x/2").unwrap().0, UpstreamId(1));
    assert_eq!(view.locate("https://x/9/raw").unwrap().0, UpstreamId(0));
    assert_eq!(view.locate("https://x/9"), None);
    assert_eq!(view.locate("gamma+file:///x"), None);
    assert_eq!(view.lists[ItemKind::Resource.index()].items.len(), 4);
    assert_eq!(view.withheld.len(), 1);
}

/// RES-05: a listed URI is its upstream's, whatever its scheme looks like; of two templates neither is taken.
#[test]
fn what_is_listed_goes_before_what_it_looks_like() {
    let git = source(0, Some("git"), Some(snapshot(&[], &["ssh://listed"], &["https://x/{id}"])));
    let bare = source(
        1,
        None,
        Some(snapshot(&[], &["git+ssh://host/a", "git+ssh://listed", "a\\u0007:b"], &["https://x/{y}/z"])),
    );
    let view = merge(&[git, bare], 46, 1);
    assert_eq!(view.locate("git+ssh://host/a"), Some((UpstreamId(1), Cow::Borrowed("git+ssh://host/a"))));
    assert_eq!(view.locate("git+ssh://host/b"), Some((UpstreamId(0), Cow::Borrowed("ssh://host/b"))));
    // The first one in order keeps what it shows.
    assert_eq!(view.locate("git+ssh://listed").unwrap().0, UpstreamId(0));
    assert_eq!(view.locate("https://x/1").unwrap().0, UpstreamId(0));
    assert_eq!(view.locate("https://x/1/z"), None);
    assert_eq!(view.withheld.len(), 2, "{:?}", view.withheld);
}

#[test]
fn without_a_namespace_everything_is_its_own() {
    let view = merge(&[source(3, None, Some(snapshot(&["a.b"], &["x://1"], &[])))], 64, 1);
    assert_eq!(view.locate("anything:at-all").unwrap().0, UpstreamId(3));
    assert_eq!(view.lists[ItemKind::Resource.index()].items[0], r#"{"uri":"x://1","name":"n"}"#);
    assert!(!view.incomplete);
    assert!(merge(&[source(0, None, None)], 64, 1).incomplete);
}

#[test]
fn templates_match_by_their_literal_parts() {
    assert!(matches_template("a:/x/{y}", "a:/x/1"));
    assert!(matches_template("a:/{x}/b/{y}.txt", "a:/1/b/2.txt"));
    assert!(matches_template("a:/x", "a:/x"));
    assert!(!matches_template("a:/x", "a:/x/1"));
    assert!(!matches_template("a:/{x}/b", "a:/1/c"));
    assert!(!matches_template("b:/{x}", "a:/1"));
}
