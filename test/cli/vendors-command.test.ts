import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type Ask, runVendorsCommand } from '../../src/cli/vendors-command.ts';
import { ConfigError } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { knownVendors } from '../../src/config/vendors/known-vendors.ts';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vendors-'));
  file = join(folder, 'gateway.yaml');
});
afterEach(() => rmSync(folder, { recursive: true }));

interface Answered {
  readonly written: string;
  readonly questions: readonly string[];
}

/** Runs the command and answers each question with the entry whose key it starts with. */
async function run(args: readonly string[], answers: Readonly<Record<string, string>> = {}): Promise<Answered> {
  const written: string[] = [];
  const questions: string[] = [];
  const ask: Ask = async (question, byDefault) => {
    questions.push(question);
    const answer = Object.entries(answers).find(([beginning]) => question.startsWith(beginning))?.[1] ?? byDefault;
    if (answer === null) throw new ConfigError([`${question}: is missing`]);
    return answer;
  };
  const output = { write: (text: string) => void written.push(text), writeError: () => undefined };
  await runVendorsCommand(args, { GATEWAY_CONFIG: file, EXISTING: 'x' }, output, ask);
  return { written: written.join(''), questions };
}

const load = (variables: Record<string, string>) =>
  loadConfig({ env: { EXISTING: 'x', ...variables }, fileText: readFileSync(file, 'utf8'), fileName: 'g' });

test('lists every known vendor', async () => {
  const { written } = await run([]);
  for (const { name } of knownVendors) expect(written).toMatch(new RegExp(`^${name} `, 'm'));
  const json = JSON.parse((await run(['--json'])).written);
  expect(json.data.map(({ name }: { name: string }) => name)).toEqual(knownVendors.map(({ name }) => name));
});

describe('gateway vendors add', () => {
  test('`vendors add` creates gateway.yaml from the answers', async () => {
    const { written, questions } = await run(['add', 'azure-openai'], { 'Name of the resource': 'acme', Model: 'gpt-4o' });
    expect(questions).toEqual([
      'Name of the provider',
      'Name of the resource, such as my-resource',
      'Sign in with an API key (key) or with the azure identity of this machine (identity)',
      'Environment variable that contains the API key',
      'Model for the "standard" tier (- for none)',
    ]);
    expect(readFileSync(file, 'utf8')).toBe(`providers:
  azure-openai:
    vendor: azure-openai
    base_url: https://acme.openai.azure.com/openai/v1
    api_key: \${AZURE_OPENAI_API_KEY}

tiers:
  standard:
    - azure-openai/gpt-4o
`);
    expect(written).toContain('Set AZURE_OPENAI_API_KEY to your API key.');
    expect(load({ AZURE_OPENAI_API_KEY: 'k' })).toMatchObject({ providers: { 'azure-openai': { apiKey: 'k', responses: 'native' } } });
  });

  test('adding a vendor leaves the rest of gateway.yaml unchanged', async () => {
    const before = `# the head\r
providers:   # ours
    own: { base_url: "https://own.test/v1", dialect: chat, api_key: "\${EXISTING}" }   # keep   this
    # about the next
    other:
        base_url: https://other.test/v1
        dialect:  chat


# the tiers
tiers: { standard: [own/m] }
`;
    writeFileSync(file, before);
    const { questions } = await run(['add', 'groq', '--name', 'fast', '--key-variable', 'GROQ']);
    expect(questions).toEqual([]);
    const after = readFileSync(file, 'utf8');
    const added = `    fast:\n      vendor: groq\n      api_key: \${GROQ}\n`;
    expect(after).toContain(added);
    expect(after.replace(added, '')).toBe(before);
    expect(Object.keys(load({ GROQ: 'k' }).providers)).toEqual(['own', 'other', 'fast']);
  });

  test('asks no questions if every value is given as an option', async () => {
    const args = [
      'add',
      'claude-on-aws',
      '--name',
      'aws',
      '--set',
      'region=eu-west-1',
      '--set',
      'workspace=wrkspc_1',
      '--key-variable',
      'KEY',
      '--model',
      '-',
    ];
    expect((await run(args)).questions).toEqual([]);
    expect(load({ KEY: 'k' }).providers.aws).toMatchObject({
      baseUrl: 'https://aws-external-anthropic.eu-west-1.api.aws/v1',
      headers: { 'anthropic-workspace-id': 'wrkspc_1' },
    });
  });

  test('writes the credentials file and deployment names to gateway.yaml', async () => {
    const set = ['--set', 'project=acme-1', '--set', 'location=europe-west1', '--model', '-'];
    await run(['add', 'vertex-claude', '--name', 'vertex', '--credentials-file', '/keys/google.json', ...set]);
    const names = ['--model-name', 'gpt-4o=deployed', '--model-name', 'gpt-5=other'];
    await run(['add', 'azure-openai', '--name', 'azure', '--set', 'resource=acme', '--key-variable', 'K', '--model', 'gpt-4o', ...names]);
    expect(load({ K: 'k' }).providers).toMatchObject({
      vertex: { identity: { type: 'google', credentialsFile: '/keys/google.json' } },
      azure: { requests: { modelNames: { 'gpt-4o': 'deployed', 'gpt-5': 'other' } } },
    });
  });

  test('gives up after three invalid answers to the same question', async () => {
    const answers = ['Ohio', 'us east', 'us-east-1'];
    const errors: string[] = [];
    const output = { write: () => undefined, writeError: (text: string) => void errors.push(text) };
    const ask: Ask = async (question, byDefault) => (question.startsWith('AWS region') ? (answers.shift() ?? 'Ohio') : (byDefault ?? ''));
    await runVendorsCommand(['add', 'bedrock-openai'], { GATEWAY_CONFIG: file }, output, ask);
    expect(errors).toEqual(['"Ohio" does not look like us-east-1\n', '"us east" does not look like us-east-1\n']);
    expect(Object.keys(load({ BEDROCK_OPENAI_API_KEY: 'k' }).providers)).toEqual(['bedrock-openai']);
    const again = runVendorsCommand(['add', 'bedrock-openai', '--name', 'two'], { GATEWAY_CONFIG: file }, output, ask);
    await expect(again).rejects.toThrow('"Ohio" does not look like us-east-1');
  });

  test("`vendors add --print` prints the provider's YAML without writing gateway.yaml", async () => {
    const { written } = await run(['add', 'ollama', '--print']);
    expect([written, existsSync(file)]).toEqual(['providers:\n  ollama:\n    vendor: ollama\n', false]);
  });

  const taken = 'providers:\n  groq: { vendor: groq }\n';
  test.each([
    [['add', 'nobody'], '', 'there is no vendor nobody; known ones are openai, '],
    [['remove'], '', 'unknown action "remove"'],
    [['add', 'groq', 'more'], '', 'unexpected argument "more"'],
    [['add', 'groq', '--set', 'region=x'], '', '--set region: groq has no values to set'],
    [['add', 'bedrock-openai', '--set', 'region=Ohio'], '', '--set region: must look like us-east-1'],
    [['add', 'bedrock-openai'], '', 'AWS region, such as us-east-1: is missing'],
    [['add', 'groq', '--identity'], '', '--identity: Groq only accepts an API key'],
    [['add', 'groq', '--credentials-file', 'x'], '', '--credentials-file: Groq does not use a credentials file'],
    [['add', 'groq', '--model-name', 'x'], '', '--model-name x: must look like gpt-4o=my-deployment'],
    [['add', 'groq', '--key-variable', 'a b'], '', '"a b" is not a valid name for an environment variable'],
    [['add', 'groq', '--name', 'a b'], '', 'a provider name may only contain letters'],
    [['add', 'groq'], taken, 'already has a provider groq; choose another name with --name'],
    [
      ['add', 'groq'],
      'providers: { own: { base_url: https://own.test/v1, dialect: chat } }\n',
      'cannot add to the providers section; add this by hand:',
    ],
    [['add', 'groq'], 'providers: [\n', 'cannot add to the providers section'],
    [['add', 'groq'], 'colour: red\n', 'there is no such setting'],
  ])('rejects %j and leaves the file unchanged', async (args, before, message) => {
    writeFileSync(file, before);
    const error = await run(args).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toContain(message);
    expect(readFileSync(file, 'utf8')).toBe(before);
  });
});
