/** Tests audio streams, i.e. backpressure, and what happens if the caller or the vendor disconnects. */
import { once } from 'node:events';
import { request as httpRequest, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, jest } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { eventually } from '../support/gateway.ts';
import { askMedia, rowOf, speech } from './media-routes.ts';
import { shareVendor } from './media-vendor.ts';

const mebibyte = 1024 * 1024;
const { withVendor } = shareVendor();

/** A vendor that sends `total` bytes with backpressure and counts the bytes that it sent. */
function speaker(total: number) {
  const state = { sent: 0, closed: false };
  const chunk = Buffer.alloc(64 * 1024, 3);
  const answer = (response: ServerResponse): void => {
    response.writeHead(200, { 'content-type': 'audio/mpeg' });
    response.once('close', () => {
      state.closed = true;
    });
    const write = (): void => {
      while (state.sent < total && !response.destroyed) {
        state.sent += chunk.length;
        if (!response.write(chunk)) return void response.once('drain', write);
      }
      response.end();
    };
    write();
  };
  return { state, answer };
}

function ask({ url, key }: TestGateway, body: object) {
  const request = httpRequest(`${url}${speech.path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  });
  request.on('error', () => undefined);
  request.end(JSON.stringify(body));
  return request;
}

const spoken = { model: 'own/voice', input: 'Hello' };
const charged = { cost: (5 * 15) / 1e6 };

it('reads speech from the vendor no faster than the caller reads it', () => {
  const total = 96 * mebibyte;
  const { state, answer } = speaker(total);
  return withVendor(answer, async (gateway) => {
    const request = ask(gateway, spoken);
    const [response] = (await once(request, 'response')) as [NodeJS.ReadableStream];
    // Waits until the vendor stops writing because every buffer is full.
    let before = -1;
    await eventually(async () => {
      const { sent } = state;
      const isStill = sent === before;
      before = sent;
      await sleep(100);
      if (!isStill) throw new Error('the vendor still writes');
    });
    expect(state.sent).toBeLessThan(24 * mebibyte);
    let read = 0;
    for await (const chunk of response) read += chunk.length;
    expect(read).toBe(total);
    expect(await rowOf(gateway)).toMatchObject({ outcome: 'ok', ...charged, estimated: false });
  });
});

it('starts delivering audio while the vendor is still sending it', () => {
  let finish: () => void = () => undefined;
  return withVendor(
    (response) => {
      response.writeHead(200, { 'content-type': 'audio/mpeg' }).write('first');
      finish = () => response.end('last');
    },
    async (gateway) => {
      const answer = await askMedia(gateway, speech, 'own/voice', { more: spoken });
      const reader = answer.body?.getReader();
      expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('first');
      finish();
      expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('last');
      expect((await reader?.read())?.done).toBe(true);
      expect(await rowOf(gateway)).toMatchObject({ outcome: 'ok', ...charged });
    },
  );
});

it('charges for speech even if the vendor aborts the stream', () =>
  withVendor(
    (response) => {
      response.writeHead(200, { 'content-type': 'audio/mpeg' }).write('some');
      setImmediate(() => response.destroy());
    },
    async (gateway) => {
      const answer = await askMedia(gateway, speech, 'own/voice', { more: spoken });
      expect(answer.status).toBe(200);
      await expect(answer.arrayBuffer()).rejects.toThrow();
      expect(await rowOf(gateway)).toMatchObject({ outcome: 'interrupted', code: 'upstream_failed', estimated: true, ...charged });
    },
  ));

it('charges for the complete speech if the caller disconnects midway', () => {
  const { state, answer } = speaker(512 * mebibyte);
  return withVendor(answer, async (gateway) => {
    const request = ask(gateway, spoken);
    const [response] = (await once(request, 'response')) as [NodeJS.ReadableStream];
    await once(response, 'readable');
    request.destroy();
    await eventually(async () => expect(state.closed).toBe(true));
    expect(state.sent).toBeLessThan(64 * mebibyte);
    await eventually(async () => expect(await rowOf(gateway)).toMatchObject({ outcome: 'client_left', estimated: true, ...charged }));
  });
});

it('cancels the vendor request if the caller disconnects before any audio arrives', () => {
  const state = { asked: false, closed: false };
  return withVendor(
    (response) => {
      state.asked = true;
      response.once('close', () => {
        state.closed = true;
      });
    },
    async (gateway) => {
      const request = ask(gateway, spoken);
      await eventually(async () => expect(state.asked).toBe(true));
      request.destroy();
      await eventually(async () => expect(state.closed).toBe(true));
      await eventually(async () => expect(await rowOf(gateway)).toMatchObject({ outcome: 'client_left', status: 499, ...charged }));
    },
  );
});

it("charges for speech even if the response headers can't be written", () =>
  withVendor(
    (response) => {
      response.writeHead(200, { 'content-type': 'audio/mpeg' });
      response.end('audio');
    },
    async (gateway) => {
      const writeHead = ServerResponse.prototype.writeHead;
      const failing = jest.spyOn(ServerResponse.prototype, 'writeHead').mockImplementation(function (this: ServerResponse, ...given) {
        if (this.hasHeader('x-gateway-model') && !failing.mock.results.some(({ type }) => type === 'throw')) throw new Error('no head');
        return writeHead.apply(this, given as Parameters<typeof writeHead>);
      } as typeof writeHead);
      try {
        const response = await fetch(`${gateway.url}${speech.path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
          body: JSON.stringify(spoken),
        });
        expect(response.status).toBe(500);
        expect(await rowOf(gateway)).toMatchObject(charged);
      } finally {
        failing.mockRestore();
      }
    },
  ));
