/** Tests properties that all translated requests and responses have in common. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { asArray, asObject, asString, isObject } from '../../../src/core/json/narrow.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import type { Tokens } from '../../../src/core/pricing.ts';
import { parseChatUsage, parseMessagesUsage } from '../../../src/dialects/contract/token-usage.ts';
import { asLosslessObject as losslessObjectOf } from '../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../src/dialects/json/parse-lossless.ts';
import { requestToMessages, responseToMessages } from '../../../src/dialects/translate/chat-to-messages.ts';
import { createStreamToMessages } from '../../../src/dialects/translate/chat-to-messages-stream.ts';
import { requestToChat, responseToChat } from '../../../src/dialects/translate/messages-to-chat.ts';
import { createStreamToChat } from '../../../src/dialects/translate/messages-to-chat-stream.ts';
import { objectText } from '../../core/json/json-texts.ts';
import { readChatResponse, readChatStream, readMessagesResponse, readMessagesStream, translateStream } from './callers.ts';
import {
  chatAnswer,
  chatStream,
  isSigned,
  messagesAnswer,
  messagesStream,
  reasoningDetails,
  type Said,
  said,
  thinkingBlocks,
} from './vendors.ts';

const names = { id: 'call-1', model: 'm', createdSeconds: 1 };
const toMessages = (answer: Said) => responseToMessages(losslessObjectOf(parseLossless(JSON.stringify(chatAnswer(answer)))), names);
const toChat = (answer: Said) => responseToChat(losslessObjectOf(parseLossless(JSON.stringify(messagesAnswer(answer)))), names);

describe("a stream assembled by the client's SDK", () => {
  // Responses without ids are forwarded unchanged, but the SDKs can't parse them.
  const whole = said.map((answer) => ({ ...answer, hasToolIds: true, hasUsage: true }));

  test("an SDK assembles a chat stream into the vendor's response", async () => {
    await fc.assert(
      fc.asyncProperty(whole, async (answer) => {
        expect(await readChatStream(chatStream(answer))).toEqual(readChatResponse(chatAnswer(answer)));
      }),
    );
  });

  test("an SDK assembles a message stream into the vendor's response", async () => {
    await fc.assert(
      fc.asyncProperty(whole, async (answer) => {
        expect(await readMessagesStream(named(messagesStream(answer)))).toEqual(readMessagesResponse(messagesAnswer(answer)));
      }),
    );
  });

  test('an SDK assembles a translated chat stream into the translated response', async () => {
    await fc.assert(
      fc.asyncProperty(said, async (answer) => {
        const stream = translateStream(createStreamToMessages(names), chatStream(answer));
        expect(await readMessagesStream(stream)).toEqual(readMessagesResponse(toMessages(answer)));
      }),
    );
  });

  test('an SDK assembles a translated message stream into the translated response', async () => {
    await fc.assert(
      fc.asyncProperty(said, async (answer) => {
        const stream = translateStream(createStreamToChat(names), messagesStream(answer));
        expect(await readChatStream(stream)).toEqual(readChatResponse(toChat(answer)));
      }),
    );
  });

  test('chat and messages clients receive the same content', () => {
    fc.assert(
      fc.property(said, (answer) => {
        const { blocks, id, model, reasoning } = readMessagesResponse(toMessages(answer));
        const direct = readChatResponse(chatAnswer({ ...answer, hasToolIds: true }));
        const received = answer.hasToolIds ? blocks : blocks.map((block) => (isObject(block) ? { ...block, call: null } : block));
        const expected = answer.hasToolIds
          ? direct.blocks
          : direct.blocks.map((block) => (isObject(block) ? { ...block, call: null } : block));
        expect({ blocks: received, model, reasoning }).toEqual({ blocks: expected, model: direct.model, reasoning: direct.reasoning });
        expect(id).toBe(`msg_${direct.id}`);
        const ofMessages = readChatResponse(toChat({ ...answer, hasToolIds: true }));
        expect(ofMessages.blocks).toEqual(direct.blocks);
        expect(ofMessages.reasoning).toEqual({ text: answer.thinking, signed: thinkingBlocks(answer) });
      }),
    );
  });
});

test('translates a stream to the same events wherever its bytes are split', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(said, sizes, fc.constantFrom('\n', '\r\n', '\r'), (answer, split, lineEnd) => {
      const ofChat = chatStream(answer);
      const ofMessages = messagesStream(answer);
      const whole = [translateStream(createStreamToMessages(names), ofChat), translateStream(createStreamToChat(names), ofMessages)];
      const cut = [
        translateStream(createStreamToMessages(names), ofChat.replaceAll('\n', lineEnd), split),
        translateStream(createStreamToChat(names), ofMessages.replaceAll('\n', lineEnd), split),
      ];
      expect(cut).toEqual(whole);
    }),
  );
});

describe('translated usage', () => {
  const sum = (tokens: Tokens | null): number => Object.values(tokens ?? {}).reduce((total, count) => total + count, 0);

  test('keeps every token count of a translated chat response', () => {
    fc.assert(
      fc.property(said, (answer) => {
        const counted = { ...answer, hasUsage: true };
        expect(parseMessagesUsage(toMessages(counted)?.usage, null)).toEqual(parseChatUsage(asObject(chatAnswer(counted)).usage));
      }),
    );
  });

  test('keeps the total tokens of a translated messages response, including cache writes', () => {
    fc.assert(
      fc.property(said, (answer) => {
        const counted = { ...answer, hasUsage: true };
        const { cacheWrite, cacheWrite1h, input, cachedInput, output } = counted.tokens;
        const tokens = parseChatUsage(toChat(counted)?.usage);
        expect(tokens).toEqual({ input, cachedInput, cacheWrite: cacheWrite + cacheWrite1h, cacheWrite1h: 0, output });
        expect(sum(tokens)).toBe(sum(parseMessagesUsage(asObject(messagesAnswer(counted)).usage, null)));
      }),
    );
  });
});

describe('a request translated to the other dialect and back', () => {
  const plainText = fc.string({ unit: 'grapheme', maxLength: 12 });
  const image = fc
    .constantFrom('data:image/png;base64,iVBO', 'data:image/webp;base64,UklG', 'https://a.example/b.png')
    .map((url) => ({ type: 'image_url', image_url: { url } }));
  const file = fc.constant({ type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' } });
  const part = fc.oneof(
    plainText.map((text) => ({ type: 'text', text })),
    image,
    file,
  );
  const content = fc.oneof(plainText, fc.array(part, { minLength: 1, maxLength: 3 }));
  const call = fc.record({ name: fc.stringMatching(/^[a-z]{1,8}$/), arguments: objectText });
  const results = fc.array(
    fc.oneof(
      plainText,
      fc.array(
        plainText.map((text) => ({ type: 'text', text })),
        { minLength: 1, maxLength: 2 },
      ),
    ),
    {
      minLength: 3,
      maxLength: 3,
    },
  );
  const exchange = fc.oneof(
    fc.record({ role: fc.constantFrom('system', 'developer'), content: plainText }).map((message) => [message]),
    content.map((said) => [{ role: 'user', content: said }]),
    plainText.map((said) => [{ role: 'assistant', content: said }]),
    fc
      .tuple(fc.oneof(fc.constant(null), plainText), fc.array(call, { minLength: 1, maxLength: 3 }), results)
      .map(([said, calls, answers]) => [
        {
          role: 'assistant',
          content: said,
          tool_calls: calls.map(({ name, arguments: text }, at) => ({
            id: `c${at}`,
            type: 'function',
            function: { name, arguments: text },
          })),
        },
        ...calls.map((_, at) => ({ role: 'tool', tool_call_id: `c${at}`, content: answers[at] })),
      ]),
  );
  const messages = fc
    .tuple(fc.array(exchange, { maxLength: 6 }), content)
    .map(([exchanges, last]) => [...exchanges.flat(), { role: 'user', content: last }, { role: 'user', content: 'And?' }]);

  test('a translation round trip keeps texts, images, files and tool calls in order', () => {
    fc.assert(
      fc.property(messages, (list) => {
        const there = JSON.stringify(requestToMessages({ messages: list }, { model: 'a', maxTokens: 1, stream: false }));
        const back = requestToChat(losslessObjectOf(parseLossless(there)), { model: 'b', stream: false });
        const [first] = linesOf(back.messages);
        const lines = linesOf(back.messages).slice(first === '"user: Begin."' && linesOf(list)[0] !== first ? 1 : 0);
        expect(lines).toEqual(linesOf(list));
        expect(systemOf(back.messages)).toBe(systemOf(list));
      }),
      { numRuns: 300 },
    );
  });

  test('a translation round trip keeps the text and signature of reasoning', () => {
    const reasoned = fc.array(
      said.map((answer) => ({ ...answer, tools: [], text: answer.text.trim() || 'So.' })),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(reasoned, fc.boolean(), (answers, callsTool) => {
        const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
        const list = answers.flatMap((answer) => {
          const [{ message }] = JSON.parse(JSON.stringify(chatAnswer(answer))).choices;
          const next = callsTool ? { role: 'tool', tool_call_id: 'c', content: 'T' } : { role: 'user', content: 'And?' };
          return [callsTool ? { ...message, tool_calls: [call] } : message, next];
        });
        const body = { messages: [{ role: 'user', content: 'Hi' }, ...list] };
        const there = requestToMessages(body, { model: 'a', maxTokens: 1, stream: false });
        const signed = answers.map((answer) => (isSigned(answer) ? thinkingBlocks(answer) : []));
        const assistant = asArray(there.messages)
          .map(asObject)
          .filter(({ role }) => role === 'assistant');
        expect(assistant.map(({ content }) => asArray(content).filter((block) => !isSpoken(block)))).toEqual(signed);
        // Thinking comes before the rest of its turn.
        for (const [index, { content }] of assistant.entries())
          expect(asArray(content).slice(0, signed[index]?.length)).toEqual(signed[index]);
        const back = requestToChat(there, { model: 'b', stream: false, takesReasoning: 'details' });
        const details = answers.map((answer) => (isSigned(answer) ? reasoningDetails(answer) : []));
        expect(
          asArray(back.messages)
            .map(asObject)
            .flatMap(({ role, reasoning_details: entries }) => (role === 'assistant' ? [asArray(entries)] : [])),
        ).toEqual(details);
      }),
    );
  });

  function isSpoken(block: unknown): boolean {
    return ['text', 'tool_use'].includes(asString(asObject(block).type) ?? '');
  }

  test('a translation round trip keeps tools, limits and the response format', () => {
    const strict = fc.constantFrom({}, { strict: true });
    const tools = fc.array(
      fc.tuple(fc.stringMatching(/^[a-z]{1,8}$/), objectText, strict).map(([name, properties, mark]) => ({
        type: 'function',
        function: { name, description: 'D', parameters: { type: 'object', properties: parseLossless(properties) }, ...mark },
      })),
      { minLength: 1, maxLength: 3 },
    );
    const choice = fc.constantFrom('auto', 'none', 'required', { type: 'function', function: { name: 'f' } });
    const plain = fc.record({
      max_completion_tokens: fc.integer({ min: 1, max: 1000 }),
      temperature: fc.constantFrom(0, 0.5, 1),
      stop: fc.array(fc.constantFrom('A', 'B'), { minLength: 1, maxLength: 4 }),
      user: fc.constantFrom('u1', 'u2'),
      tools,
      tool_choice: choice,
    });
    fc.assert(
      fc.property(plain, (members) => {
        const body = { messages: [{ role: 'user', content: 'Hi' }], ...members };
        const there = requestToMessages(body, { model: 'a', maxTokens: 1, stream: false, supportsSchema: true });
        const back = requestToChat(losslessObjectOf(parseLossless(JSON.stringify(there))), { model: 'b', stream: false });
        expect(sorted(back)).toBe(sorted({ ...body, model: 'b' }));
      }),
    );
  });

  function sorted(body: object): string {
    return JSON.stringify(Object.entries(body).sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Returns all system text, joined into one. Blank text is dropped. */
  function systemOf(list: unknown): string {
    const texts = asArray(list)
      .map(asObject)
      .filter(({ role }) => role === 'system' || role === 'developer')
      .map((message) => asString(message.content) ?? '');
    return texts.filter((text) => text.trim() !== '').join('\n\n');
  }

  /** Returns everything except the system text, part by part. Consecutive text of the assistant is one part. */
  function linesOf(list: unknown): string[] {
    const lines: string[] = [];
    let spoken = false;
    const add = (speaker: string, text: string): void => {
      if (text.trim() === '') return;
      const last = lines.length - 1;
      if (speaker === 'assistant' && spoken) lines[last] = JSON.stringify(parseJsonOrThrow(lines[last] ?? '""') + text);
      else lines.push(JSON.stringify(`${speaker}: ${text}`));
      spoken = speaker === 'assistant';
    };
    for (const message of asArray(list).map(asObject)) {
      const { role } = message;
      if (role === 'system' || role === 'developer') continue;
      const parts =
        typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : asArray(message.content).map(asObject);
      const speaker = role === 'tool' ? `result ${message.tool_call_id}` : `${role}`;
      for (const each of parts) add(each.type === 'text' ? speaker : `${role} ${each.type}`, asString(each.text) ?? JSON.stringify(each));
      for (const called of asArray(message.tool_calls).map(asObject)) {
        const { name, arguments: text } = asObject(called.function);
        add(`call ${called.id}`, `${name} ${JSON.stringify(parseLossless(asString(text) ?? ''))}`);
      }
    }
    return lines;
  }
});

/** Adds the names of events, because the vendor's SDK requires them. */
function named(stream: string): string {
  return stream.replaceAll(/^data: \{"type":"([a-z_]+)"/gm, 'event: $1\ndata: {"type":"$1"');
}
