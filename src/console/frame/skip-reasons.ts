import type { Route } from '../../core/call.ts';

export function explainSkip(reason: string, model: string, route: Route, lacks: readonly string[] = []): string {
  const provider = model.split('/', 1)[0];
  const texts: Readonly<Record<string, string>> = {
    unknown_provider: `No provider ${provider} is configured.`,
    provider_not_in_project: `The project may not use the provider ${provider}.`,
    route_not_served: `The provider ${provider} does not serve ${route}.`,
    route_not_for_model: `The catalog says that the model does not serve ${route}.`,
    tags_missing: `The provider ${provider} does not have the required tags: ${lacks.join(', ')}.`,
    not_permitted_for_key: 'The allow-list of the key does not contain the model.',
    price_unknown: 'A cost ceiling applies, and the model has no price.',
    context_too_small: 'The prompt is longer than the context window of the model.',
  };
  return texts[reason] ?? reason;
}
