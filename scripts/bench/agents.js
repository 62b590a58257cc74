/**
 * Simulates sessions of coding agents. Each request repeats the whole history and adds a little to it. The texts are
 * excerpts from the gateway's source, so that they compress as well as the code that real agents read.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * How the client changes its history between requests:
 *
 *   cache-control    uses the messages dialect and moves the mark for the vendor's cache to the end of the history
 *   changing-system  changes the date and the directory in the first system block of each request
 *   compaction       replaces all but the last messages with a summary every 15 turns
 *   edited           rewrites the last question every 5 turns
 *   reordered-tools  lists the tools in a different order in each request
 *   sliding          sends only the newest messages
 *
 * @typedef {'plain' | 'cache-control' | 'changing-system' | 'compaction' | 'edited' | 'reordered-tools' | 'sliding'} Variant
 */

/**
 * @typedef {object} Session
 * @property {number} startBytes size of the system prompt and the tools
 * @property {number} historyBytes size of the messages that a session begins with
 * @property {number} turns number of turns before the next session begins
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
 * Creates a function that plays the agent. Called without an answer, it returns the next request. Called with the
 * vendor's answer, it appends that to the history.
 * @param {Session} session
 * @param {string} model
 * @param {(bytes: number) => void} addNew called with the size of each text that no earlier request or answer contained
 * @returns {(number: number, answer?: string) => string | null} the body of a request, or null if an answer was given
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
  /** @type {string[]} the messages so far as JSON */
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
  /**
   * Creates a turn of the assistant that calls a tool. We need these to fill the history that a session starts with.
   * @param {string} content
   */
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
