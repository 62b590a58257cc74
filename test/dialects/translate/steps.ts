/** Passes events to a stream translator one by one and parses its output. */
import { expect } from '@jest/globals';
import { createSseParser } from '../../../src/core/sse.ts';
import type { StreamState, StreamTranslator } from '../../../src/dialects/translate/stream.ts';
import { streamOf } from '../events.ts';

export const names = { id: 'gw-1', model: 'asked', createdSeconds: 1700000000 };

/** Returns the output for each event and for the end. This is JSON, `[DONE]`, or the text of a comment. */
export function run(translator: StreamTranslator, datas: readonly unknown[], ends = true): { steps: unknown[][]; state: StreamState } {
  const events = createSseParser().push(Buffer.from(streamOf(...datas))).events;
  const outputs = [...events.map((event) => translator.push(event)), ...(ends ? [translator.end()] : [])];
  return { steps: outputs.map(readOut), state: translator.state() };
}

function readOut(text: string): unknown[] {
  return text
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => {
      const data = /^(?:event: (\w+)\n)?data: (.*)$/.exec(block);
      if (!data) return block;
      const value = data[2] === '[DONE]' ? '[DONE]' : JSON.parse(data[2] ?? '');
      // The event's name equals the type in its data.
      if (data[1] !== undefined) expect(value.type).toBe(data[1]);
      return value;
    });
}

export const whole = { begun: true, ended: 'whole', problem: null };
