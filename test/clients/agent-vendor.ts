/**
 * A vendor for both dialects that acts as the model of a coding agent. It calls the agent's shell tool once, and ends
 * with a text when it gets the result. If a request doesn't contain a tool that we know, it gets the text immediately.
 */
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

/** What `result.txt` in the agent's folder contains after the task. */
export const taskResult = 'written through the gateway';
export const finalText = 'The file is written.';

const command = `printf '%s\\n' '${taskResult}' > result.txt`;

/** Shell tools by the names that agents give them, with the arguments that run the command. */
const shellTools: Readonly<Record<string, object>> = {
  Bash: { command, description: 'Write the file' },
  bash: { command, description: 'Write the file' },
  shell: { command: ['bash', '-c', command] },
  shell_command: { command },
  exec_command: { cmd: command },
};

/** The file in a format that an agent without tools applies: its path, then its content in a code fence. */
const textEdit = `result.txt\n\`\`\`\n${taskResult}\n\`\`\`\n`;

type Json = Readonly<Record<string, unknown>>;
type Reply = { readonly tool: string; readonly input: string } | { readonly text: string };

export async function startAgentVendor(): Promise<LocalServer> {
  return startLocalServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    const path = request.url?.split('?')[0];
    const dialect = path === '/v1/chat/completions' ? chat : path === '/v1/messages' ? messages : null;
    if (dialect === null)
      return void response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"no such path"}}');
    const reply = dialect.decide(body);
    const isStream = body.stream === true;
    response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
    response.end(isStream ? dialect.stream(reply, body.model) : JSON.stringify(dialect.plain(reply, body.model)));
  });
}

function replyTo(toolNames: readonly string[], hasResult: boolean): Reply {
  const tool = toolNames.find((name) => name in shellTools);
  if (hasResult) return { text: finalText };
  return tool === undefined ? { text: textEdit } : { tool, input: JSON.stringify(shellTools[tool]) };
}

const halves = (text: string): readonly string[] => [text.slice(0, text.length / 2), text.slice(text.length / 2)];

const chat = {
  decide: (body: { tools?: { function?: { name: string } }[]; messages: { role: string }[] }): Reply =>
    replyTo(
      (body.tools ?? []).flatMap((tool) => tool.function?.name ?? []),
      body.messages.some(({ role }) => role === 'tool'),
    ),

  plain(reply: Reply, model: string): Json {
    const message = 'text' in reply ? { content: reply.text } : { content: null, tool_calls: [chatCall(reply.tool, reply.input)] };
    const finish = 'text' in reply ? 'stop' : 'tool_calls';
    return {
      ...chatHead(model, 'chat.completion'),
      choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }],
      usage: chatUsage,
    };
  },

  stream(reply: Reply, model: string): string {
    const deltas =
      'text' in reply
        ? halves(reply.text).map((content) => ({ content }))
        : [
            { tool_calls: [{ index: 0, ...chatCall(reply.tool, '') }] },
            ...halves(reply.input).map((part) => ({ tool_calls: [{ index: 0, function: { arguments: part } }] })),
          ];
    const finish = 'text' in reply ? 'stop' : 'tool_calls';
    const chunks = [
      ...[{ role: 'assistant', content: null }, ...deltas].map((delta) => [{ index: 0, delta, finish_reason: null }]),
      [{ index: 0, delta: {}, finish_reason: finish }],
    ].map((choices) => ({ ...chatHead(model, 'chat.completion.chunk'), choices }));
    const last = { ...chatHead(model, 'chat.completion.chunk'), choices: [], usage: chatUsage };
    return `${[...chunks, last].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`;
  },
};

const chatUsage = { prompt_tokens: 1_000, completion_tokens: 20, total_tokens: 1_020 };
const chatHead = (model: string, object: string): Json => ({ id: 'chatcmpl-task', object, created: 1_790_000_000, model });
const chatCall = (name: string, input: string): Json => ({ id: 'call_task_1', type: 'function', function: { name, arguments: input } });

const messages = {
  decide: (body: { tools?: { name: string }[]; messages: { content: string | { type: string }[] }[] }): Reply => {
    const blocks = body.messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
    return replyTo(
      (body.tools ?? []).map(({ name }) => name),
      blocks.some(({ type }) => type === 'tool_result'),
    );
  },

  plain(reply: Reply, model: string): Json {
    const block = 'text' in reply ? { type: 'text', text: reply.text } : { ...toolUse(reply.tool), input: JSON.parse(reply.input) };
    return { ...messageHead(model), content: [block], stop_reason: stopReason(reply), usage: { input_tokens: 1_000, output_tokens: 20 } };
  },

  stream(reply: Reply, model: string): string {
    const block = 'text' in reply ? { type: 'text', text: '' } : { ...toolUse(reply.tool), input: {} };
    const deltas =
      'text' in reply
        ? halves(reply.text).map((text) => ({ type: 'text_delta', text }))
        : halves(reply.input).map((part) => ({ type: 'input_json_delta', partial_json: part }));
    const events = [
      {
        type: 'message_start',
        message: { ...messageHead(model), content: [], stop_reason: null, usage: { input_tokens: 1_000, output_tokens: 1 } },
      },
      { type: 'content_block_start', index: 0, content_block: block },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: stopReason(reply), stop_sequence: null }, usage: { output_tokens: 20 } },
      { type: 'message_stop' },
    ];
    return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
  },
};

const messageHead = (model: string): Json => ({ id: 'msg_task_1', type: 'message', role: 'assistant', model, stop_sequence: null });
const toolUse = (name: string): Json => ({ type: 'tool_use', id: 'toolu_task_1', name });
const stopReason = (reply: Reply): string => ('text' in reply ? 'end_turn' : 'tool_use');
