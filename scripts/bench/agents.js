/**
 * Sessions of coding agents: each request repeats the whole history and adds a little to it. The texts are taken from the
 * gateway's own source, so that they compress like the code that real agents read.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * What the client does to its history, besides repeating it:
 *
 *   cache-control    messages dialect: marks the end of the history for the vendor's cache, so the mark moves in each request
 *   changing-system  the first system block has another date and directory in each request
 *   compaction       every 15 turns a summary replaces all but the last messages
 *   edited           every 5 turns the last question is written anew
 *   reordered-tools  the tools come in another order in each request
 *   sliding          only the newest messages are sent
 *
 * @typedef {'plain' | 'cache-control' | 'changing-system' | 'compaction' | 'edited' | 'reordered-tools' | 'sliding'} Variant
 */

/**
 * @typedef {object} Session
 * @property {number} startBytes of the system prompt and the tools
 * @property {number} historyBytes of the messages with which a session begins
 * @property {number} turns after which the next session begins
 * @property {Variant} variant
 */

const turnBytes = [1_500, 5_500];
const slidingMessages = 40;
const root = fileURLToPath(new URL('../../src', import.meta.url));

/** @type {string | null} */
let corpus = null;

function readCorpus() {
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((file) => file.isFile() && file.name.endsWith('.ts'));
  return files
    .map((file) => `${file.parentPath}/${file.name}`)
    .sort()
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
}

/**
 * A generator of requests. It is called without an answer for the next request, and with the vendor's answer to add it.
 * @param {Session} session
 * @param {string} model
 * @param {(bytes: number) => void} addNew is told about texts that no request or answer had before
 * @returns {(number: number, answer?: string) => string | null} the body of a request; null after an answer
 */
export function createSession({ startBytes, historyBytes, turns, variant }, model, addNew) {
  corpus ??= readCorpus();
  const isMessages = variant === 'cache-control';
  let seed = 1;
  const random = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
  /** @param {number} bytes */
  const text = (bytes) => {
    const length = Math.round(bytes);
    const at = Math.floor(random() * ((corpus?.length ?? 0) - length));
    const result = `${seed}\n${corpus?.slice(at, at + length)}`;
    addNew(Buffer.byteLength(result));
    return result;
  };
  /** @type {string[]} JSON of the messages so far */
  let history = [];
  /** @type {string[]} */
  let system = [];
  /** @type {string[]} */
  let tools = [];
  let turn = 0;
  let toolCall = 0;
  let lastCall = '';

  /** @param {string} content */
  const user = (content) => JSON.stringify({ role: 'user', content });
  /** @param {string} content */
  const toolResult = (content) =>
    isMessages
      ? JSON.stringify({ role: 'user', content: [{ type: 'tool_result', tool_use_id: lastCall, content }] })
      : JSON.stringify({ role: 'tool', tool_call_id: lastCall, content });
  /** A message of the history with which a session begins. @param {string} content */
  const assistant = (content) => {
    toolCall += 1;
    lastCall = isMessages ? `toolu_${toolCall}` : `call_${toolCall}`;
    const input = { path: 'src/main.ts', offset: toolCall };
    return isMessages
      ? JSON.stringify({
          role: 'assistant',
          content: [
            { type: 'text', text: content },
            { type: 'tool_use', id: lastCall, name: 'read_file', input },
          ],
        })
      : JSON.stringify({
          role: 'assistant',
          content,
          tool_calls: [{ id: lastCall, type: 'function', function: { name: 'read_file', arguments: JSON.stringify(input) } }],
        });
  };
  const tool = (/** @type {number} */ index) => {
    const parameters = { type: 'object', properties: { path: { type: 'string' }, offset: { type: 'integer' } }, required: ['path'] };
    const description = text(startBytes / 30);
    const name = index === 0 ? 'read_file' : `tool_${index}`;
    return isMessages
      ? JSON.stringify({ name, description, input_schema: parameters })
      : JSON.stringify({ type: 'function', function: { name, description, parameters } });
  };

  const begin = () => {
    history = [];
    turn = 0;
    tools = Array.from({ length: 20 }, (_, index) => tool(index));
    system = ['You are an agent.', text(startBytes / 3)];
    history.push(user(text(500)));
    for (let bytes = 0; bytes < historyBytes; ) {
      const [said, read] = [text(700), text(turnBytes[0] ?? 0)];
      bytes += said.length + read.length;
      history.push(assistant(said), toolResult(read));
    }
  };

  const change = () => {
    if (variant === 'changing-system') system[0] = `You are an agent. Turn ${turn} in project-${seed % 1_000}.`;
    else if (variant === 'reordered-tools') tools = tools.map((_, index) => tools[(index + 7) % tools.length] ?? '');
    else if (variant === 'compaction' && turn > 0 && turn % 15 === 0) history = [user(text(3_000)), ...history.slice(-4)];
    else if (variant === 'edited' && turn > 0 && turn % 5 === 0) history[history.length - 1] = user(text(turnBytes[0] ?? 0));
    else if (variant === 'sliding') history = history.slice(-slidingMessages);
  };

  return (number, answer) => {
    if (answer !== undefined) {
      const body = JSON.parse(answer);
      const message = isMessages ? { role: 'assistant', content: body.content } : body.choices[0].message;
      const said = JSON.stringify(message);
      addNew(Buffer.byteLength(said));
      lastCall = isMessages ? body.content[1].id : message.tool_calls[0].id;
      const [least = 0, most = 0] = turnBytes;
      history.push(said, toolResult(text(least + random() * (most - least))));
      turn += 1;
      return null;
    }
    if (turn === turns || history.length === 0) {
      seed = number;
      begin();
    }
    change();
    const blocks = system.map((block) => ({ type: 'text', text: block }));
    if (!isMessages) {
      const first = JSON.stringify({ role: 'system', content: variant === 'changing-system' ? blocks : system.join('\n') });
      return `{"model":"${model}","max_tokens":400,"tools":[${tools.join(',')}],"messages":[${first},${history.join(',')}]}`;
    }
    const marked = JSON.parse(history.at(-1) ?? '{}');
    if (typeof marked.content === 'string') marked.content = [{ type: 'text', text: marked.content }];
    marked.content[marked.content.length - 1].cache_control = { type: 'ephemeral' };
    const messages = [...history.slice(0, -1), JSON.stringify(marked)].join(',');
    return `{"model":"${model}","max_tokens":400,"system":${JSON.stringify(blocks)},"tools":[${tools.join(',')}],"messages":[${messages}]}`;
  };
}
