/** Defines the benchmark's scenarios. */
import { questionText, shortQuestion } from './texts.js';

/**
 * @typedef {object} Scenario
 * @property {string} title
 * @property {'chat' | 'messages' | 'embeddings'} [route] default: chat
 * @property {string} [vendor] how the vendor answers. This is both a path of vendor.js and a provider of the gateway
 * @property {string} [model] default: `<vendor>/m`
 * @property {string} [floorVendor] how the vendor answers the floor, if it differs from `vendor`
 * @property {'plain' | 'memory' | 'cache' | 'unlimited'} [project] default: plain
 * @property {object} [body] the request body without `model`
 * @property {string[]} [headers]
 * @property {number} connections
 * @property {number} [perSecond]
 * @property {boolean} [grows]
 * @property {import('./agents.js').Session} [session]
 * @property {boolean} [streams] also prints the time until the first byte
 * @property {number} [vendorCalls] number of vendor calls that a gateway makes per call (default: 1)
 * @property {boolean} [direct] also measures the vendor without a gateway, to show how much latency the gateway adds
 * @property {number} [calls] number of calls per round (default: 10,000)
 * @property {'memories'} [needs] data that has to exist before the first round
 */

const question = { messages: [{ role: 'user', content: questionText }], temperature: 0.7, max_tokens: 400 };
const same = { messages: [{ role: 'user', content: questionText.replaceAll('#', '0') }], temperature: 0.7, max_tokens: 400 };
const large = {
  messages: [{ role: 'user', content: questionText.slice(0, 21) + 'a long prompt of an ordinary document; '.repeat(26_900) }],
};
const hundredTexts = Array.from({ length: 100 }, (_, index) => `${index}: a short text of which a vector is made`);

/**
 * Runs four agents at the same time. The first request of a session has this many kilobytes, and each turn adds about 4
 * kB.
 */
const agents = (
  /** @type {number} */ kilobytes,
  /** @type {Partial<import('./agents.js').Session> & { project?: 'memory' }} */ { project, variant = 'plain', turns = 40 } = {},
) => {
  const session = { startBytes: 30_000, historyBytes: (kilobytes - 30) * 1_000, turns, variant };
  const isMessages = variant === 'cache-control';
  /** @type {Scenario} */
  const scenario = {
    title: `agents of ${turns} turns from ${kilobytes} kB${variant === 'plain' ? '' : `, ${variant}`}${project ? ', memory records' : ''}`,
    connections: 4,
    calls: 4 * turns,
    vendor: isMessages ? 'agent-messages' : 'agent',
    session,
    ...(isMessages && { route: 'messages' }),
    ...(project && { project }),
  };
  return scenario;
};

/** @type {Readonly<Record<string, Scenario>>} */
export const scenarios = {
  'agents-30': agents(30),
  'agents-30-memory': agents(30, { project: 'memory' }),
  'agents-130': agents(130),
  'agents-130-memory': agents(130, { project: 'memory' }),
  'agents-300': agents(300),
  'agents-300-memory': agents(300, { project: 'memory' }),
  'agents-20-turns': agents(30, { turns: 20 }),
  'agents-50-turns': agents(30, { turns: 50 }),
  'agents-100-turns': agents(30, { turns: 100 }),
  'agents-200-turns': agents(30, { turns: 200 }),
  'agents-cache-control': agents(30, { variant: 'cache-control' }),
  'agents-changing-system': agents(30, { variant: 'changing-system' }),
  'agents-compaction': agents(30, { variant: 'compaction' }),
  'agents-edited': agents(30, { variant: 'edited' }),
  'agents-reordered-tools': agents(30, { variant: 'reordered-tools' }),
  'agents-sliding': agents(30, { variant: 'sliding' }),
  'chat-1': { title: 'chat, 1 connection', connections: 1, calls: 5_000 },
  'chat-16': { title: 'chat, 16 connections', connections: 16 },
  'chat-64': { title: 'chat, 64 connections', connections: 64 },
  'chat-unlimited': { title: 'chat, 16 connections, key without ceilings', connections: 16, project: 'unlimited' },
  memory: { title: 'chat, 16 connections, memory records', connections: 16, project: 'memory' },
  'memory-1': { title: 'chat, 1 connection, memory records', connections: 1, project: 'memory', calls: 5_000 },
  'memory-64': { title: 'chat, 64 connections, memory records', connections: 64, project: 'memory' },
  'memory-growing': { title: 'conversations of 20 turns, 16 connections, memory records', connections: 16, project: 'memory', grows: true },
  growing: { title: 'conversations of 20 turns, 16 connections', connections: 16, grows: true },
  recall: {
    title: 'chat with recall from 1,000 memories, 16 connections',
    connections: 16,
    project: 'memory',
    headers: ['x-gateway-memory: recall'],
    needs: 'memories',
  },
  'recall-short': {
    title: 'chat with recall for 20 tokens, 4 connections',
    connections: 4,
    project: 'memory',
    body: { messages: [{ role: 'user', content: shortQuestion }] },
    headers: ['x-gateway-memory: recall'],
    needs: 'memories',
    calls: 600,
  },
  'cache-hit': { title: 'cache hit, 16 connections', connections: 16, project: 'cache', body: same, vendorCalls: 0 },
  stream: { title: '50-chunk stream at once, 16 connections', connections: 16, vendor: 'stream', streams: true, calls: 5_000 },
  'stream-paced': {
    title: '10 streams/s, chunks 10 ms apart',
    connections: 30,
    perSecond: 10,
    vendor: 'paced',
    streams: true,
    direct: true,
    calls: 40,
  },
  messages: { title: 'messages, 16 connections', connections: 16, route: 'messages', vendor: 'messages' },
  embeddings: {
    title: 'embeddings of 100 x 1,536 floats, 16 connections',
    connections: 16,
    route: 'embeddings',
    vendor: 'embeddings',
    body: { input: hundredTexts },
    calls: 150,
  },
  'large-prompt': { title: 'chat with a prompt of 1 MB, 16 connections', connections: 16, body: large, calls: 150 },
  failover: {
    title: 'failover, the first vendor answers 500, 16 connections',
    connections: 16,
    vendor: 'failing',
    model: 'failing',
    floorVendor: 'plain',
    vendorCalls: 2,
  },
};

/** If the command line contains `agents`, all of these scenarios run. */
export const agentScenarios = Object.keys(scenarios).filter((name) => name.startsWith('agents-'));

/**
 * Returns the number of calls per round. It's large, so that the start and the end of a round don't matter.
 * @param {Pick<Scenario, "calls">} scenario
 */
export function callsOf({ calls = 10_000 }) {
  return calls;
}

const paths = { chat: '/v1/chat/completions', messages: '/v1/messages', embeddings: '/v1/embeddings' };

/**
 * Builds the request of a scenario. The floor and the vendor don't need a key, so `key` is null for them.
 * @param {Scenario} scenario
 * @param {string | null} key
 */
export function requestOf(
  { route = 'chat', vendor = 'plain', floorVendor = vendor, model = `${vendor}/m`, body = question, streams, headers = [] },
  key,
) {
  const own = [
    'user-agent: benchmark',
    'accept: application/json',
    'content-type: application/json',
    ...(key === null ? ['authorization: Bearer vendor-key'] : [`authorization: Bearer ${key}`, ...headers]),
  ];
  const stream = streams ? { stream: true, stream_options: { include_usage: true } } : {};
  return {
    path: key === null ? `/${floorVendor}${paths[route]}` : paths[route],
    headers: own,
    body: JSON.stringify({ model, ...stream, ...body }),
  };
}

/**
 * Writes the configuration of the gateway. It has a provider for each of the ways in which the vendor can respond.
 * @param {number} vendorPort
 */
export function gatewayConfig(vendorPort) {
  const provider = (/** @type {string} */ name, dialect = 'chat') =>
    `  ${name}: { base_url: "http://127.0.0.1:${vendorPort}/${name}/v1", api_key: vendor-key, dialect: ${dialect} }\n`;
  const names = ['plain', 'agent', 'stream', 'paced', 'open', 'failing', 'hanging', 'embeddings'];
  const messagesNames = ['messages', 'agent-messages'];
  return `providers:
${names.map((name) => provider(name)).join('')}${messagesNames.map((name) => provider(name, 'messages')).join('')}models:
${[...names, ...messagesNames].map((name) => `  ${name}/m: { input: 1, output: 2${name === 'embeddings' ? ', kind: embeddings' : ''} }\n`).join('')}  failing/refused: { input: 1, output: 2 }
tiers:
  # One provider: its circuit breaker would keep calls from a provider that always fails.
  failing: [failing/refused, failing/m]
`;
}
