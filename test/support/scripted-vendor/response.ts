/** The scripted vendor's responses, and functions that modify those of the demo vendor. */
import { asString, type JsonObject, parseObject } from '../../../src/demo-vendor/json.ts';
import type { DemoRequest, DemoResponse, EventStream } from '../../../src/demo-vendor/response.ts';
import { parseScript, type Script } from './scripts.ts';

export interface ScriptedStream extends EventStream {
  /** Creates the event for an error in the middle of the stream, if it's different from the family's usual one. */
  error?(): string;
}

export type ScriptedResponse =
  | Exclude<DemoResponse, { kind: 'stream' }>
  | { readonly kind: 'stream'; readonly stream: ScriptedStream }
  | { readonly kind: 'silence' };

export function redirectResponse(location: string): DemoResponse {
  return { kind: 'body', status: 302, headers: { location }, body: '' };
}

/**
 * Applies `change` to the JSON object of a plain response. In a stream, applies it to the objects in the opening and
 * closing events.
 */
export function mapJson(outgoing: DemoResponse, change: (json: JsonObject) => JsonObject): DemoResponse {
  if (outgoing.kind === 'stream') {
    const { opening, deltas, closing } = outgoing.stream;
    const changed = (events: Iterable<string>) => [...events].map((event) => mapEvent(event, change));
    return { kind: 'stream', stream: { opening: changed(opening), deltas, closing: changed(closing) } };
  }
  const json = parseObject(Buffer.from(outgoing.body));
  return json === null ? outgoing : { ...outgoing, body: JSON.stringify(change(json)) };
}

export function mapEvent(event: string, change: (json: JsonObject) => JsonObject): string {
  return event.replace(/^data: (\{.*\})$/m, (_, text: string) => `data: ${JSON.stringify(change(JSON.parse(text)))}`);
}

export function mapStream(outgoing: DemoResponse, change: (stream: EventStream) => EventStream): DemoResponse {
  return outgoing.kind === 'stream' ? { kind: 'stream', stream: change(outgoing.stream) } : outgoing;
}

/** Returns a handler that removes the usage if the model's name asks for that. */
export function withUsageByScript(handle: (request: DemoRequest) => DemoResponse): (request: DemoRequest) => DemoResponse {
  return (request) => {
    const outgoing = handle(request);
    return scriptOf(request).usage === 'none' ? mapJson(outgoing, withoutUsage) : outgoing;
  };
}

function withoutUsage({ usage: _, ...rest }: JsonObject): JsonObject {
  return rest;
}

export function scriptOf({ model }: Pick<DemoRequest, 'model'>): Script {
  return parseScript(asString(model));
}
