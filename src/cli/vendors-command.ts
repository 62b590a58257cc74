/**
 * Implements `gateway vendors`, which lists the supported vendors, and `gateway vendors add`, which adds a provider to
 * gateway.yaml. On a terminal, it asks for everything that the options leave out.
 */
import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { parseDocument, stringify } from 'yaml';
import { ConfigError } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { parseOptions } from '../config/parse-options.ts';
import { explainUnknownVendor, findVendorByName, knownVendors } from '../config/vendors/known-vendors.ts';
import { addToSection, type NewProvider, toProviderRow } from '../config/vendors/new-provider.ts';
import type { VendorDescription, VendorParameter } from '../config/vendors/vendor-description.ts';
import type { CommandOutput } from './command.ts';
import { formatTable } from './table.ts';

const usage = `Usage:
  gateway vendors [--json]        list the vendors that the gateway knows
  gateway vendors add <vendor>    add a provider to gateway.yaml

Options of add:
  --name <provider>      name of the provider; the vendor's name by default
  --set <name>=<value>   a value of the vendor's address, such as region=us-east-1; may be repeated
  --key-variable <NAME>  environment variable that contains the API key
  --identity             sign in with the cloud identity of the machine instead of a key
  --credentials-file <file>
                         the file of a Google service account, with --identity
  --model-name <model>=<name>
                         what a model is called at the vendor, such as the name of its deployment; may be repeated
  --model <model>        put this model into the "standard" tier if the file has no tiers
  --print                print the block without changing the file

If add runs in a terminal, it asks for everything that is missing. It writes to the file that GATEWAY_CONFIG names, or to gateway.yaml, and
keeps everything that is in there. The file never contains the key itself.
`;

/** Asks a question. An empty answer means the default. Throws ConfigError if there's no terminal. */
export type Ask = (question: string, byDefault: string | null) => Promise<string>;

/** Returns the exit status. Throws ConfigError. */
export async function runVendorsCommand(args: readonly string[], env: Environment, output: CommandOutput, ask?: Ask): Promise<number> {
  const { values, positionals } = readOptions(args);
  const [action, vendorName, extra] = positionals;
  if (values.help) output.write(usage);
  else if (action === undefined) output.write(listVendors(values.json === true));
  else if (action !== 'add') throw new ConfigError([`unknown action "${action}"; use gateway vendors, or gateway vendors add <vendor>`]);
  else if (extra !== undefined) throw new ConfigError([`unexpected argument "${extra}"`]);
  else if (ask) await addProvider(vendorName, values, { env, output, ask });
  else await withTerminal((askInTerminal) => addProvider(vendorName, values, { env, output, ask: askInTerminal }));
  return 0;
}

type Options = ReturnType<typeof readOptions>['values'];

function readOptions(args: readonly string[]) {
  return parseOptions({
    args: [...args],
    allowPositionals: true,
    options: {
      name: { type: 'string' },
      set: { type: 'string', multiple: true },
      'key-variable': { type: 'string' },
      identity: { type: 'boolean' },
      'credentials-file': { type: 'string' },
      'model-name': { type: 'string', multiple: true },
      model: { type: 'string' },
      print: { type: 'boolean' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
}

function listVendors(asJson: boolean): string {
  const vendors = knownVendors.map(({ name, title, baseUrl, dialect, identity, documentation }) => ({
    ...{ name, title, base_url: baseUrl, dialect, identity: identity?.type ?? null, documentation },
  }));
  if (asJson) return `${JSON.stringify({ object: 'list', data: vendors }, null, 2)}\n`;
  const rows = vendors.map(({ name, title, dialect, identity, base_url: url }) => [name, title, dialect, identity, url]);
  return `${formatTable(['NAME', 'VENDOR', 'DIALECT', 'IDENTITY', 'BASE URL'], rows)}\nAdd one with gateway vendors add <name>.\n`;
}

interface Terminal {
  readonly env: Environment;
  readonly output: CommandOutput;
  readonly ask: Ask;
}

async function addProvider(vendorName: string | undefined, options: Options, { env, output, ask }: Terminal): Promise<void> {
  const check = (answer: string): string | null => (findVendorByName(answer) ? null : explainUnknownVendor(answer));
  const asked = vendorName ?? (await askUntilValid({ ask, output }, 'Vendor (see gateway vendors)', null, check));
  const vendor = findVendorByName(asked);
  if (vendor === null) throw new ConfigError([explainUnknownVendor(asked)]);
  const given = parseAssignments(options.set ?? [], vendor);
  const name = options.name ?? (await ask('Name of the provider', vendor.name));
  const parameters: Record<string, string> = {};
  for (const [parameter, description] of Object.entries(vendor.parameters ?? {})) {
    parameters[parameter] = given[parameter] ?? (await askFor({ ask, output }, description));
  }
  const credential = await chooseCredential(vendor, options, { ask, output });
  const provider = { name, vendor, parameters, credential, modelNames: parseModelNames(options['model-name'] ?? []) };
  const fileName = env.GATEWAY_CONFIG?.trim() || 'gateway.yaml';
  const text = existsSync(fileName) ? await readFile(fileName, 'utf8') : '';
  const hasTiers = parseDocument(text).has('tiers');
  const model = options.model ?? (hasTiers ? '-' : await ask('Model for the "standard" tier (- for none)', '-'));
  const block = toBlock(provider);
  if (options.print) {
    output.write(block);
    return;
  }
  const next = insert(text, { provider, model, fileName, env });
  await writeFile(`${fileName}.new`, next.text, { mode: 0o600 });
  await rename(`${fileName}.new`, fileName);
  output.write(`Added the provider ${name} to ${fileName}:\n\n${block}\n${advice(provider, model, next.hasTier, env).join('\n')}\n`);
}

function parseAssignments(assignments: readonly string[], { name, parameters = {} }: VendorDescription): Readonly<Record<string, string>> {
  const known = Object.keys(parameters);
  return Object.fromEntries(
    assignments.map((assignment) => {
      const [parameter = '', ...rest] = assignment.split('=');
      const value = rest.join('=');
      const description = parameters[parameter];
      if (description === undefined)
        throw new ConfigError([
          `--set ${parameter}: ${known.length === 0 ? `${name} has no values to set` : `there is no such value; ${name} has ${known.join(' and ')}`}`,
        ]);
      if (!description.pattern.test(value)) throw new ConfigError([`--set ${parameter}: must look like ${description.example}`]);
      return [parameter, value];
    }),
  );
}

function parseModelNames(assignments: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    assignments.map((assignment) => {
      const [, model, name] = /^([^=]+)=(.+)$/.exec(assignment) ?? [];
      if (model === undefined || name === undefined)
        throw new ConfigError([`--model-name ${assignment}: must look like gpt-4o=my-deployment`]);
      return [model, name];
    }),
  );
}

type Dialogue = Pick<Terminal, 'ask' | 'output'>;

const maxTries = 3;

/**
 * Repeats a question until the answer is valid. `check` returns what's wrong with an answer, or null if it's valid.
 * Throws ConfigError after three invalid answers.
 */
async function askUntilValid(
  { ask, output }: Dialogue,
  question: string,
  byDefault: string | null,
  check: (answer: string) => string | null,
): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    const answer = await ask(question, byDefault);
    const problem = check(answer);
    if (problem === null) return answer;
    if (tries === maxTries) throw new ConfigError([problem]);
    output.writeError(`${problem}\n`);
  }
}

function askFor(dialogue: Dialogue, { question, pattern, example }: VendorParameter): Promise<string> {
  return askUntilValid(dialogue, `${question}, such as ${example}`, null, (answer) =>
    pattern.test(answer) ? null : `"${answer}" does not look like ${example}`,
  );
}

async function chooseCredential(vendor: VendorDescription, options: Options, dialogue: Dialogue): Promise<NewProvider['credential']> {
  const { identity, needsKey = true } = vendor;
  const file = options['credentials-file'];
  if (file !== undefined && identity?.type !== 'google')
    throw new ConfigError([`--credentials-file: ${vendor.title} does not use a credentials file`]);
  if (options.identity || file !== undefined) {
    if (!identity) throw new ConfigError([`--identity: ${vendor.title} only accepts an API key`]);
    return { identity: identity.type, ...(file !== undefined && { credentialsFile: file }) };
  }
  if (options['key-variable'] === undefined && identity) {
    if (!needsKey) return { identity: identity.type };
    const question = `Sign in with an API key (key) or with the ${identity.type} identity of this machine (identity)`;
    const choice = await askUntilValid(dialogue, question, 'key', (answer) =>
      answer === 'key' || answer === 'identity' ? null : `enter key or identity, not "${answer}"`,
    );
    if (choice === 'identity') return { identity: identity.type };
  }
  if (options['key-variable'] === undefined && !needsKey) return null;
  const byDefault = `${vendor.name.toUpperCase().replaceAll('-', '_')}_API_KEY`;
  const check = (name: string): string | null =>
    /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? null : `"${name}" is not a valid name for an environment variable`;
  const given = options['key-variable'];
  const problem = given === undefined ? null : check(given);
  if (problem !== null) throw new ConfigError([problem]);
  return { variable: given ?? (await askUntilValid(dialogue, 'Environment variable that contains the API key', byDefault, check)) };
}

function toBlock(provider: NewProvider): string {
  return stringify({ providers: { [provider.name]: toProviderRow(provider) } });
}

interface Insertion {
  readonly provider: NewProvider;
  readonly model: string;
  readonly fileName: string;
  readonly env: Environment;
}

/** Adds the provider to the file, and a tier with the model if the file has no tiers. Throws ConfigError. */
function insert(text: string, { provider, model, fileName, env }: Insertion) {
  const { name, credential } = provider;
  const file = parseDocument(text);
  if (file.hasIn(['providers', name]))
    throw new ConfigError([`${fileName} already has a provider ${name}; choose another name with --name`]);
  const withProvider = addToSection(text, 'providers', name, toProviderRow(provider));
  if (withProvider === null)
    throw new ConfigError([`${fileName}: cannot add to the providers section; add this by hand:\n\n${toBlock(provider)}`]);
  const withTier = file.has('tiers') || model === '-' ? null : addToSection(withProvider, 'tiers', 'standard', [`${name}/${model}`]);
  const next = withTier ?? withProvider;
  // Check that the changed file is valid. The environment variable for the key may not be set yet, so use a placeholder
  // in this case.
  const variable = credential !== null && 'variable' in credential ? credential.variable : null;
  loadConfig({ env: variable === null ? env : { ...env, [variable]: env[variable] ?? 'to-be-set' }, fileText: next, fileName });
  return { text: next, hasTier: withTier !== null };
}

function advice({ name, credential, vendor }: NewProvider, model: string, hasTier: boolean, env: Environment): string[] {
  const lines: string[] = [];
  if (credential !== null && 'variable' in credential && !env[credential.variable])
    lines.push(`Set ${credential.variable} to your API key.`);
  if (hasTier) lines.push(`The standard tier uses ${name}/${model}.`);
  else lines.push(`Use its models in tiers, or call them as ${name}/${model === '-' ? '<model>' : model}.`);
  if (vendor.models === undefined)
    lines.push('Its models have no built-in prices: gateway catalog import adds those of the public price table.');
  return [...lines, 'Check it with gateway check-config --online, then restart the gateway or send it SIGHUP.'];
}

async function withTerminal(run: (ask: Ask) => Promise<void>): Promise<void> {
  const lines = process.stdin.isTTY ? createInterface({ input: process.stdin, output: process.stderr }) : null;
  try {
    await run(async (question, byDefault) => {
      if (lines === null) {
        if (byDefault !== null) return byDefault;
        throw new ConfigError([
          `${question}: an answer is required, but there is no terminal; pass options instead (see gateway vendors --help)`,
        ]);
      }
      const answer = (await lines.question(byDefault === null ? `${question}: ` : `${question} [${byDefault}]: `)).trim();
      return answer === '' && byDefault !== null ? byDefault : answer;
    });
  } finally {
    lines?.close();
  }
}
