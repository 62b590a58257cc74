/**
 * Learns which providers have the route `/responses`, where the configuration does not say it: the route is tried, and a provider that does
 * not have it gets the translated request, at once and with further calls. It is tried again after an hour.
 */
import type { Candidate } from '../../core/candidate.ts';
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';

/** How a request of responses is sent. */
export type ResponsesForm = 'native' | 'translated';

const retryMs = 3_600_000;

export function createResponsesRoutes(clock: Clock) {
  /** By provider: when its route was found missing. */
  const missing = new Map<string, number>();

  const isMissing = (provider: string): boolean => clock.now() - (missing.get(provider) ?? Number.NEGATIVE_INFINITY) < retryMs;

  return {
    /** Sends a call of responses to a candidate, in one attempt, or in two when its provider turns out to lack the route. */
    async attempt<Response>(
      { provider, responses = 'native' }: Candidate,
      waitMs: number,
      send: (form: ResponsesForm, waitMs: number) => Promise<Response>,
    ): Promise<Response> {
      if (responses !== 'unknown') return send(responses, waitMs);
      if (isMissing(provider)) return send('translated', waitMs);
      try {
        return await send('native', waitMs);
      } catch (error) {
        if (!(error instanceof VendorError && lacksRoute(error))) throw error;
        const response = await send('translated', 0);
        missing.set(provider, clock.now());
        return response;
      }
    },
  };
}

/** Whether the vendor does not know the path; a 404 about a model says so. */
function lacksRoute({ kind, status, vendorMessage, report }: VendorError): boolean {
  if (kind !== 'status' || report.code === 'model_not_found') return false;
  return status === 405 || status === 501 || (status === 404 && !/\bmodel\b/i.test(vendorMessage ?? ''));
}
