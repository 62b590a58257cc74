/**
 * Tests that no documented field of a request disappears silently. If a request has the field, it's either forwarded,
 * translated, or rejected because of the field, or the response lists the field in `x-gateway-dropped` or
 * `x-gateway-adjusted`.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Call, Dialect, PromptRoute } from '../../../src/core/call.ts';
import { noCorrelation } from '../../../src/core/call.ts';
import type { Candidate, ModelTraits } from '../../../src/core/candidate.ts';
import { VendorError } from '../../../src/core/errors.ts';
import type { JsonObject } from '../../../src/core/json/narrow.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { standardFormat } from '../../../src/core/request-format.ts';
import { adapterFor } from '../../../src/pipeline/call/dialect-adapter.ts';
import type { Provider } from '../../../src/vendors/vendor.ts';
import { chatPlaces } from './documented/chat.ts';
import { messagesPlaces } from './documented/messages.ts';
import { responsesPlaces } from './documented/responses.ts';
import { documentedMembers, type Place } from './sdk-members.ts';

function callOf(route: PromptRoute, request: JsonObject): Call {
  const body = Buffer.from(JSON.stringify(request));
  return {
    id: '0193d7a0-0000-7000-8000-000000000000',
    startedAt: 1_763_678_400_500,
    route,
    caller: { keyId: 'k', keyPrefix: 'abcdefgh', quotaKeyId: 'k', projectId: 'p', models: null, expiresAt: null },
    projectSlug: 'acme',
    source: 'acme',
    hasExplicitSource: false,
    requestedModel: 'standard',
    stream: request.stream === true,
    body,
    spans: scanObject(body),
    maxOutputTokens: null,
    memory: { mode: 'write', explicitWrite: false, subject: null },
    cache: { reads: true, writes: true },
    correlation: noCorrelation,
    deadlineAt: null,
    forwardedHeaders: {},
  };
}

interface Sent {
  readonly body: string;
  readonly named: readonly string[];
}

const hi = { role: 'user', content: 'hi' };

/** Returns what the vendor receives, or the error if the request is rejected. */
function send(route: PromptRoute, dialect: Dialect, request: JsonObject, traits: ModelTraits = {}): Sent | VendorError {
  const candidate: Candidate = { id: 'x/m', provider: 'x', model: 'm', dialect, price: null, maxOutputTokens: 64_000, traits };
  const timeouts = { connectTimeoutMs: 1, firstByteTimeoutMs: 1, idleTimeoutMs: 1 };
  const provider: Provider = {
    name: 'x',
    dialect,
    baseUrl: 'http://vendor.test/v1',
    headers: {},
    requests: standardFormat,
    secrets: [],
    ...timeouts,
  };
  try {
    const { body, changes } = adapterFor(callOf(route, request), candidate, provider, route === 'responses' ? 'translated' : 'native');
    return { body: body.toString(), named: [...(changes?.dropped ?? []), ...(changes?.adjusted ?? [])] };
  } catch (error) {
    if (error instanceof VendorError) return error;
    throw error;
  }
}

/** Returns what happened to a field of an object in the request. `without` is the same request without this field. */
function fateOf(member: string, sent: Sent | VendorError, without: Sent | VendorError): string {
  const isNamed = (path: string): boolean => path.split('.').includes(member);
  if (sent instanceof VendorError) {
    if (isNamed(sent.report.param ?? '') || sent.message.includes(member)) return 'refused';
    return `refused for another reason: ${sent.message}`;
  }
  if (sent.named.some(isNamed)) return 'named';
  return without instanceof VendorError || sent.body !== without.body ? 'translated' : 'silently dropped';
}

/** Fields whose value identifies the object, or which the gateway uses itself for every vendor. */
const structural: ReadonlySet<string> = new Set(['type', 'role', 'model', 'stream', 'call_id', 'tool_call_id', 'tool_use_id']);
/** Fields that affect the response rather than the request to the vendor, and names that are just labels. */
const honouredElsewhere: readonly string[] = [
  ...[
    'ChatCompletionStreamOptions.include_usage',
    'Reasoning.summary',
    'Reasoning.generate_summary',
    'JSONSchema.name',
    'JSONSchema.strict',
  ],
  'BetaToolUseBlockParam.id',
];

const ways: readonly { route: PromptRoute; vendor: Dialect; places: readonly Place[]; traits?: ModelTraits }[] = [
  { route: 'chat', vendor: 'messages', places: chatPlaces },
  { route: 'chat', vendor: 'messages', places: chatPlaces, traits: { supportsSchema: true, thinking: 'adaptive' } },
  { route: 'chat', vendor: 'messages', places: chatPlaces, traits: { thinking: 'none' } },
  { route: 'messages', vendor: 'chat', places: messagesPlaces },
  { route: 'messages', vendor: 'chat', places: messagesPlaces, traits: { reasons: false, takesReasoning: 'text' } },
  { route: 'messages', vendor: 'chat', places: messagesPlaces, traits: { reasons: true, takesReasoning: 'details' } },
  { route: 'responses', vendor: 'chat', places: responsesPlaces },
  { route: 'responses', vendor: 'chat', places: responsesPlaces, traits: { reasons: false, takesReasoning: 'details' } },
  { route: 'responses', vendor: 'messages', places: responsesPlaces },
];

/** A request for JSON, or for no tool at all, also limits the response to one tool call. */
const isImplied = (member: string, { tool_choice: choice, response_format: format, text }: JsonObject): boolean =>
  member === 'parallel_tool_calls' && (choice === 'none' || (format ?? text) !== undefined);

function find(request: unknown, at: Place['at']): Record<string, unknown> {
  return at.reduce<unknown>((value, key) => (value as Record<string | number, unknown>)[key], request) as Record<string, unknown>;
}

/** Returns the request with the field and without it. */
function requestsOf({ request, at, values }: Place, member: string): [JsonObject, JsonObject] {
  const having = structuredClone(request);
  find(having, at)[member] = values[member];
  const lacking = structuredClone(having);
  delete find(lacking, at)[member];
  return [having, lacking];
}

describe.each(ways)('a request of $route for a vendor of $vendor with $traits', ({ route, vendor, places, traits }) => {
  test.each(places.map((place) => ({ name: place.type[1], place })))(
    'translates or reports every documented member of $name',
    ({ name, place }) => {
      const documented = documentedMembers(...place.type);
      // If the SDK adds a field, it needs a value here. It also needs a rule unless it can be dropped.
      expect(Object.keys(place.values)).toEqual(expect.arrayContaining(documented));
      const fates = Object.keys(place.values)
        .filter((member) => !structural.has(member) && !honouredElsewhere.includes(`${name}.${member}`))
        .map((member) => {
          const [having, lacking] = requestsOf(place, member);
          const sent = send(route, vendor, having, traits);
          const isWholeNamed = place.within !== undefined && !(sent instanceof VendorError) && sent.named.includes(place.within);
          return [member, isWholeNamed ? 'named' : fateOf(member, sent, send(route, vendor, lacking, traits))];
        });
      expect(fates.filter(([, fate]) => fate !== 'translated' && fate !== 'named' && fate !== 'refused')).toEqual([]);
    },
  );

  test('translates or reports request members in any combination', () => {
    const [{ request, values } = places[0] as Place] = places;
    const free = Object.keys(values).filter((member) => {
      const [having] = requestsOf(places[0] as Place, member);
      return !structural.has(member) && !(send(route, vendor, having, traits) instanceof VendorError);
    });
    fc.assert(
      fc.property(fc.subarray(free, { minLength: 2 }), (members) => {
        const having = { ...request, ...Object.fromEntries(members.map((member) => [member, values[member]])) };
        const sent = send(route, vendor, having, traits);
        for (const member of members.filter((name) => !isImplied(name, having))) {
          const { [member]: _omitted, ...lacking } = having;
          expect([member, fateOf(member, sent, send(route, vendor, lacking, traits))]).not.toEqual([member, 'silently dropped']);
        }
      }),
      { numRuns: 100 },
    );
  });
});

test.each<[PromptRoute, Dialect, readonly Place[]]>([
  ['chat', 'chat', chatPlaces],
  ['messages', 'messages', messagesPlaces],
])('forwards all members of a %s request to a %s vendor', (route, dialect, places) => {
  for (const { request, at, values } of places) {
    const having = structuredClone(request);
    Object.assign(find(having, at), values, { stream: undefined });
    const sent = send(route, dialect, { model: 'standard', ...having });
    expect(sent instanceof VendorError ? sent : JSON.parse(sent.body)).toEqual(JSON.parse(JSON.stringify({ ...having, model: 'm' })));
  }
});

test("reports request members that aren't in the API documentation", () => {
  expect(send('chat', 'messages', { messages: [hi], min_p: 0.1, chat_template_kwargs: {} })).toMatchObject({
    named: ['min_p', 'chat_template_kwargs'],
  });
});
