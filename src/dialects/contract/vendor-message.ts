/** What a vendor says in the body of an error, in any of the forms in which the vendors of the text routes say it (vendor facts 1.2, 2, 4). Pure. */
import { asObject, asString, parseJson } from '../../core/json/narrow.ts';

/** The `error` object of OpenAI and Anthropic, its bare text, and the plainer forms of the rerank vendors and of servers; null: there is none. */
export function parseVendorMessage(bytes: Buffer): string | null {
  const body = asObject(parseJson(bytes.toString('utf8')));
  return asString(asObject(body.error).message) ?? asString(body.error) ?? asString(body.message) ?? asString(body.detail);
}
