/**
 * Checks a call against the project's content rules: the input before we use it, and the response before we send it. If
 * a project has no rules, its calls skip this step.
 *
 * The log says which class matched and where, but never contains the matching text.
 */
import type { Call, Route } from '../../core/call.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Refusal } from '../../core/refusal.ts';
import { createSseParser } from '../../core/sse.ts';
import { extractResponseTexts, readRequestTexts } from '../../dialects/routes/rule-texts.ts';
import { createStreamTexts } from '../../dialects/routes/stream-texts.ts';
import type { ContentRule, RulePlace } from '../../guardrails/content-rule.ts';
import { evaluateTexts, type PlaceRules } from '../../guardrails/rules.ts';
import type { Logger } from '../../observability/logger.ts';
import { type ChunkReader, nextChunk, type StreamChunk, type StreamEnd } from '../../vendors/stream.ts';
import type { VendorResponse } from '../../vendors/text.ts';

type CheckedCall = Pick<Call, 'id' | 'projectSlug' | 'caller'> & { readonly route: Route };

/** The maximum number of bytes that we buffer. Plain responses have the same limit. */
const maxBufferedBytes = 64 * 1024 * 1024;

/** A check of a call that matched at least one rule. Each such check is reported once. */
export interface RuleHit {
  readonly projectId: string;
  readonly callId: string;
  readonly rules: readonly ContentRule[];
}

export interface RuleEnforcerDeps {
  readonly logger: Logger;
  /** Counts how often each rule matches. Never throws. Absent for requests that don't count as calls. */
  readonly recordRuleHit?: ((hit: RuleHit) => void) | undefined;
}

export function createRuleEnforcer({ logger, recordRuleHit }: RuleEnforcerDeps) {
  /**
   * Returns an error if one of the rules blocks the texts, and null otherwise. Rejects with the reason of `signal` if
   * it aborts.
   */
  async function evaluate(
    call: CheckedCall,
    rules: PlaceRules,
    place: RulePlace,
    texts: readonly string[],
    signal?: AbortSignal,
  ): Promise<GatewayError | null> {
    const logFields = { call: call.id, project: call.projectSlug, route: call.route, place };
    const verdict = await evaluateTexts(rules, texts, { project: call.caller.projectId, signal }).catch((error: unknown) => {
      if (error instanceof GatewayError) return error;
      throw error;
    });
    if (verdict instanceof GatewayError) {
      logger.warn({ ...logFields, code: verdict.code }, 'failed to evaluate content rules');
      // Rules that only observe never stop a call.
      return rules.blocks ? verdict : null;
    }
    const { blockedBy, observed, matched, unfinished } = verdict;
    if (matched.length > 0) recordRuleHit?.({ projectId: call.caller.projectId, callId: call.id, rules: matched });
    for (const observedClass of observed) logger.info({ ...logFields, class: observedClass, action: 'observe' }, 'content rule matched');
    if (blockedBy !== null) {
      logger.info({ ...logFields, class: blockedBy, action: 'block' }, 'content rule matched');
      return gatewayError('guardrail_blocked', {
        message: `a content rule blocked the call: ${blockedBy} in ${place}`,
        ...refusedBy('content_rule', blockedBy, place),
      });
    }
    if (unfinished === null) return null;
    const { class: slowest, reason, cause } = unfinished;
    logger.warn(
      { ...logFields, class: slowest, reason, ...(cause !== undefined && { err: cause }) },
      'failed to evaluate some content rules',
    );
    if (!rules.blocks) return null;
    const message = `a content rule could not be evaluated: the rule ${unfinished.class} for ${place} ${unfinished.reason}. Shorten the text or simplify the rules`;
    return gatewayError('guardrail_blocked', { message, ...refusedBy('content_rule_unfinished', slowest, place) });
  }

  /**
   * Checks the texts of a call before they are sent to a vendor. Throws `guardrail_blocked`, `budget_unavailable` if
   * too many calls of the project are waiting for the check, or VendorError `aborted` if `signal` aborts it.
   */
  async function checkTexts(call: CheckedCall, rules: PlaceRules, texts: readonly string[], signal?: AbortSignal): Promise<void> {
    const error = await evaluate(call, rules, 'input', texts, signal).catch((cause: unknown) => {
      throw signal?.aborted ? new VendorError('aborted', 'the content rule check was cancelled', { cause, isUnsent: true }) : cause;
    });
    if (error) throw error;
  }

  return {
    /**
     * Checks the body of a call. Throws the same errors as `checkTexts`, and `bad_json` if the body repeats a key.
     */
    checkInput: async (call: Call, rules: PlaceRules, signal?: AbortSignal): Promise<void> =>
      checkTexts(call, rules, readRequestTexts(call.body), signal),
    checkTexts,
    /** Returns an error if a rule blocks the text of a media response, or null if none does. */
    checkOutput: (call: CheckedCall, rules: PlaceRules, texts: readonly string[]): Promise<GatewayError | null> =>
      evaluate(call, rules, 'output', texts),
    /**
     * Returns the response to send, and an error if a rule blocks it. If there are blocking rules, we buffer a stream
     * to its end and replay it. If the rules only observe, we relay the stream while we read it. If `signal` aborts
     * the check, the stream ends as if the caller had left.
     */
    async checkResponse(
      call: Call,
      rules: PlaceRules,
      response: VendorResponse,
      signal?: AbortSignal,
    ): Promise<{ response: VendorResponse; error: GatewayError | null }> {
      if (response.kind === 'plain') {
        const error = await evaluate(call, rules, 'output', extractResponseTexts(call.route, parseJson(response.bytes.toString('utf8'))));
        return { response, error };
      }
      if (!rules.blocks) {
        // Check the text in the background, because rules that only observe shouldn't hold up the stream.
        const onEnd = (texts: readonly string[]): void => {
          evaluate(call, rules, 'output', texts).catch((err: unknown) =>
            logger.error({ call: call.id, err }, 'failed to evaluate content rules'),
          );
        };
        return { response: { ...response, chunks: () => tapStream(call.route, response.chunks(), onEnd) }, error: null };
      }
      const buffered = await bufferStream(call.route, response.chunks());
      try {
        const error = await evaluate(call, rules, 'output', buffered.texts, signal);
        return { response: { ...response, chunks: buffered.replay }, error };
      } catch (cause) {
        if (!signal?.aborted) throw cause;
        const disconnected = new VendorError('aborted', 'the caller disconnected', { cause });
        return { response: { ...response, chunks: () => replayChunks([], null, disconnected) }, error: null };
      }
    },
    /**
     * Returns an error if a rule blocks a complete response, or null if none does. The bytes are events or JSON in the
     * caller's format.
     */
    checkBytes: (call: Call, rules: PlaceRules, bytes: Buffer): Promise<GatewayError | null> =>
      evaluate(call, rules, 'output', extractTexts(call, bytes)),
  };
}

/** Only a blocked input counts as a refusal, because a call with blocked output is recorded as a call. */
function refusedBy(reason: 'content_rule' | 'content_rule_unfinished', rule: string, place: RulePlace): { readonly refusal?: Refusal } {
  return place === 'input' ? { refusal: { reason, rule } } : {};
}

function extractTexts({ route, stream }: Call, bytes: Buffer): string[] {
  if (!stream) return extractResponseTexts(route, parseJson(bytes.toString('utf8')));
  const reader = createChunkReader(route);
  reader.read(bytes);
  return reader.texts();
}

/**
 * Passes the chunks through and collects their text. Calls `onEnd` with the text when the reader closes the stream, no
 * matter why.
 */
function tapStream(route: Call['route'], chunks: ChunkReader, onEnd: (texts: readonly string[]) => void): ChunkReader {
  const reader = createChunkReader(route);
  return {
    ready: chunks.ready,
    read() {
      const step = chunks.read();
      if (step?.kind === 'chunk') reader.read(step.bytes);
      return step;
    },
    close() {
      chunks.close();
      onEnd(reader.texts());
    },
  };
}

/**
 * Reads a stream to its end and collects its text. `replay` returns the same stream again, including its end or error.
 */
async function bufferStream(route: Call['route'], chunks: ChunkReader): Promise<{ texts: string[]; replay: () => ChunkReader }> {
  const reader = createChunkReader(route);
  const buffered: StreamChunk[] = [];
  let bufferedBytes = 0;
  let end: StreamEnd | null = null;
  let failure: VendorError | null = null;
  try {
    while (end === null) {
      const step = await nextChunk(chunks);
      if (step.kind !== 'chunk') end = step;
      else {
        reader.read(step.bytes);
        buffered.push(step);
        bufferedBytes += step.bytes.length;
        if (bufferedBytes > maxBufferedBytes)
          end = { kind: 'broken', message: 'the response is too large to be checked against the content rules', errorForwarded: false };
      }
    }
  } catch (error) {
    // The caller has disconnected. We keep the error and throw it when the replayed stream is read, because that's
    // where the call is settled.
    if (!(error instanceof VendorError)) throw error;
    failure = error;
  } finally {
    chunks.close();
  }
  // If the stream exceeded the limit, we stopped reading it, so we only replay the error and none of the chunks.
  const checked = bufferedBytes > maxBufferedBytes ? [] : buffered;

  return { texts: reader.texts(), replay: () => replayChunks(checked, end, failure) };
}

function replayChunks(chunks: StreamChunk[], end: StreamEnd | null, failure: VendorError | null): ChunkReader {
  return {
    ready: () => Promise.resolve(),
    read() {
      const chunk = chunks.shift();
      if (chunk) return chunk;
      if (failure) throw failure;
      return end;
    },
    close() {},
  };
}

/** Reads the text of a stream, chunk by chunk. Chunks only contain complete events. */
function createChunkReader(route: Call['route']) {
  const texts = createStreamTexts(route);
  const parser = createSseParser(maxBufferedBytes);
  return {
    read(bytes: Buffer): void {
      for (const event of parser.push(bytes).events) texts.add(event);
    },
    texts(): string[] {
      for (const event of parser.end().events) texts.add(event);
      return texts.texts();
    },
  };
}
