/** Scans a request body and reports invalid JSON to the caller. */
import { gatewayError } from '../../core/errors.ts';
import { type BodySpans, type SkipMember, scanObject } from '../../core/json/spans.ts';
import { JsonSyntaxError } from '../../core/json/syntax.ts';

/** Returns the positions of the members `keys` of a JSON body. Throws `bad_json` if the body isn't valid JSON. */
export function scanJson(body: Buffer, keys: ReadonlySet<string>, skip?: SkipMember): BodySpans {
  try {
    return scanObject(body, keys, skip);
  } catch (error) {
    if (error instanceof JsonSyntaxError)
      throw gatewayError('bad_json', { message: `the body is not valid JSON: ${error.message}`, cause: error });
    throw error;
  }
}
