/**
 * Learns which providers have the route `/responses` if the configuration doesn't say. We try the route. If the
 * provider doesn't have it, we immediately send the translated request, and keep translating later calls. After an hour
 * we try the route again.
 */
import type { Candidate } from '../../core/candidate.ts';
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';

/** Says whether a request to `/v1/responses` is translated or sent unchanged. */
export type ResponsesForm = 'native' | 'translated';

const retryMs = 3_600_000;

export function createResponsesRoutes(clock: Clock) {
  /** Maps each provider that doesn't have the route to the time when we last found that out. */
  const missing = new Map<string, number>();

  const isMissing = (provider: string): boolean => clock.now() - (missing.get(provider) ?? Number.NEGATIVE_INFINITY) < retryMs;

  return {
    /**
     * Sends a call to a candidate. If it turns out that the provider doesn't have the route, we send the translated
     * request in a second attempt.
     */
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

/**
 * Returns true if the vendor doesn't know the path. We can tell such a 404 from one for an unknown model because the
 * latter mentions the model.
 */
function lacksRoute({ kind, status, vendorMessage, report }: VendorError): boolean {
  if (kind !== 'status' || report.code === 'model_not_found') return false;
  return status === 405 || status === 501 || (status === 404 && !/\bmodel\b/i.test(vendorMessage ?? ''));
}
