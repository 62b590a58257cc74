/**
 * The content rules of a project on the way of a call (decisions 3): its input before anything is done with it, its answer before it is
 * told. Where a project has no rule of a place, nothing here runs.
 *
 * What a rule found is logged with its class and place, never with what it found.
 */
import type { Call, Route } from '../../core/call.ts';
import type { GatewayError } from '../../core/errors.ts';
import { gatewayError, VendorError } from '../../core/errors.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { createSseParser } from '../../core/sse.ts';
import { extractRequestTexts, extractResponseTexts } from '../../dialects/routes/rule-texts.ts';
import { createStreamTexts } from '../../dialects/routes/stream-texts.ts';
import type { RulePlace } from '../../guardrails/content-rule.ts';
import type { PlaceRules } from '../../guardrails/rules.ts';
import { evaluateTexts } from '../../guardrails/rules.ts';
import type { Logger } from '../../observability/logger.ts';
import type { StreamChunk, StreamEnd } from '../../vendors/stream.ts';
import type { StreamResponse, VendorResponse } from '../../vendors/text.ts';

export interface RuleEnforcer {
  /** Throws `guardrail_blocked`. */
  checkInput(call: Call, rules: PlaceRules): Promise<void>;
  /** The same for what a media call is to draw or speak. */
  checkTexts(call: CheckedCall, rules: PlaceRules, texts: readonly string[]): Promise<void>;
  /**
   * The answer as it may be told, and the error of one that is blocked. Under a rule that blocks a stream is read to its end first, and what
   * comes back replays it; under rules that only observe it runs on.
   */
  checkResponse(call: Call, rules: PlaceRules, answer: VendorResponse): Promise<{ answer: VendorResponse; error: GatewayError | null }>;
  /** The error of a whole answer in the caller's form, events or JSON; null for one that passes. */
  checkBytes(call: Call, rules: PlaceRules, bytes: Buffer): Promise<GatewayError | null>;
}

/** What a rule's log line says of a call. */
type CheckedCall = Pick<Call, 'id' | 'caller'> & { readonly route: Route };

/** As large as a plain answer may be. */
const maxBufferedBytes = 64 * 1024 * 1024;

export function createRuleEnforcer({ logger }: { readonly logger: Logger }): RuleEnforcer {
  /** The error of texts that are blocked, null for those that pass. */
  async function evaluate(call: CheckedCall, rules: PlaceRules, place: RulePlace, texts: readonly string[]): Promise<GatewayError | null> {
    const { blockedBy, observed } = await evaluateTexts(rules, texts);
    const logFields = { call: call.id, project: call.caller.projectId, route: call.route, place };
    for (const observedClass of observed) logger.info({ ...logFields, class: observedClass, action: 'observe' }, 'content rule');
    if (blockedBy === null) return null;
    logger.info({ ...logFields, class: blockedBy, action: 'block' }, 'content rule');
    return gatewayError('guardrail_blocked', { message: `a content rule blocked the call: ${blockedBy} in ${place}` });
  }

  async function checkTexts(call: CheckedCall, rules: PlaceRules, texts: readonly string[]): Promise<void> {
    const error = await evaluate(call, rules, 'input', texts);
    if (error) throw error;
  }

  return {
    checkInput: (call, rules) => checkTexts(call, rules, extractRequestTexts(parseJson(call.body.toString('utf8')))),
    checkTexts,
    async checkResponse(call, rules, answer) {
      if (answer.kind === 'plain') {
        const error = await evaluate(call, rules, 'output', extractResponseTexts(call.route, parseJson(answer.bytes.toString('utf8'))));
        return { answer, error };
      }
      if (!rules.blocks) {
        // Nobody waits for what is only noted.
        const onEnd = (texts: readonly string[]): void => {
          evaluate(call, rules, 'output', texts).catch((error: unknown) => logger.error({ call: call.id, error }, 'a content rule failed'));
        };
        return { answer: { ...answer, pieces: () => tapStream(call.route, answer.pieces(), onEnd) }, error: null };
      }
      const buffered = await bufferStream(call.route, answer.pieces());
      return { answer: { ...answer, pieces: buffered.replay }, error: await evaluate(call, rules, 'output', buffered.texts) };
    },
    checkBytes: (call, rules, bytes) => evaluate(call, rules, 'output', extractTexts(call, bytes)),
  };
}

type ChunkStream = ReturnType<StreamResponse['pieces']>;

function extractTexts({ route, stream }: Call, bytes: Buffer): string[] {
  if (!stream) return extractResponseTexts(route, parseJson(bytes.toString('utf8')));
  const reader = createChunkReader(route);
  reader.read(bytes);
  return reader.texts();
}

/** Passes the pieces on as they come, and tells their text when the stream is over, however it ended. */
async function* tapStream(route: Call['route'], chunks: ChunkStream, onEnd: (texts: readonly string[]) => void): ChunkStream {
  const reader = createChunkReader(route);
  try {
    for (;;) {
      const step = await chunks.next();
      if (step.done) return step.value;
      reader.read(step.value.bytes);
      yield step.value;
    }
  } finally {
    await chunks.return({ kind: 'whole' });
    onEnd(reader.texts());
  }
}

interface BufferedStream {
  readonly texts: readonly string[];
  /** The stream once more: the same pieces, the same end, the same error. */
  replay(): ChunkStream;
}

async function bufferStream(route: Call['route'], chunks: ChunkStream): Promise<BufferedStream> {
  const reader = createChunkReader(route);
  const buffered: StreamChunk[] = [];
  let bufferedBytes = 0;
  let end: StreamEnd | null = null;
  let failure: VendorError | null = null;
  try {
    while (end === null) {
      const step = await chunks.next();
      if (step.done) end = step.value;
      else {
        reader.read(step.value.bytes);
        buffered.push(step.value);
        bufferedBytes += step.value.bytes.length;
        if (bufferedBytes > maxBufferedBytes)
          end = { kind: 'broken', message: 'the answer is too large to be checked', errorForwarded: false };
      }
    }
  } catch (error) {
    // The caller left: whoever replays the stream settles it.
    if (!(error instanceof VendorError)) throw error;
    failure = error;
  } finally {
    await chunks.return({ kind: 'whole' });
  }
  // What has not been read to its end has not been checked.
  const checked = bufferedBytes > maxBufferedBytes ? [] : buffered;

  async function* replay(): ChunkStream {
    yield* checked;
    if (failure) throw failure;
    return end ?? { kind: 'whole' };
  }
  return { texts: reader.texts(), replay };
}

/** Reads the texts of pieces, each of which holds whole events. */
function createChunkReader(route: Call['route']) {
  const texts = createStreamTexts(route);
  const parser = createSseParser(maxBufferedBytes);
  return {
    read(bytes: Buffer): void {
      for (const event of parser.push(bytes).events) texts.read(event);
    },
    texts(): string[] {
      for (const event of parser.end().events) texts.read(event);
      return texts.texts();
    },
  };
}
