/**
 * Parses OpenTelemetry's standard variables. They have no effect without an endpoint, so we don't validate them in this
 * case.
 */

import { trimEnd } from '../core/trim.ts';
import type { TracingConfig } from './config.ts';
import type { VariableName } from './variables.ts';

type GetText = (name: VariableName) => string | null;

const samplers: Readonly<Record<string, { readonly ratio: number | null; readonly followsParent: boolean }>> = {
  always_on: { ratio: 1, followsParent: false },
  always_off: { ratio: 0, followsParent: false },
  traceidratio: { ratio: null, followsParent: false },
  parentbased_always_on: { ratio: 1, followsParent: true },
  parentbased_always_off: { ratio: 0, followsParent: true },
  parentbased_traceidratio: { ratio: null, followsParent: true },
};

/** Returns null if traces are turned off. Headers often contain credentials, so `errors` doesn't quote their values. */
export function parseTracing(getText: GetText, errors: string[]): TracingConfig | null {
  const exporter = getText('OTEL_TRACES_EXPORTER')?.toLowerCase() ?? 'otlp';
  if (getText('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' || exporter === 'none') return null;
  const url = parseUrl(getText, errors);
  if (url === null) return null;
  if (exporter !== 'otlp') errors.push('OTEL_TRACES_EXPORTER: must be otlp or none');
  const [protocolName, protocol] = getForTraces(getText, 'PROTOCOL');
  if (protocol !== null && protocol !== 'http/protobuf') errors.push(`${protocolName}: must be http/protobuf`);
  const [timeoutName, timeout] = getForTraces(getText, 'TIMEOUT');
  if (timeout !== null && !/^[1-9]\d{0,6}$/.test(timeout))
    errors.push(`${timeoutName}: must be a whole number of milliseconds, at least 1`);
  const headers = { ...parsePairs('OTEL_EXPORTER_OTLP_HEADERS'), ...parsePairs('OTEL_EXPORTER_OTLP_TRACES_HEADERS') };
  const resource = parsePairs('OTEL_RESOURCE_ATTRIBUTES');
  const serviceName = getText('OTEL_SERVICE_NAME') ?? resource['service.name'] ?? 'model-gateway';
  return {
    url,
    headers,
    timeoutMs: Number(timeout ?? 10_000),
    resource: { ...resource, 'service.name': serviceName },
    sampler: parseSampler(getText, errors),
  };

  function parsePairs(name: VariableName): Record<string, string> {
    const text = getText(name);
    if (text === null) return {};
    const pairs = text.split(',').map((pair) => /^\s*([!#$%&'*+.^_`|~\w-]+)\s*=(.*)$/.exec(pair));
    try {
      return Object.fromEntries(
        pairs.map((pair) => {
          if (pair === null) throw new URIError();
          return [pair[1] ?? '', decodeURIComponent((pair[2] ?? '').trim())];
        }),
      );
    } catch {
      errors.push(`${name}: must be name=value pairs separated by commas, with percent-encoded values`);
      return {};
    }
  }
}

/**
 * OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is a complete address. OTEL_EXPORTER_OTLP_ENDPOINT is a base address, to which the
 * path for traces is appended.
 */
function parseUrl(getText: GetText, errors: string[]): string | null {
  const [name, text] = getForTraces(getText, 'ENDPOINT');
  if (text === null) return null;
  if (!/^https?:\/\/[^\s]+$/.test(text) || !URL.canParse(text)) {
    errors.push(`${name}: must be an address like http://localhost:4318`);
    return null;
  }
  return name.endsWith('_TRACES_ENDPOINT') ? text : `${trimEnd(text, '/')}/v1/traces`;
}

function parseSampler(getText: GetText, errors: string[]): TracingConfig['sampler'] {
  const name = getText('OTEL_TRACES_SAMPLER')?.toLowerCase() ?? 'parentbased_always_on';
  const sampler = Object.hasOwn(samplers, name) ? samplers[name] : undefined;
  if (!sampler) errors.push(`OTEL_TRACES_SAMPLER: must be one of ${Object.keys(samplers).join(', ')}`);
  const { ratio = 1, followsParent = true } = sampler ?? {};
  if (ratio !== null) return { ratio, followsParent };
  const text = getText('OTEL_TRACES_SAMPLER_ARG') ?? '1';
  const isRatio = /^(?:\d+(?:\.\d*)?|\.\d+)$/.test(text) && Number(text) <= 1;
  if (!isRatio) errors.push('OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1');
  return { ratio: isRatio ? Number(text) : 1, followsParent };
}

/**
 * Returns the variable for this setting and its value. `OTEL_EXPORTER_OTLP_TRACES_*` takes precedence over the general
 * `OTEL_EXPORTER_OTLP_*`.
 */
function getForTraces(getText: GetText, name: 'ENDPOINT' | 'PROTOCOL' | 'TIMEOUT'): [VariableName, string | null] {
  const [forTraces, forAll] = [`OTEL_EXPORTER_OTLP_TRACES_${name}`, `OTEL_EXPORTER_OTLP_${name}`] as const;
  const value = getText(forTraces);
  return value === null ? [forAll, getText(forAll)] : [forTraces, value];
}
