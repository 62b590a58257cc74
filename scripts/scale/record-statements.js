/**
 * Records the statements that the service sends to PostgreSQL. This is a preload script (`node --import`). It appends
 * the statements to STATEMENTS_FILE as JSON, one per line. The service may come from another checkout, so we patch the
 * `pg` in its own node_modules.
 */
import { appendFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';

const file = process.env['STATEMENTS_FILE'] ?? '';
const require = createRequire(join(process.cwd(), 'package.json'));
/** @type {typeof import('pg')} */
const { Client } = require('pg');
/** @type {{ prepareValue: (value: unknown) => string | Buffer | null }} */
const { prepareValue } = require('pg/lib/utils');
const original = Client.prototype.query;

/**
 * The `set_config` calls in the current transaction of each client. We record them together with the statements that
 * follow, so that we can explain those with the same settings.
 * @type {WeakMap<object, string[]>}
 */
const settings = new WeakMap();

// @ts-expect-error one signature for all of them
Client.prototype.query = function (/** @type {unknown[]} */ ...args) {
  const [config, values] = args;
  const text = typeof config === 'string' ? config : String(Object(config)['text'] ?? '');
  const given = Array.isArray(values) ? values : (Object(config)['values'] ?? []);
  const parameters = given.map((/** @type {unknown} */ value) => prepareValue(value));
  if (/^\s*(begin|commit|rollback)/i.test(text)) settings.delete(this);
  else if (/set_config/.test(text)) settings.set(this, [...(settings.get(this) ?? []), inline(text, parameters)]);
  else if (text !== '') appendFileSync(file, `${JSON.stringify({ text, values: parameters, settings: settings.get(this) ?? [] })}\n`);
  // @ts-expect-error as above
  return original.apply(this, args);
};

/** @param {string} text @param {readonly unknown[]} parameters */
function inline(text, parameters) {
  return text.replaceAll(/\$(\d+)/g, (_, number) => `'${parameters[Number(number) - 1] ?? ''}'`);
}
