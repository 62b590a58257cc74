/**
 * Rebuilds a request body from the stored text of a call, so that people can repeat the call. Leaves out attachments,
 * thinking and hosted tools, because they aren't stored completely.
 */
import { asArray, asObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { CallExtra, CallText } from '../../memory/conversations/read-call-text.ts';
import { shellQuote } from '../frame/values.ts';

export interface RebuiltRequest {
  readonly body: Readonly<Record<string, unknown>>;
  readonly isPartial: boolean;
}

export interface RebuiltCall {
  readonly route: string;
  readonly requestedModel: string;
}

/**
 * Returns null if we can't rebuild the request. That's the case for routes other than `chat`, `messages` and
 * `responses`, and if the prompt or its oldest messages aren't stored.
 */
export function rebuildRequest({ route, requestedModel: model }: RebuiltCall, text: CallText): RebuiltRequest | null {
  const form = route === 'chat' || route === 'messages' || route === 'responses' ? forms[route] : null;
  const { messages, answered, hasOlder, hasMoreExtras, extras, parameters } = text;
  const prompt = answered ? messages.slice(0, -1) : messages;
  if (form === null || hasOlder || prompt.length === 0) return null;
  const items: unknown[] = [];
  /** Ids of tool calls without a result so far. The ids are made up, because only names and arguments are stored. */
  const open: string[] = [];
  let count = 0;
  const placed = extras.filter(({ kind }) => kind === 'tool_result');
  for (let position = 0; position <= prompt.length; position += 1) {
    for (const { text: result } of placed.filter((extra) => extra.position === position)) {
      const id = open.shift();
      if (id !== undefined && result !== null) items.push(form.toolResult(id, result));
    }
    const message = prompt[position];
    if (!message) continue;
    const calls = message.toolCalls.map((call) => {
      count += 1;
      const id = `call_${count}`;
      open.push(id);
      return { id, ...call };
    });
    items.push(...form.message(message.role, message.text, calls));
  }
  const systems = extras.flatMap((extra) => (extra.kind === 'system' && extra.text !== null ? [extra.text] : []));
  const tools = extras.filter(({ kind }) => kind === 'tool').map(({ text: definition }) => parseJson(definition ?? ''));
  const isCut = [...prompt, ...extras].some((part) => part.isCut);
  return {
    body: {
      model,
      ...form.prompt(systems, items),
      ...(tools.length > 0 && { tools: tools.filter((tool) => tool !== undefined) }),
      ...parameters,
    },
    isPartial: isCut || hasMoreExtras || parameters === null || extras.some(isLost),
  };
}

function isLost({ kind, text }: CallExtra): boolean {
  return kind === 'binary' || kind === 'other' || kind === 'thinking' || text === null;
}

interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

interface Form {
  message(role: 'user' | 'assistant', text: string, calls: readonly ToolCall[]): readonly unknown[];
  toolResult(id: string, text: string): unknown;
  prompt(systems: readonly string[], items: readonly unknown[]): Readonly<Record<string, unknown>>;
}

const forms: Readonly<Record<'chat' | 'messages' | 'responses', Form>> = {
  chat: {
    message: (role, text, calls) => [
      {
        role,
        content: text === '' && calls.length > 0 ? null : text,
        ...(calls.length > 0 && {
          tool_calls: calls.map((call) => ({ id: call.id, type: 'function', function: { name: call.name, arguments: call.arguments } })),
        }),
      },
    ],
    toolResult: (id, text) => ({ role: 'tool', tool_call_id: id, content: text }),
    prompt: (systems, items) => ({ messages: [...systems.map((content) => ({ role: 'system', content })), ...items] }),
  },
  messages: {
    message: (role, text, calls) => [
      {
        role,
        content:
          calls.length === 0
            ? text
            : [
                ...(text === '' ? [] : [{ type: 'text', text }]),
                ...calls.map((call) => ({ type: 'tool_use', id: call.id, name: call.name, input: asObject(parseJson(call.arguments)) })),
              ],
      },
    ],
    toolResult: (id, text) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: text }] }),
    prompt: (systems, items) => ({ ...(systems.length > 0 && { system: systems.join('\n\n') }), messages: joinUsers(items) }),
  },
  responses: {
    message: (role, text, calls) => [
      ...(text === '' ? [] : [{ role, content: text }]),
      ...calls.map((call) => ({ type: 'function_call', call_id: call.id, name: call.name, arguments: call.arguments })),
    ],
    toolResult: (id, text) => ({ type: 'function_call_output', call_id: id, output: text }),
    prompt: (systems, items) => ({ ...(systems.length > 0 && { instructions: systems.join('\n\n') }), input: items }),
  },
};

/** The messages dialect wants all tool results of a turn in one message, so merge consecutive user messages. */
function joinUsers(items: readonly unknown[]): readonly unknown[] {
  const joined: Readonly<Record<string, unknown>>[] = [];
  for (const item of items.map(asObject)) {
    const last = joined.at(-1);
    if (last?.role === 'user' && item.role === 'user')
      joined[joined.length - 1] = { role: 'user', content: [...toBlocks(last.content), ...toBlocks(item.content)] };
    else joined.push(item);
  }
  return joined;
}

function toBlocks(content: unknown): readonly unknown[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : asArray(content);
}

const paths: Readonly<Record<string, string>> = { chat: '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' };

/** Formats the request as a shell command with a placeholder for the key, because the gateway doesn't store keys. */
export function toCurl(route: string, body: RebuiltRequest['body'], origin: string): string {
  return `curl ${shellQuote(origin + (paths[route] ?? ''))} \\
  -H "Authorization: Bearer $GATEWAY_KEY" \\
  -H 'Content-Type: application/json' \\
  -d ${shellQuote(JSON.stringify(body, null, 2))}
`;
}
