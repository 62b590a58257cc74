/**
 * `POST /v1/messages/count_tokens`. Authentication, content rules and routing work as on the messages route, but these
 * requests are neither recorded nor counted against any ceiling.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import { countTokens as codec } from '../../dialects/messages/count-tokens.ts';
import type { KnownPrompts } from '../../memory/conversations/known-prompts.ts';
import type { CountTokens } from '../../pipeline/call/count-tokens.ts';
import { parseKey } from '../authenticate.ts';
import { checkContentType, type KeyBodies, maxBodyBytes, readBody } from '../body.ts';
import { sendBytes, sendError } from '../error-handler.ts';
import { onClientDisconnect } from '../half-close.ts';
import { setModelHeader } from '../send-response.ts';
import { type CallRouteDeps, inspectLarge, parseCall } from './text.ts';

export interface CountTokensRouteDeps extends CallRouteDeps {
  readonly countTokens: CountTokens;
  readonly knownPrompts: Pick<KnownPrompts, 'scan'>;
}

/**
 * How long we wait for the vendor to count the tokens. After that we return an estimate, because clients wait for the
 * count before they send their message.
 */
const maxVendorMs = 10_000;

export function createCountTokensRoute(deps: CountTokensRouteDeps) {
  const { findCaller, findProject, countTokens, knownPrompts, bodyMemory, clock } = deps;
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let bodies: KeyBodies | undefined;
    let bodyBytes = 0;
    try {
      const startedAt = clock.now();
      const authenticate = (): Promise<Caller> => findCaller(parseKey(request.headers, true));
      let caller = await authenticate();
      checkContentType(request);
      bodies = bodyMemory.of(caller.projectId, caller.quotaKeyId);
      const body = await readBody(request, maxBodyBytes, bodies, async () => {
        caller = await authenticate();
      });
      bodyBytes = body.length;
      const project = await findProject(caller.projectId);
      const now = clock.now();
      const { headers } = request;
      const scan = (bytes: Buffer): BodySpans => knownPrompts.scan(caller.projectId, codec.route, bytes);
      const source = { id: newId(startedAt), startedAt, now, codec, caller, project, settings: null, headers, body, scan };
      const call = parseCall(bodyBytes < largeBytes ? source : { ...source, ...(await inspectLarge(source)) });
      const abandoned = new AbortController();
      onClientDisconnect(response, () => abandoned.abort());
      const timeoutMs = Math.min(maxVendorMs, (call.deadlineAt ?? Number.POSITIVE_INFINITY) - now);
      const signal = AbortSignal.any([abandoned.signal, AbortSignal.timeout(timeoutMs)]);
      const { bytes, countedBy } = await countTokens(call, project.settings, signal);
      if (countedBy === null) response.setHeader('x-gateway-token-count', 'estimated');
      else setModelHeader(response, countedBy);
      sendBytes(response, 200, 'application/json', bytes);
    } catch (error) {
      sendError(response, error, 'messages', deps);
    } finally {
      bodies?.release(bodyBytes);
    }
  };
}
