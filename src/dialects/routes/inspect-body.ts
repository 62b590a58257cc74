/** The job that checks and searches a large body in the low-priority thread (`large-body.ts`). */
import type { TextRoute } from '../../core/call.ts';
import { type ErrorCode, GatewayError } from '../../core/errors.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import type { BodyFacts } from '../json/body-facts.ts';
import { bodyKeys, hidesAscii } from '../json/body-members.ts';
import { digestParameters } from '../json/parameter-digest.ts';
import { scanJson } from '../json/scan-body.ts';
import { countLeastTokens } from '../prompt/least-tokens.ts';
import { completionToChat } from '../translate/completions.ts';
import { measureInput } from './input-size.ts';
import { mentionsCacheControl, refersElsewhere } from './outside-input.ts';
import { readRequestTexts } from './rule-texts.ts';

export interface Inspection {
  readonly bytes: Uint8Array;
  readonly route: TextRoute;
  /** The body is one of the legacy completions, which is sent as a chat. */
  readonly isCompletion: boolean;
  /** The response cache needs the digest of the body. */
  readonly isCached: boolean;
  /** Content rules need its texts. */
  readonly hasRules: boolean;
}

export type Inspected =
  | { readonly bytes: Uint8Array; readonly spans: BodySpans; readonly facts: BodyFacts }
  | { readonly refused: { readonly code: ErrorCode; readonly message: string } };

export function inspectBody({ bytes, route, isCompletion, isCached, hasRules }: Inspection): Inspected {
  try {
    const received = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const body = isCompletion ? completionToChat(received) : received;
    const spans = scanJson(body, bodyKeys);
    const facts = {
      size: measureInput(body),
      leastTokens: countLeastTokens(body, Number.POSITIVE_INFINITY),
      hidesAscii: hidesAscii(body),
      refersElsewhere: refersElsewhere(body, route),
      mentionsCacheControl: mentionsCacheControl(body),
      digest: isCached ? digestParameters(body, spans) : null,
      texts: hasRules ? readRequestTexts(body) : null,
    };
    return { bytes: body, spans, facts };
  } catch (error) {
    // Only plain errors can be sent from thread to thread.
    if (error instanceof GatewayError) return { refused: { code: error.code, message: error.message } };
    throw error;
  }
}
