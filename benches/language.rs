//! What single steps of a call cost: scanning, splicing, rewriting, events, lines, names, the catalog.
//!
//! Sizes are those of real traffic: a small call, a structured result of 4 kB, a result of 1 MiB.

use std::{hint::black_box, sync::Arc};

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use portcullis::{
    base::clock,
    call::{Handshake, UpstreamId},
    framing::{
        lines::Lines,
        sse::{Decoder, encode},
    },
    jsonrpc::{
        Edits, Message,
        rewrite::{Action, Node, Plan, RewriteError, Rewriter, UriMap, leaf, walk},
        view::object_at,
    },
    mcp::{capabilities::ServerCapabilities, methods::ItemKind, names::expose_all, revision::Revision},
    relay::catalog::{
        item::{self, Item},
        snapshot::Snapshot,
        view::{Source, merge},
    },
};

/// What a socket gives at once, as a rule.
const READ_BYTES: usize = 16 << 10;

/// More than any frame here has.
const FRAME_CAP: usize = 4 << 20;

/// Names as long as clients that prepend their own still take.
const NAME_BUDGET: usize = 46;

fn scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    for (name, text) in messages() {
        assert!(Message::parse(text.clone()).is_ok());
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| Message::parse(black_box(&text).clone()));
        });
    }
    group.finish();
}

/// A call as it leaves for its upstream: another id, the upstream's own name for the tool.
fn splice(criterion: &mut Criterion) {
    let call = Message::parse(call()).expect("the call is a message");
    assert!(outgoing(&call).is_some_and(|text| Message::parse(text).is_ok()));
    let mut group = criterion.benchmark_group("splice");
    group.bench_function("call", |bencher| bencher.iter(|| outgoing(black_box(&call))));
    group.finish();
}

fn outgoing(call: &Message) -> Option<Bytes> {
    let params = object_at(call.text(), call.params()).ok().flatten()?;
    let mut edits = Edits::new();
    edits.replace(params.find(call.text(), "name")?, Bytes::from_static(br#""search""#));
    Some(call.readdress(Some(7), "tools/call", &edits))
}

/// Answers as they pass: the caller's id in place of ours, URIs of resources mapped, the rest untouched.
fn rewrite(criterion: &mut Criterion) {
    let uris: UriMap = Arc::new(|uri| Some(format!("ledger+{uri}")));
    let mut group = criterion.benchmark_group("rewrite");
    for (name, text) in messages().into_iter().filter(|(name, _)| *name != "call") {
        group.throughput(Throughput::Bytes(text.len() as u64));
        let chunks: Vec<Bytes> = text.chunks(READ_BYTES).map(Bytes::copy_from_slice).collect();
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let plan = Plan { root: &ANSWER, id: Bytes::from_static(b"41"), uris: Some(uris.clone()) };
            assert!(incoming(&plan, &chunks).is_ok());
            bencher.iter(|| incoming(black_box(&plan), &chunks));
        });
    }
    group.finish();
}

fn incoming(plan: &Plan, chunks: &[Bytes]) -> Result<Vec<Bytes>, RewriteError> {
    let mut out = Vec::with_capacity(chunks.len() + 4);
    let mut rewriter = Rewriter::new(plan.clone());
    chunks.iter().try_for_each(|chunk| rewriter.push(chunk, &mut out))?;
    rewriter.finish()?;
    Ok(out)
}

static ANSWER: Node = walk(&[("id", &ID), ("result", &RESULT)]);
static RESULT: Node = Node {
    members: &[("content", &CONTENT), ("isError", &IS_ERROR)],
    elements: None,
    action: Action::Result,
};
static CONTENT: Node = Node { members: &[], elements: Some(&BLOCK), action: Action::Walk };
static BLOCK: Node = walk(&[("uri", &URI), ("resource", &RESOURCE)]);
static RESOURCE: Node = walk(&[("uri", &URI)]);
static ID: Node = leaf(Action::Id);
static URI: Node = leaf(Action::Uri);
static IS_ERROR: Node = leaf(Action::IsError);

/// A call's answer as a stream: ten notices of progress, then the result.
fn events(criterion: &mut Criterion) {
    let mut stream = BytesMut::new();
    for step in 1..=10 {
        encode(&mut stream, "message", None, &progress(step));
    }
    encode(&mut stream, "message", None, &structured());
    let stream = stream.freeze();
    let mut group = criterion.benchmark_group("sse");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    for (name, bytes) in [("decode/at once", stream.len()), ("decode/by 100 bytes", 100)] {
        let chunks: Vec<Bytes> = stream.chunks(bytes).map(Bytes::copy_from_slice).collect();
        assert_eq!(decode(&chunks), 11);
        group.bench_function(name, |bencher| bencher.iter(|| decode(black_box(&chunks))));
    }
    let notice = progress(1);
    group.throughput(Throughput::Bytes(notice.len() as u64));
    group.bench_function("encode", |bencher| {
        let mut out = BytesMut::with_capacity(1 << 10);
        bencher.iter(|| {
            out.clear();
            encode(&mut out, "message", Some("7"), black_box(&notice));
            out.len()
        });
    });
    group.finish();
}

fn decode(chunks: &[Bytes]) -> usize {
    let mut decoder = Decoder::new(FRAME_CAP);
    let take = |chunk: &Bytes| {
        decoder.push(chunk.clone());
        decoder.by_ref().filter_map(Result::ok).count()
    };
    chunks.iter().map(take).sum()
}

fn lines(criterion: &mut Criterion) {
    let mut stream = BytesMut::new();
    for _ in 0..100 {
        stream.extend_from_slice(&call());
        stream.extend_from_slice(b"\n");
    }
    let chunks: Vec<Bytes> = stream.chunks(READ_BYTES).map(Bytes::copy_from_slice).collect();
    let mut group = criterion.benchmark_group("lines");
    group.throughput(Throughput::Elements(100));
    assert_eq!(split(&chunks), 100);
    group.bench_function("100 calls", |bencher| bencher.iter(|| split(black_box(&chunks))));
    group.finish();
}

fn split(chunks: &[Bytes]) -> usize {
    let mut lines = Lines::new(FRAME_CAP);
    let take = |chunk: &Bytes| {
        lines.push(chunk.clone());
        lines.by_ref().filter_map(Result::ok).count()
    };
    chunks.iter().map(take).sum()
}

/// Ten upstreams of fifty tools: how long it takes to merge them anew, and to find one by its exposed name.
fn catalog(criterion: &mut Criterion) {
    let sources: Vec<Source> = (0..10).map(source).collect();
    let view = merge(&sources, NAME_BUDGET, 1);
    let name = "ledger-7__entry_33";
    assert!(view.route(ItemKind::Tool, name).is_some());
    let mut group = criterion.benchmark_group("catalog");
    group.bench_function("look up", |bencher| {
        bencher.iter(|| view.route(ItemKind::Tool, black_box(name)));
    });
    group.throughput(Throughput::Elements(500));
    group.bench_function("merge", |bencher| bencher.iter(|| merge(black_box(&sources), NAME_BUDGET, 1)));
    group.finish();
}

fn source(number: u16) -> Source {
    let tools = (0..50).map(|index| item::read(ItemKind::Tool, &tool(index), FRAME_CAP));
    let tools: Vec<Item> = tools.collect::<Result<_, _>>().expect("the tools are well formed");
    let handshake = Handshake {
        revision: Revision::V2025_11_25,
        capabilities: ServerCapabilities::default(),
        server_info: Bytes::from_static(br#"{"name":"ledger","version":"1.0.0"}"#),
        instructions: None,
    };
    let mut items: [Arc<Vec<Item>>; 4] = std::array::from_fn(|_| Arc::default());
    items[ItemKind::Tool.index()] = Arc::new(tools);
    let snapshot = Snapshot { handshake: Arc::new(handshake), items, read_at: clock::now(), stale: false };
    Source {
        id: UpstreamId(number),
        namespace: Some(format!("ledger-{number}").into()),
        snapshot: Some(Arc::new(snapshot)),
        barred: Arc::default(),
    }
}

fn tool(index: usize) -> Bytes {
    let tool = format!(
        concat!(
            r#"{{"name":"entry_{}","description":"Looks an entry up and gives back what it holds","#,
            r#""inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}},"limit":{{"type":"integer"}}}},"#,
            r#""required":["text"]}},"annotations":{{"readOnlyHint":true}}}}"#
        ),
        index
    );
    tool.into()
}

/// The names that the tools of one upstream get on a merged endpoint, short ones and some beyond the budget.
fn names(criterion: &mut Criterion) {
    let originals: Vec<String> = (0..50)
        .map(|index| match index % 10 {
            0 => format!("a_name_that_its_author_has_made_longer_than_clients_take_{index}"),
            _ => format!("ledger_{index}"),
        })
        .collect();
    let mut group = criterion.benchmark_group("names");
    group.throughput(Throughput::Elements(originals.len() as u64));
    group.bench_function("50 tools", |bencher| {
        bencher.iter(|| {
            let originals = black_box(&originals).iter().map(String::as_str);
            expose_all(Some("ledger"), originals, NAME_BUDGET)
        });
    });
    group.finish();
}

fn messages() -> [(&'static str, Bytes); 3] {
    [("call", call()), ("result of 4 kB", structured()), ("result of 1 MiB", large())]
}

fn call() -> Bytes {
    let text = "what was entered last spring, by whom, and under which number ".repeat(2);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"ledger__search","arguments":{{"text":"{text}"}},"_meta":{{"progressToken":3}}}}}}"#
    );
    call.into()
}

fn progress(step: u32) -> Bytes {
    let notice = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":3,"progress":{step},"total":10,"message":"page {step} read"}}}}"#
    );
    notice.into()
}

fn structured() -> Bytes {
    let entries: Vec<String> = (0..32)
        .map(|index| {
            format!(
                r#"{{"number":{index},"who":"Ada \"the clerk\" Quill","sum":{}.25,"tags":["spring",null,true],"at":"2025-04-{:02}"}}"#,
                index * 317,
                index % 28 + 1
            )
        })
        .collect();
    let link = r#"{"type":"resource_link","uri":"file:///ledger/2025.csv","name":"the ledger"}"#;
    let result = format!(
        r#"{{"jsonrpc":"2.0","id":9001,"result":{{"content":[{link}],"structuredContent":{{"entries":[{}]}},"isError":false}}}}"#,
        entries.join(",")
    );
    result.into()
}

fn large() -> Bytes {
    let text =
        r"No entry is ever taken out again;\nwhat was wrong is struck through. ".repeat((1 << 20) / 70);
    let result = format!(
        r#"{{"jsonrpc":"2.0","id":9002,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
    );
    result.into()
}

criterion_group!(benches, scan, splice, rewrite, events, lines, names, catalog);
criterion_main!(benches);
