/**
 * Checks a large body and collects facts about it. This can take up to a second, so it runs in the low-priority thread.
 */
import { isPromptRoute, type TextRoute } from '../../core/call.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import type { BodyFacts } from '../json/body-facts.ts';
import { bodyKeys, hidesAscii, scanJson } from '../json/body-members.ts';
import { digestParameters } from '../json/parameter-digest.ts';
import { countLeastTokens } from '../prompt/least-tokens.ts';
import { findAddedTools } from './added-tools.ts';
import { measureInput } from './input-size.ts';
import { countMedia, mentionsCacheControl, refersElsewhere } from './outside-input.ts';
import { readRequestTexts } from './rule-texts.ts';

export interface BodyUse {
  readonly route: TextRoute;
  /** True if the response cache is going to be checked, which needs a digest of the body. */
  readonly isCached: boolean;
  readonly hasRules: boolean;
}

/**
 * Throws `bad_json` if the body isn't valid JSON. If content rules have to check the body, repeated keys are rejected
 * as well.
 */
export function inspectBody(
  body: Buffer,
  { route, isCached, hasRules }: BodyUse,
): { readonly spans: BodySpans; readonly facts: BodyFacts } {
  const spans = scanJson(body, bodyKeys);
  const facts = {
    size: measureInput(body),
    leastTokens: countLeastTokens(body, Number.POSITIVE_INFINITY),
    hidesAscii: hidesAscii(body),
    refersElsewhere: refersElsewhere(body, route),
    media: isPromptRoute(route) ? 0 : countMedia(body, route),
    mentionsCacheControl: mentionsCacheControl(body),
    addedTools: isPromptRoute(route) ? findAddedTools(body) : null,
    digest: isCached ? digestParameters(body, spans) : null,
    texts: hasRules ? readRequestTexts(body) : null,
  };
  return { spans, facts };
}
