/** Tests what the translator guarantees to a relay. The relay uses the stream reader for the vendor's dialect. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createSseParser } from '../../../src/core/sse.ts';
import { chat } from '../../../src/dialects/chat/codec.ts';
import type { RouteCodec } from '../../../src/dialects/contract/route-codec.ts';
import { messages } from '../../../src/dialects/messages/codec.ts';
import { createStreamToMessages } from '../../../src/dialects/translate/chat-to-messages-stream.ts';
import { createStreamToChat } from '../../../src/dialects/translate/messages-to-chat-stream.ts';
import { createChatToResponses } from '../../../src/dialects/translate/responses/from-chat.ts';
import { createMessagesToResponses } from '../../../src/dialects/translate/responses/from-messages.ts';
import { names } from './steps.ts';
import { chatStream, messagesStream, said } from './vendors.ts';

const echo = { members: {}, tools: new Map() };

describe('the stream translator', () => {
  /** Returns the stream in the way in which the relay sees it through the reader. */
  function relayed(rules: RouteCodec, text: string): { begun: boolean; ended: 'whole' | 'broken' } {
    const reader = rules.createStreamReader();
    let begun = false;
    for (const event of createSseParser().push(Buffer.from(text)).events) {
      const meaning = reader.read(event);
      if (meaning === 'opening' || meaning === 'delta') begun = true;
      if (meaning === 'end' && begun) return { begun, ended: 'whole' };
      if (meaning === 'error') return { begun, ended: 'broken' };
    }
    return { begun, ended: reader.finished() ? 'whole' : 'broken' };
  }

  test.each([
    ['chat', chat, () => createStreamToMessages(names), chatStream, '{"error":{"message":"x"}}'],
    ['messages', messages, () => createStreamToChat(names), messagesStream, '{"type":"error","error":{"message":"x"}}'],
    ['chat (to responses)', chat, () => createChatToResponses(names, echo), chatStream, '{"error":{"message":"x"}}'],
    [
      'messages (to responses)',
      messages,
      () => createMessagesToResponses(names, echo),
      messagesStream,
      '{"type":"error","error":{"message":"x"}}',
    ],
  ])('agrees with the relay about where %s streams start and end', (_name, rules, create, streamFor, fault) => {
    fc.assert(
      fc.property(said, fc.nat(), fc.boolean(), (answer, place, fails) => {
        const events = streamFor(answer)
          .split('\n\n')
          .map((event) => `${event}\n\n`)
          .slice(0, -1);
        const kept = events.slice(0, place % (events.length + 1));
        const text = [...kept, ...(fails ? [`data: ${fault}\n\n`] : [])].join('');
        const translator = create();
        for (const event of createSseParser().push(Buffer.from(text)).events) translator.push(event);
        translator.end();
        const { begun, ended } = translator.state();
        expect({ begun, ended }).toEqual(relayed(rules, text));
      }),
      { numRuns: 300 },
    );
  });

  test("a stream translator sends its last output together with the vendor's last event", () => {
    fc.assert(
      fc.property(said, (answer) => {
        for (const [translator, text] of [
          [createStreamToMessages(names), chatStream(answer)],
          [createStreamToChat(names), messagesStream(answer)],
          [createChatToResponses(names, echo), chatStream(answer)],
          [createMessagesToResponses(names, echo), messagesStream(answer)],
        ] as const) {
          const outputs = createSseParser()
            .push(Buffer.from(text))
            .events.map((event) => [translator.push(event), translator.state().ended]);
          expect(outputs.slice(0, -1).every(([, ended]) => ended === null)).toBe(true);
          expect(outputs.at(-1)?.[0]).not.toBe('');
          expect(outputs.at(-1)?.[1]).toBe('whole');
          expect(translator.end()).toBe('');
        }
      }),
    );
  });
});
