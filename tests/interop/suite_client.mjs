// A client for the official suite's client scenarios, which names the scenario in the environment and its server as the last
// argument. With PORTCULLIS_BIN the official TypeScript client reaches that server over `portcullis connect`, so that
// what the suite judges is the gateway's side toward servers; without, it goes there directly.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const program = process.env.PORTCULLIS_BIN;

const asksForDefaults = scenario === 'elicitation-sep1034-client-defaults';
const capabilities = asksForDefaults ? { elicitation: { form: { applyDefaults: true } } } : {};
const client = new Client({ name: 'interop-suite', version: '1.0.0' }, { capabilities });
if (asksForDefaults) client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: {} }));

const link = program
  ? new StdioClientTransport({ command: program, args: ['connect', url], env: process.env, stderr: 'inherit' })
  : new StreamableHTTPClientTransport(new URL(url));
await client.connect(link);

const call = (name, args = {}) => client.callTool({ name, arguments: args });
const { tools } = await client.listTools().catch(() => ({ tools: [] }));
const SCENARIOS = {
  tools_call: () => call('add_numbers', { a: 5, b: 3 }),
  'sse-retry': () => call('test_reconnection'),
  'elicitation-sep1034-client-defaults': () => call('test_client_elicitation_defaults'),
  // The suite sees what became of a schema on the way when it is sent back to it.
  'json-schema-2020-12-preservation': () => {
    const described = tools.find(tool => tool.inputSchema.$schema);
    const echo = tools.find(tool => tool !== described);
    return call(echo.name, { schema: described.inputSchema });
  },
};
await SCENARIOS[scenario]?.();
await client.close();
process.exit(0);
