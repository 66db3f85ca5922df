//! Hard limits and defaults of limits in one list: name, unit, reason. What configuration may change starts from here.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

// Messages (RPC-24, F-035)

/// Bytes of one message, the same on every path and in both directions: large enough for images and long lists.
pub const MESSAGE_BYTES: usize = 16 * MIB;
/// Largest message size that may be configured, in bytes; positions inside a message are kept as 32-bit numbers.
pub const MESSAGE_BYTES_MAX: usize = 1024 * MIB;
/// Levels of nesting in a message: beyond what servers send, far below what would hurt a reader's stack.
pub const NESTING_DEPTH: usize = 128;
/// Messages in a batch of 2025-03-26: a batch multiplies work behind one request.
pub const BATCH_LENGTH: usize = 100;

// HTTP

/// Bytes of all header lines of a request or an answer.
pub const HEADER_BYTES: usize = 32 * KIB;
/// Number of header lines of a request or an answer.
pub const HEADER_LINES: usize = 100;
/// Factor by which a compressed answer may grow: real JSON stays below, bombs do not.
pub const INFLATE_RATIO: usize = 100;
/// Redirects followed for one request (HTTP-39).
pub const REDIRECTS: usize = 3;
/// Bytes kept of the body of a failed answer, to find out why.
pub const ERROR_BODY_BYTES: usize = 64 * KIB;
/// Bytes read after an answer has come before its stream is closed (F-012).
pub const DRAIN_BYTES: usize = 256 * KIB;
/// GET streams of one session: several are allowed, one per window is use, more is a leak.
pub const STREAMS_PER_SESSION: usize = 16;
/// Calls of one session without an answer, also those whose client has left: far beyond what an agent starts at once.
pub const CALLS_PER_SESSION: usize = 1024;
/// Questions that may be open in one session: an agent has a few, beyond it an upstream is stuck or hostile.
pub const QUESTIONS_PER_SESSION: usize = 32;
/// Notices that wait for a session's next stream while none is open.
pub const WAITING_NOTICES: usize = 64;
/// Notices that wait for a session's open stream while its client is slow to read.
pub const UNREAD_NOTICES: usize = 1024;
/// Bytes of the notices that wait in one session, and of those that wait in one call.
pub const WAITING_BYTES: usize = MIB;
/// Large answers that one session reads whole at a time, where they cannot be written in parts: each is held in memory.
pub const WHOLE_ANSWERS: usize = 4;
/// Bytes kept for replay, of one stream: hundreds of notices, and nearly every answer.
pub const REPLAY_BYTES: usize = 256 * KIB;
/// Bytes kept for replay, of one session.
pub const REPLAY_BYTES_PER_SESSION: usize = MIB;
/// Bytes kept for replay, of all sessions.
pub const REPLAY_BYTES_IN_ALL: usize = 64 * MIB;
/// Streams that nobody reads and one session can still resume.
pub const RESUMABLE_STREAMS: usize = 64;
/// How long what a stream carried can be replayed: a laptop that slept through a meeting starts anew.
pub const REPLAY_AGE: Duration = Duration::from_mins(5);
/// Connections of clients: a stream and a call for each of the sessions that there may be by default, and some more.
pub const CONNECTIONS: usize = 32 * KIB;

// Catalog, per upstream

/// Items of one kind (tools, prompts, resources, templates).
pub const CATALOG_ITEMS: usize = 2_000;
/// Bytes of one item.
pub const CATALOG_ITEM_BYTES: usize = 256 * KIB;
/// Bytes of all items.
pub const CATALOG_BYTES: usize = 16 * MIB;
/// Pages of one list; a cursor that loops ends here at the latest.
pub const CATALOG_PAGES: usize = 100;
/// Bytes of an upstream's instructions.
pub const INSTRUCTIONS_BYTES: usize = 2 * KIB;
/// Most bytes of an upstream's instructions that may be configured; what is beyond is not kept.
pub const INSTRUCTIONS_BYTES_MAX: usize = 32 * KIB;
/// Bytes of the instructions of all upstreams together.
pub const MERGED_INSTRUCTIONS_BYTES: usize = 8 * KIB;
/// How long a kept catalog may be served without a refresh.
pub const CATALOG_STALE: Duration = Duration::from_hours(24);

/// Sessions with lists of their own.
pub const OWN_LISTS: usize = 256;
/// Sessions whose connections to one upstream announce a change while it is being read.
pub const VOICES: usize = 256;

// Names and URIs

/// Characters of a name on a merged endpoint: clients put their own prefix before it, and models stop at 64.
pub const MERGED_NAME_CHARS: usize = 46;
/// Characters of a name on the endpoint of one upstream: what model interfaces accept.
pub const SINGLE_NAME_CHARS: usize = 64;
/// Fewest characters that may be configured for a name: room for a stem and a hash.
pub const NAME_CHARS_MIN: usize = 16;
/// Most characters that may be configured for a name: the specification's own limit (TOOL-03).
pub const NAME_CHARS_MAX: usize = 128;
/// Characters of a namespace, so that a name has room beside it.
pub const NAMESPACE_CHARS: usize = 32;
/// Bytes of an exposed resource URI: what HTTP stacks accept in a line.
pub const URI_BYTES: usize = 8 * KIB;

// Children

/// Children of one upstream.
pub const CHILDREN_PER_UPSTREAM: usize = 32;
/// Children of all upstreams.
pub const CHILDREN: usize = 128;
/// How long a call waits for a free child.
pub const CHILD_SLOT_WAIT: Duration = Duration::from_secs(10);
/// How long a child without work is kept.
pub const CHILD_IDLE: Duration = Duration::from_mins(5);
/// Messages waiting for one child's stdin; when it is full, senders wait for their deadline (STDIO-07).
pub const CHILD_QUEUE: usize = 64;
/// Bytes of a line of a child's stderr that reach the log; the rest of the line is dropped (F-025).
pub const STDERR_LINE_BYTES: usize = 8 * KIB;

// Deadlines

/// To connect to an upstream.
pub const CONNECT: Duration = Duration::from_secs(5);
/// For the TLS handshake.
pub const TLS_HANDSHAKE: Duration = Duration::from_secs(5);
/// For the MCP handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(30);
/// For the first MCP handshake of a child, which may have to download its package first (F-028).
pub const FIRST_HANDSHAKE: Duration = Duration::from_mins(5);
/// For one page of a list.
pub const LIST: Duration = Duration::from_secs(10);
/// For reading a resource.
pub const READ: Duration = Duration::from_secs(30);
/// For a call, since its last message.
pub const CALL_IDLE: Duration = Duration::from_mins(5);
/// For a call in all.
pub const CALL: Duration = Duration::from_hours(1);
/// For the answer to a question of an upstream: a person may be away for a while, an upstream does not wait for ever.
pub const QUESTION: Duration = Duration::from_mins(10);
/// Questions of one connection that wait for answers: a runaway loop is not a person's problem (ELIC-17).
pub const QUESTIONS_PER_CONNECTION: usize = 64;
/// Resources that the sessions of one connection may be subscribed to.
pub const SUBSCRIPTIONS: usize = 1_000;

// Sealed handles (D5)

/// Characters of sealed text: a seal over 64 KiB as base64.
pub const SEALED_TEXT_BYTES: usize = 88 * KIB;
/// Characters of a session id in a header.
pub const SESSION_ID_BYTES: usize = 2 * KIB;
/// Derived keys remembered for one ring key: some purposes for each of many tenants.
pub const DERIVED_KEYS: usize = 4096;
