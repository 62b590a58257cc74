/** Runs `gateway catalog` against a service, and checks the output and the catalog that is active afterwards. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCommand } from '../../src/cli/commands.ts';
import { shareGateway } from '../support/gateway.ts';

const lent = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  openai: { base_url: https://api.openai.com/v1, api_key: k, dialect: chat }
  claude: { base_url: https://api.anthropic.com/v1, api_key: k, dialect: messages }
  groq: { base_url: http://127.0.0.1:9/v1, api_key: k, dialect: chat }
  proxy: { base_url: http://127.0.0.1:9/v1, api_key: k, dialect: chat }
models:
  openai/gpt-4o: { input: 9, output: 9 }
  openai/dall-e-9: { per_image: 0.04 }
  proxy/unpriced: { max_output_tokens: 10 }
`,
});

const table = `{
  "gpt-4o": { "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05 },
  "gpt-4o-mini": { "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06 },
  "gpt-7": { "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05,
    "input_cost_per_token_above_200k_tokens": 6e-06 },
  "search-1": { "litellm_provider": "openai", "mode": "search", "input_cost_per_query": 0.0001 },
  "claude-haiku-4-5": { "litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06,
    "cache_read_input_token_cost": 1e-07, "max_input_tokens": 200000, "max_output_tokens": 64000, "supports_reasoning": true,
    "supports_response_schema": true },
  "groq/llama": { "litellm_provider": "groq", "mode": "chat", "input_cost_per_token": 1e-07, "output_cost_per_token": 1e-07 },
  "azure/gpt-7": { "litellm_provider": "azure", "mode": "chat", "input_cost_per_token": 1, "output_cost_per_token": 1 }
}`;

let folder = '';
let file = '';
let written = '';
let errors = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gateway-catalog-'));
  file = join(folder, 'prices.json');
  await writeFile(file, table);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const gateway = (...args: string[]): Promise<number> => {
  written = '';
  errors = '';
  const environment = { GATEWAY_DATA_DIR: folder, GATEWAY_ADMIN_TOKEN: 'test-admin-token-0123456789' };
  return runCommand([...args, '--url', lent().url], environment, {
    write: (text) => {
      written += text;
    },
    writeError: (text) => {
      errors += text;
    },
  });
};

test('`catalog list` shows each model with its price and source', async () => {
  expect(await gateway('catalog', 'list')).toBe(0);
  expect(written).toMatch(/^MODEL +KIND +SOURCE +INPUT +CACHED +OUTPUT +OTHER +MAX INPUT +MAX OUTPUT$/m);
  expect(written).toMatch(/^openai\/gpt-4o +chat +file +\$9\.00 +\$9\.00 +\$9\.00 +- +128000 +16384$/m);
  expect(written).toMatch(/^openai\/gpt-4o-mini +chat +starter +\$0\.15 +\$0\.075 +\$0\.60 +- +128000 +16384$/m);
  expect(written).toMatch(/^openai\/dall-e-9 +images +file +- +- +- +\$0\.04 an image +- +-$/m);
  expect(written).toMatch(/^claude\/claude-haiku-5-5 .* above 100000: \$0\.50 and \$2\.50 /m);
  expect(written).toMatch(/^proxy\/unpriced +chat +file +unknown +- +- +- +- +10$/m);
});

test('reports which models an import added, changed and skipped', async () => {
  expect(await gateway('catalog', 'import', file)).toBe(0);
  expect(written).toBe(`2 added, 1 changed, 1 unchanged.
added    openai/gpt-7
added    groq/llama
changed  openai/gpt-4o-mini
Stored but not used, because rows in gateway.yaml override them: openai/gpt-4o
Skipped 1 entry:
  no route serves the mode search: search-1
1 entry belongs to a vendor that matches none of your providers; match one with --as <name in the table>=<provider>.
`);
  expect(await gateway('catalog', 'list')).toBe(0);
  expect(written).toMatch(/^openai\/gpt-7 +chat +import +\$3\.00 +\$3\.00 +\$15\.00 +above 200000: \$6\.00 and \$15\.00 +- +-$/m);
  expect(written).toMatch(/^openai\/gpt-4o +chat +file +\$9\.00 /m);
  expect(await gateway('catalog', 'import', file, '--json')).toBe(0);
  expect(JSON.parse(written)).toMatchObject({
    added: [],
    changed: [],
    unchanged: { length: 4 },
    foreign: 1,
    skipped: [{ entry: 'search-1' }],
  });
});

test('prints no control character of a price table or an argument', async () => {
  const hostile = join(folder, 'hostile.json');
  const entry = { litellm_provider: 'openai', mode: 'ch\u001b[31mat', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
  await writeFile(hostile, JSON.stringify({ 'bad\u001b[2J\u009b': { ...entry, mode: 'chat' }, other: entry }));
  expect(await gateway('catalog', 'import', hostile)).toBe(0);
  expect(written).toMatch(/^Skipped 2 entries/m);
  expect(await gateway('catalog', 'import', `${folder}/\u001b[2J`)).toBe(1);
  expect(errors).toContain('\\u001b[2J');
  expect(written + errors).not.toMatch(/[^\P{Cc}\n]/u);
});

test("imports a vendor's models under another provider with --as", async () => {
  expect(await gateway('catalog', 'import', file, '--as', 'azure=proxy', '--as', 'groq=proxy', '--json')).toBe(0);
  expect(JSON.parse(written).added).toEqual(['proxy/llama', 'proxy/gpt-7']);
});

test('`catalog remove` deletes an imported model', async () => {
  await gateway('catalog', 'import', file);
  expect(await gateway('catalog', 'remove', 'openai/gpt-4o-mini')).toBe(0);
  expect(written).toBe('Removed the imported row of openai/gpt-4o-mini.\n');
  expect(await gateway('catalog', 'remove', 'openai/gpt-4o-mini')).toBe(0);
  expect(written).toBe('No imported row of that model exists.\n');
  await gateway('catalog', 'list');
  expect(written).toMatch(/^openai\/gpt-4o-mini +chat +starter +\$0\.15 /m);
});

test.each([
  [['catalog', 'import'], "missing required argument 'file'"],
  [['catalog', 'remove'], "missing required argument 'model'"],
  [['catalog', 'import', '/nowhere/prices.json'], 'cannot read /nowhere/prices.json: ENOENT'],
  [['catalog', 'import', 'FILE', '--as', 'openai'], '--as: must be <name in the table>=<provider>, for example openai=proxy'],
  [['catalog', 'import', 'FILE', '--as', 'openai=nobody'], '--as: there is no provider nobody'],
  [['catalog', 'import', 'OTHER'], 'OTHER is not a price table: not valid JSON'],
  [['catalog', 'import', 'EMPTY'], 'EMPTY is not a price table: no entry has a litellm_provider'],
  [['catalog', 'import', 'FOREIGN'], 'none of your providers matches a vendor in this table; match one with --as'],
])('prints a one-line error and exits with 1 for %j', async (args, sentence) => {
  const files: Record<string, string> = {
    FILE: table,
    OTHER: 'models: {}',
    EMPTY: '{}',
    FOREIGN: '{"m": {"litellm_provider": "azure", "mode": "chat"}}',
  };
  const inPlace: string[] = [];
  for (const arg of args) {
    const path = join(folder, `${arg}.json`);
    const content = files[arg];
    if (content !== undefined) await writeFile(path, content);
    inPlace.push(content === undefined ? arg : path);
  }
  expect(await gateway(...inPlace)).toBe(1);
  expect(written).toBe('');
  expect(errors.replaceAll(`${folder}/`, '').replaceAll(/([A-Z]+)\.json/g, '$1')).toMatch(
    new RegExp(`^gateway: ${escapePattern(sentence)}[^\\n]*\\n$`),
  );
});

test('shows the usage of the catalog command for --help', async () => {
  expect(await gateway('catalog', '--help')).toBe(0);
  expect(written).toContain('import [options] <file>');
});

function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
