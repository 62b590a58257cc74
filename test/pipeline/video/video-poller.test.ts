/** Tests the polls of the video workflow, i.e. how long they wait, and when they give up. */
import { expect, test } from '@jest/globals';
import { VendorError } from '../../../src/core/errors.ts';
import { standardFormat } from '../../../src/core/request-format.ts';
import { createVideoPoller } from '../../../src/pipeline/video/video-poller.ts';
import type { MediaProvider } from '../../../src/vendors/media.ts';
import { buildMediaProviders } from '../../../src/vendors/media.ts';
import type { VideoState } from '../../../src/vendors/video.ts';
import type { Video, VideoResult } from '../../../src/videos/videos.ts';
import { clockAt, keepingLogger, noon } from '../../journal/calls.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const provider = buildMediaProviders({
  film: {
    name: 'film',
    dialect: 'gemini',
    baseUrl: 'https://film.example/v1beta',
    apiKey: 'key',
    auth: { header: 'x-goog-api-key', scheme: null },
    headers: {},
    requests: standardFormat,
    connectTimeoutMs: 1_000,
    firstByteTimeoutMs: 1_000,
    idleTimeoutMs: 1_000,
    serves: ['video'],
    imageShape: 'openai',
    imageResponseFormat: true,
    speechShape: 'openai',
    speechMediaType: null,
    speech: { voiceIn: 'path', path: '', textField: 'text', body: {} },
    assetHosts: [],
  },
}).get('film');

/** Creates a poller for a single video. Its vendor returns the result of `poll`. */
function createPoller({ poll, hasProvider = true }: { poll: () => Promise<VideoState>; hasProvider?: boolean }) {
  const clock = clockAt(noon);
  const endings: VideoResult[] = [];
  let video: Video | null = {
    callId: 'call',
    projectId: 'project',
    provider: 'film',
    model: 'clip',
    operation: 'operations/a',
    secondNanos: 1,
    durationMs: 8_000,
    samples: 1,
    startedAt: noon,
    state: 'running',
    uris: [],
    failure: null,
    polledAt: null,
  };
  const forbidden = (): never => {
    throw new Error('nobody asks for this');
  };
  const poller = createVideoPoller({
    videos: {
      assertWritable: forbidden,
      add: forbidden,
      findByOperation: forbidden,
      findByFile: forbidden,
      get: async () => video,
      recordPoll: async (_callId, polledAt) => {
        if (video) video = { ...video, polledAt };
      },
      settle: async (of, ending) => {
        endings.push(ending);
        video = { ...of, state: ending.kind };
      },
    },
    vendor: { start: forbidden, open: forbidden, poll },
    findProvider: (name): MediaProvider | null => (hasProvider && name === 'film' ? (provider ?? null) : null),
    clock,
    logger: keepingLogger(),
  });
  const pollOnce = (signal = new AbortController().signal) => poller.pollForWorkflow('call', signal);
  return { ...poller, pollOnce, clock, endings, video: () => video, forget: () => (video = null) };
}

const running = async (): Promise<VideoState> => ({ kind: 'running' });
const unreachable = async (): Promise<VideoState> => {
  throw new VendorError('connect', 'the connection was refused (ECONNREFUSED)');
};

test.each([
  ['that is still running', { poll: running }],
  ['whose vendor is unreachable', { poll: unreachable }],
  ['whose provider was removed', { poll: running, hasProvider: false }],
])('polls a video %s less and less often and gives up after two days', async (_which, vendor) => {
  const { pollOnce, clock, endings } = createPoller(vendor);
  const waits: number[] = [];
  for (const ageMs of [0, 10_000, minuteMs, 10 * minuteMs, hourMs, 47 * hourMs]) {
    clock.move(noon + ageMs - clock.now());
    const result = await pollOnce();
    waits.push(result.kind === 'wait' ? result.waitMs : -1);
  }
  expect(waits).toEqual([2_000, 2_000, 12_000, 2 * minuteMs, 10 * minuteMs, 10 * minuteMs]);
  expect(endings).toEqual([]);
  clock.move(hourMs);
  expect(await pollOnce()).toEqual({ kind: 'settled', outcome: 'unknown', code: null });
  expect(endings).toEqual([{ kind: 'unknown' }]);
  expect(await pollOnce()).toMatchObject({ kind: 'settled', outcome: 'unknown' });
});

test.each([
  ['RESOURCE_EXHAUSTED', 'RESOURCE_EXHAUSTED'],
  ['CODE_3', 'CODE_3'],
  ['MY_NAME_IS_ADA', 'FAILED'], // The vendor's own words could quote the prompt, and Temporal cannot erase them.
])('reports the vendor code %s to the workflow as %s', async (reason, code) => {
  const { pollOnce } = createPoller({ poll: async () => ({ kind: 'failed', reason, message: '' }) });
  expect(await pollOnce()).toEqual({ kind: 'settled', outcome: 'vendor_failed', code });
});

test("doesn't poll a video again if another poll has just ended", async () => {
  let asked = 0;
  const { poll, video } = createPoller({
    poll: () => {
      asked += 1;
      return running();
    },
  });
  const [read, film] = [video(), provider];
  if (!read || !film) throw new Error('no video');
  for (let caller = 0; caller < 2; caller += 1) expect(await poll(read, film)).toEqual({ kind: 'running' });
  expect(asked).toBe(1);
});

test('polls a video again after an internal error', async () => {
  const { pollOnce } = createPoller({
    poll: async () => {
      throw new TypeError('an internal error');
    },
  });
  await expect(pollOnce()).rejects.toThrow('an internal error');
});

test('settles a finished video with its files', async () => {
  const { pollOnce, endings, forget } = createPoller({
    poll: async () => ({ kind: 'done', uris: ['https://film.example/v1beta/files/a:download'] }),
  });
  expect(await pollOnce()).toEqual({ kind: 'settled', outcome: 'completed', code: null });
  expect(endings).toEqual([{ kind: 'done', uris: ['https://film.example/v1beta/files/a:download'], fileKeys: ['files/a'] }]);
  forget();
  expect(await pollOnce()).toEqual({ kind: 'gone' });
});

test('lets one caller cancel a shared poll while the other callers still get the result', async () => {
  let answer: (state: VideoState) => void = () => undefined;
  let polls = 0;
  const {
    poll: ask,
    pollOnce,
    video,
    endings,
  } = createPoller({
    poll: () => {
      polls += 1;
      return new Promise((resolve) => {
        answer = resolve;
      });
    },
  });
  const result = video();
  if (!result || !provider) throw new Error('there is a video');
  const cancelling = new AbortController();
  const cancelled = pollOnce(cancelling.signal);
  const asked = ask(result, provider);
  await Promise.resolve();
  cancelling.abort();
  await expect(cancelled).rejects.toMatchObject({ name: 'AbortError' });
  answer({ kind: 'failed', reason: 'INTERNAL', message: 'no' });
  expect(await asked).toMatchObject({ kind: 'failed' });
  expect(polls).toBe(1);
  expect(endings).toEqual([{ kind: 'failed', failure: 'INTERNAL' }]);
});
