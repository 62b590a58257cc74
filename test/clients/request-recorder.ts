/** A proxy in front of the gateway that records a program's requests. `anonymize` reduces them to their shape. */
import { request as send } from 'node:http';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface RequestRecorder extends LocalServer {
  readonly requests: readonly RecordedRequest[];
}

export async function startRequestRecorder(gatewayUrl: string): Promise<RequestRecorder> {
  const requests: RecordedRequest[] = [];
  const server = await startLocalServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method = 'GET', url: path = '/', headers } = request;
    requests.push({
      method,
      path,
      headers: headers as Record<string, string>,
      body: body.length === 0 ? null : JSON.parse(body.toString('utf8')),
    });
    const forwarded = send(`${gatewayUrl}${path}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    forwarded.end(body);
  });
  return { ...server, requests };
}

const droppedHeaders = /^(?:authorization|x-api-key|host|connection|content-length|accept-encoding|x-stainless-(?:arch|os|runtime.*))$/;
const uuids = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;
const noUuid = '00000000-0000-4000-8000-000000000000';
const hashes = /[0-9a-f]{32,}/gi;
const sessions = /\bses_\w{16,}/g;
const systems = / ?\([^)]*x86_64\)/g;
const maxTools = 4;
const maxProperties = 3;

/**
 * Returns the request without key, ids, local paths and texts. It keeps header names and values, field names, block
 * types, tool names, enumerated values and the texts in `kept`. Only a few tools remain, with a few properties and
 * other descriptions.
 */
export function anonymize({ method, path, headers, body }: RecordedRequest, kept: readonly string[]): RecordedRequest {
  const names = Object.keys(headers).filter((name) => !droppedHeaders.test(name));
  return {
    method,
    path,
    headers: Object.fromEntries(names.map((name) => [name, anonymizeHeader(headers[name] ?? '')])),
    body: anonymizeValue(body, '', kept),
  };
}

function anonymizeHeader(value: string): string {
  return anonymizeText(value, value.startsWith('{') ? [] : [value]);
}

function anonymizeValue(value: unknown, name: string, kept: readonly string[]): unknown {
  if (typeof value === 'string') return name === 'description' ? 'A description.' : anonymizeText(value, kept);
  if (Array.isArray(value)) {
    const items = name === 'tools' ? fewTools(value) : value;
    return items.map((item) => anonymizeValue(item, '', kept));
  }
  if (typeof value !== 'object' || value === null) return value;
  const schema = value as { properties?: Record<string, unknown>; required?: unknown };
  const few = typeof schema.properties === 'object' ? Object.keys(schema.properties).slice(0, maxProperties) : null;
  const own = few === null ? value : { ...value, properties: Object.fromEntries(few.map((key) => [key, schema.properties?.[key]])) };
  const reduced =
    few !== null && Array.isArray(schema.required) ? { ...own, required: schema.required.filter((key) => few.includes(key)) } : own;
  return Object.fromEntries(Object.entries(reduced).map(([key, member]) => [key, anonymizeValue(member, key, kept)]));
}

/** Keeps the first tools and one of each additional type. */
function fewTools(tools: readonly { readonly type?: string }[]): readonly unknown[] {
  return tools.filter(({ type }, index) => index < maxTools || tools.findIndex((tool) => tool.type === type) === index);
}

/**
 * Names and enumerated values have no spaces. JSON text stays JSON text, because it contains the arguments of tools.
 */
function anonymizeText(text: string, kept: readonly string[]): string {
  if (kept.includes(text)) return withoutIds(text);
  if (/^\{.*\}$/s.test(text)) return JSON.stringify(anonymizeValue(JSON.parse(text), '', kept));
  const isPath = text.startsWith('/') || text.startsWith('file:');
  return /^[\w.:+#=/;,-]{0,80}$/.test(text) && !isPath ? withoutIds(text) : 'A text.';
}

function withoutIds(text: string): string {
  return text.replaceAll(uuids, noUuid).replaceAll(hashes, '0').replaceAll(sessions, 'ses_0').replaceAll(systems, '');
}
