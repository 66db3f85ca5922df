// Drives the official TypeScript client through a plan that it reads from standard input, and
// prints what came of it as one JSON object. `plan.rs` says what a plan holds.
//
//   echo '{"target":{"url":"http://127.0.0.1:7420/mcp"},"steps":[{"op":"list","what":"tools"}]}' | node typescript.mjs
//
// "sdk" in the plan names the package to use, so that older releases of it, which speak older
// revisions of the protocol, can be driven too.
import { text } from 'node:stream/consumers';

const plan = JSON.parse(await text(process.stdin));
const sdk = plan.sdk ?? '@modelcontextprotocol/sdk';
const { Client } = await import(`${sdk}/client/index.js`);

const LISTS = { tools: 'listTools', prompts: 'listPrompts', resources: 'listResources', resourceTemplates: 'listResourceTemplates' };
const PAGES = 100;
const patience = { timeout: plan.stepTimeoutMs ?? 30000 };

class Notices {
  #seen = [];
  #wake = () => {};

  add(method) {
    this.#seen.push(method);
    this.#wake();
  }

  forget() {
    this.#seen = [];
    return { forgotten: true };
  }

  /** Waits until each of these came at least once since they were last forgotten. */
  async all(methods) {
    while (!methods.every(method => this.#seen.includes(method))) await new Promise(resolve => { this.#wake = resolve; });
    return { notified: methods };
  }
}

const notices = new Notices();
const CAPABILITIES = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
const client = new Client({ name: 'interop-typescript', version: '1.0.0' }, { capabilities: plan.answers ? CAPABILITIES : {} });
client.fallbackNotificationHandler = async ({ method }) => notices.add(method);

// What the server asks, and the answers of a person and a model who are always there.
let asked = [];
if (plan.answers) {
  const types = await import(`${sdk}/types.js`);
  const answer = (schema, reply) => client.setRequestHandler(schema, ({ method, params }) => {
    // Ids of pages are the gateway's own; what else is in them is nobody's to look at.
    const { elicitationId: _id, _meta, ...shown } = params ?? {};
    asked.push({ method, params: shown });
    return reply(params);
  });
  answer(types.CreateMessageRequestSchema, ({ messages }) => ({ role: 'assistant', content: { type: 'text', text: `heard: ${messages.at(-1).content.text}` }, model: 'none', stopReason: 'endTurn' }));
  answer(types.ElicitRequestSchema, ({ mode }) => (mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { username: 'ada', email: 'ada@example.org' } }));
  answer(types.ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///interop/root', name: 'root' }] }));
}

async function transport({ url, command, args, env }) {
  if (url?.endsWith('/sse')) {
    const { SSEClientTransport } = await import(`${sdk}/client/sse.js`);
    return new SSEClientTransport(new URL(url));
  }
  if (url) {
    const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
    return new StreamableHTTPClientTransport(new URL(url));
  }
  const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
  return new StdioClientTransport({ command, args, env: { ...process.env, ...env }, stderr: 'ignore' });
}

const OPS = {
  async list({ what }) {
    const items = [];
    let cursor;
    let pages = 0;
    do {
      const page = await client[LISTS[what]](cursor === undefined ? undefined : { cursor }, patience);
      items.push(...page[what]);
      cursor = page.nextCursor;
      pages += 1;
    } while (cursor !== undefined && pages < PAGES);
    return { items, pages };
  },
  async call({ name, arguments: args, progress }) {
    const reported = [];
    const options = progress ? { ...patience, onprogress: report => reported.push(report) } : patience;
    const result = await client.callTool({ name, arguments: args ?? {} }, undefined, options);
    return progress ? { result, progress: reported } : { result };
  },
  async cancel({ name, arguments: args }) {
    const abort = new AbortController();
    const options = { ...patience, signal: abort.signal, onprogress: () => abort.abort('no longer wanted') };
    const outcome = await client.callTool({ name, arguments: args }, undefined, options).then(result => ({ result }), error => ({ error }));
    if (abort.signal.aborted && outcome.error) return { cancelled: true };
    if (outcome.error) throw outcome.error;
    return outcome;
  },
  read: async ({ uri }) => ({ result: await client.readResource({ uri }, patience) }),
  prompt: async ({ name, arguments: args }) => ({ result: await client.getPrompt({ name, arguments: args ?? {} }, patience) }),
  complete: async ({ ref, argument, context }) => ({ result: await client.complete({ ref, argument, ...(context ? { context } : {}) }, patience) }),
  ping: async () => ({ result: await client.ping(patience) }),
  subscribe: async ({ uri }) => ({ result: await client.subscribeResource({ uri }, patience) }),
  unsubscribe: async ({ uri }) => ({ result: await client.unsubscribeResource({ uri }, patience) }),
  roots: async () => ({ told: (await client.sendRootsListChanged(), true) }),
  async asked() {
    const all = asked;
    asked = [];
    return { asked: all };
  },
  level: async ({ level }) => ({ result: await client.setLoggingLevel(level, patience) }),
  parallel: async ({ steps }) => ({ outcomes: await Promise.all(steps.map(perform)) }),
  forget: async () => notices.forget(),
  notified: ({ methods }) => Promise.race([notices.all(methods), late(`not notified of all of ${methods}`)]),
  async until({ step, contains }) {
    const end = Date.now() + patience.timeout;
    for (;;) {
      const outcome = await perform(step);
      if (JSON.stringify(outcome).includes(contains)) return outcome;
      if (Date.now() > end) throw new Error(`${contains} did not turn up in ${JSON.stringify(outcome).slice(0, 500)}`);
      await new Promise(resolve => setTimeout(resolve, 100));
    }
  },
};

const late = what => new Promise((_, reject) => { setTimeout(() => reject(new Error(what)), patience.timeout).unref(); });

async function perform(step) {
  try {
    return await OPS[step.op](step);
  } catch (error) {
    return { error: { code: error.code ?? null, message: String(error.message ?? error) } };
  }
}

const link = await transport(plan.target);
// Only some releases tell what was negotiated, and all of them tell the transport.
let revision = null;
const deliver = link.send.bind(link);
link.setProtocolVersion = (inner => function keep(version) { revision = version; inner?.call(link, version); })(link.setProtocolVersion);
let offered = null;
link.send = (message, options) => {
  if (message.method === 'initialize') offered = message.params.protocolVersion;
  return deliver(message, options);
};
await client.connect(link);

const outcomes = [];
for (const step of plan.steps) outcomes.push(await perform(step));
const report = {
  offered,
  revision: revision ?? offered,
  session: link.sessionId ?? null,
  server: client.getServerVersion() ?? null,
  capabilities: client.getServerCapabilities() ?? null,
  instructions: client.getInstructions?.() ?? null,
  outcomes,
};
await link.terminateSession?.();
await client.close();
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
