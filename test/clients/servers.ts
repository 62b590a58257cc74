/** Servers by other projects that the gateway calls as vendors. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { unusedPort } from '../support/unused-port.ts';
import { samples } from './cases.ts';
import { ensurePackages, versionOf } from './install.ts';

export interface Server {
  readonly name: string;
  readonly version: string;
  readonly url: string;
  /** Model names by purpose. We don't call routes without one. */
  readonly models: Readonly<Partial<Record<ModelUse, string>>>;
  close(): Promise<void>;
}

export type ModelUse =
  | 'text'
  | 'tools'
  | 'embeddings'
  | 'images'
  | 'speech'
  | 'moderation'
  | 'rerank'
  | 'rerank-v2'
  | 'unknown-images'
  | 'audio'
  | 'translations'
  | 'edits'
  | 'video';

export const servers: readonly { readonly name: string; readonly start: (vendorUrl: string) => Promise<Server> }[] = [
  { name: 'aimock', start: startAimock },
  { name: 'litellm[proxy]', start: startLitellm },
];

/** The key that the servers accept. LiteLLM refuses to start with a weak one. */
const serverKey = 'sk-4f0c2b8d7e6a5931c0f1e2d3b4a59687';

/** Configures the server as several providers: one for each dialect, and one for the paths of another version. */
export function serverYaml({ url }: Pick<Server, 'url'>): string {
  return [
    'providers:',
    `  as-chat: { base_url: ${url}/v1, api_key: ${serverKey}, dialect: chat }`,
    `  as-messages: { base_url: ${url}/v1, api_key: ${serverKey}, dialect: messages }`,
    `  as-cohere: { base_url: ${url}/v2, api_key: ${serverKey}, dialect: chat }`,
    `  as-gemini: { base_url: ${url}/v1beta, api_key: ${serverKey}, dialect: gemini }`,
    '',
  ].join('\n');
}

async function startAimock(): Promise<Server> {
  const packages = ['@copilotkit/aimock'] as const;
  const folder = await ensurePackages('node', packages);
  const { LLMock } = await import(pathToFileURL(createRequire(join(folder, 'load.js')).resolve(packages[0])).href);
  const mock = new LLMock({ port: 0 });
  mock.addFixture({ match: { hasToolResult: true }, response: { content: 'The tool said: sunny' } });
  mock.onMessage('Oslo', { toolCalls: [{ name: 'get_weather', arguments: '{"city":"Oslo","days":1}' }] });
  mock.onMessage('Hello', { content: 'Hello from the server' });
  mock.onEmbedding(/./, { embedding: [0.25, -0.5, 1] });
  mock.onImage(/./, { image: { b64Json: samples.image } });
  mock.onSpeech(/./, { audio: Buffer.from('sound').toString('base64'), format: 'mp3' });
  mock.onTranscription({ transcription: { text: 'spoken' } });
  mock.onTranslation({ transcription: { text: 'spoken' } });
  mock.onModerate(/./, { flagged: true, categories: { hate: true }, category_scores: { hate: 0.9 } });
  mock.onRerank(/./, [
    { index: 1, relevance_score: 0.9 },
    { index: 0, relevance_score: 0.1 },
  ]);
  mock.onVideo(/./, { video: { id: 'video-1', status: 'completed', b64: Buffer.from('moving').toString('base64') } });
  await mock.start();
  const all = { text: 'gpt-4o', tools: 'gpt-4o', embeddings: 'text-embedding-3-small', images: 'gpt-image-1', speech: 'gpt-4o-mini-tts' };
  return {
    name: packages[0],
    version: await versionOf('node', folder, packages[0]),
    url: mock.url,
    models: {
      ...all,
      moderation: 'omni-moderation-latest',
      'rerank-v2': 'rerank-v3.5',
      audio: 'whisper-1',
      translations: 'whisper-1',
      edits: 'gpt-image-1',
      video: 'veo-3.1-generate-preview',
    },
    close: () => mock.stop(),
  };
}

/** Starts the proxy in front of the scripted vendor. It does not translate anything. */
async function startLitellm(vendorUrl: string): Promise<Server> {
  const packages = ['litellm[proxy]'] as const;
  const folder = await ensurePackages('python', packages);
  const home = await mkdtemp(join(tmpdir(), 'gateway-litellm-'));
  const port = await unusedPort();
  const row = (name: string, model: string, mode = 'chat'): string =>
    `  - { model_name: ${name}, litellm_params: { model: ${model}, api_base: "${vendorUrl}/v1", api_key: key }, model_info: { mode: ${mode} } }`;
  const rows = [
    row('text', 'openai/echo'),
    row('tools', 'openai/tool'),
    row('embed', 'openai/embed', 'embedding'),
    row('gpt-image-1', 'openai/gpt-image-1', 'image_generation'),
    row('picture', 'openai/picture', 'image_generation'),
    row('transcribe', 'openai/transcribe', 'audio_transcription'),
    row('speech', 'openai/speech', 'audio_speech'),
    row('moderation', 'openai/moderation', 'moderation'),
    row('rerank', 'jina_ai/rerank', 'rerank'),
  ];
  await writeFile(join(home, 'config.yaml'), ['model_list:', ...rows, ''].join('\n'));
  const env = {
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    HOME: home,
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    LITELLM_MASTER_KEY: serverKey,
  };
  const args = ['--config', join(home, 'config.yaml'), '--host', '127.0.0.1', '--port', String(port)];
  const child = spawn(join(folder, 'bin', 'litellm'), args, { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-20_000);
    });
  }
  const url = `http://127.0.0.1:${port}`;
  const isUp = (): Promise<boolean> =>
    fetch(`${url}/health/liveliness`).then(
      ({ ok }) => ok,
      () => false,
    );
  for (const limitAt = performance.now() + 180_000; !(await isUp()); await sleep(500)) {
    if (performance.now() > limitAt || child.exitCode !== null) throw new Error(`litellm does not listen: ${output.slice(-2_000)}`);
  }
  return {
    name: packages[0],
    version: await versionOf('python', folder, packages[0]),
    url,
    models: {
      text: 'text',
      tools: 'tools',
      embeddings: 'embed',
      images: 'gpt-image-1',
      'unknown-images': 'picture',
      edits: 'gpt-image-1',
      audio: 'transcribe',
      speech: 'speech',
      moderation: 'moderation',
      rerank: 'rerank',
    },
    async close() {
      if (child.exitCode === null && child.pid !== undefined) {
        const ended = once(child, 'close');
        process.kill(-child.pid, 'SIGKILL');
        await ended;
      }
      await rm(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
