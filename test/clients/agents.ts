/**
 * Coding agents that complete a task through the gateway. The scripted vendor uses the other dialect and lets each
 * agent run a command.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { finalText, taskResult } from './agent-vendor.ts';
import { ensurePackages, versionOf } from './install.ts';
import type { TaskRecord } from './record.ts';
import type { Target } from './run-client.ts';

export const agentTask = 'Write the file result.txt';

interface Agent {
  readonly name: string;
  readonly runtime: 'node' | 'python';
  readonly packages: readonly [string, ...string[]];
  readonly program: string;
  /** The gateway's models, one for each vendor dialect. */
  readonly models: readonly string[];
  readonly args: (model: string) => readonly string[];
  readonly env: (target: Target, model: string) => Readonly<Record<string, string>>;
  /** Files in its home directory, by path. */
  readonly files?: (target: Target, model: string) => Readonly<Record<string, string>>;
}

const models = ['task-chat/model', 'task-messages/model'];

export const agents: readonly Agent[] = [
  {
    name: 'Claude Code',
    runtime: 'node',
    packages: ['@anthropic-ai/claude-code'],
    program: 'claude',
    models,
    args: (model) => ['-p', agentTask, '--output-format', 'json', '--allowedTools', 'Bash', '--model', model],
    env: ({ url, key }, model) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
    }),
  },
  {
    name: 'Codex CLI',
    runtime: 'node',
    packages: ['@openai/codex'],
    program: 'codex',
    models,
    args: (model) => ['exec', '--skip-git-repo-check', '--sandbox', 'danger-full-access', '--model', model, agentTask],
    env: ({ key }) => ({ GATEWAY_KEY: key }),
    files: ({ url }) => ({
      '.codex/config.toml': [
        'model_provider = "gateway"',
        'check_for_update_on_startup = false',
        '[analytics]',
        'enabled = false',
        '[model_providers.gateway]',
        'name = "gateway"',
        `base_url = "${url}/v1"`,
        'env_key = "GATEWAY_KEY"',
        'wire_api = "responses"',
        '',
      ].join('\n'),
    }),
  },
  {
    name: 'opencode',
    runtime: 'node',
    packages: ['opencode-ai'],
    program: 'opencode',
    models,
    args: (model) => ['run', '--model', `gateway/${model}`, agentTask],
    env: () => ({ OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' }),
    files: ({ url, key }, model) => ({
      '.config/opencode/opencode.json': JSON.stringify({
        autoupdate: false,
        permission: { bash: 'allow' },
        provider: {
          gateway: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: key },
            models: { [model]: { name: 'model', tool_call: true } },
          },
        },
      }),
    }),
  },
  {
    name: 'aider',
    runtime: 'python',
    packages: ['aider-chat'],
    program: 'aider',
    models,
    args: (model) => [
      ...['--model', `openai/${model}`, '--message', agentTask, '--edit-format', 'whole', '--yes-always', '--no-git', 'result.txt'],
      ...['--no-show-model-warnings', '--no-check-update', '--analytics-disable', '--no-auto-lint', '--map-tokens', '0'],
    ],
    env: ({ url, key }) => ({ OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key }),
  },
];

/** The scripted vendor in both dialects. */
export function agentYaml(vendorUrl: string): string {
  return [
    'providers:',
    `  task-chat: { base_url: ${vendorUrl}/v1, api_key: key-task, dialect: chat }`,
    `  task-messages: { base_url: ${vendorUrl}/v1, api_key: key-task, dialect: messages }`,
    'models:',
    '  task-chat/model: { input: 1, output: 5 }',
    '  task-messages/model: { input: 1, output: 5 }',
    '',
  ].join('\n');
}

const limitMs = 240_000;

/**
 * Lets the agent do the task with a vendor of each dialect, in a new home and folder. Never throws, because the result
 * contains the reason.
 */
export async function runAgent(agent: Agent, target: Target): Promise<Omit<TaskRecord, 'recordedOn'>> {
  const results: Record<string, string> = {};
  let version = 'not run';
  for (const model of agent.models) {
    const title = `writes a file, with a ${model.includes('chat') ? 'chat' : 'messages'} vendor`;
    try {
      const folder = await ensurePackages(agent.runtime, agent.packages);
      version = await versionOf(agent.runtime, folder, agent.packages[0]);
      const bin = join(folder, agent.runtime === 'node' ? join('node_modules', '.bin') : 'bin', agent.program);
      results[title] = await runTask(agent, bin, target, model);
    } catch (error) {
      results[title] = error instanceof Error ? error.message : String(error);
    }
  }
  return { name: agent.name, version, results };
}

async function runTask(agent: Agent, bin: string, target: Target, model: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'gateway-agent-'));
  try {
    const work = join(home, 'work');
    await mkdir(work);
    for (const [path, text] of Object.entries(agent.files?.(target, model) ?? {})) {
      await mkdir(dirname(join(home, path)), { recursive: true });
      await writeFile(join(home, path), text);
    }
    const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`, HOME: home, ...agent.env(target, model) };
    const output = await runToEnd(bin, agent.args(model), { cwd: work, env });
    const written = await readFile(join(work, 'result.txt'), 'utf8').catch(() => '');
    if (written.trim() !== taskResult) return `no file: ${output.slice(-500)}`;
    return output.includes(finalText) || agent.name === 'aider' ? 'ok' : `no final text: ${output.slice(-500)}`;
  } finally {
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Returns its output. The input is empty, and we end the whole process group. */
async function runToEnd(command: string, args: readonly string[], options: { cwd: string; env: Record<string, string> }): Promise<string> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const limit = new AbortController();
  try {
    await Promise.race([
      once(child, 'close'),
      sleep(limitMs, null, { signal: limit.signal }).then(() => {
        throw new Error(`took longer than ${limitMs / 1_000} s: ${output.slice(-500)}`);
      }),
    ]);
    return output;
  } finally {
    limit.abort();
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  }
}
