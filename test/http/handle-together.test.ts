import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { handleTogether } from '../../src/http/handle-together.ts';

function requestOf(key: string): ServerResponse<IncomingMessage> {
  const request = new IncomingMessage(new Socket());
  request.headers.authorization = `Bearer ${key}`;
  return new ServerResponse(request);
}

test('a caller with hundreds of requests does not delay the requests of others, even if they arrive later', async () => {
  const handled: (string | undefined)[][] = [[]];
  const handle = handleTogether(({ headers }) => handled.at(-1)?.push(headers.authorization?.slice('Bearer '.length)));
  const receive = (key: string): void => {
    const response = requestOf(key);
    handle(response.req, response);
  };
  for (let count = 0; count < 100; count += 1) receive('busy');
  for (let turn = 0; turn < 14; turn += 1) {
    if (turn === 2) for (const key of ['one', 'two', 'one']) receive(key);
    await nextTurn();
    handled.push([]);
  }
  const busy = (count: number): string[] => Array.from({ length: count }, () => 'busy');
  expect(handled.slice(0, 4)).toEqual([busy(8), busy(8), ['two', 'one', 'one', ...busy(5)], busy(8)]);
  expect(handled.flat()).toHaveLength(103);
});
