import type { Route } from '../../core/call.ts';

export function explainSkip(reason: string, model: string, route: Route, lacks: readonly string[] = []): string {
  const provider = model.split('/', 1)[0];
  switch (reason) {
    case 'unknown_provider':
      return `No provider ${provider} is configured.`;
    case 'provider_not_in_project':
      return `The project may not use the provider ${provider}.`;
    case 'route_not_served':
      return `The provider ${provider} does not serve ${route}.`;
    case 'route_not_for_model':
      return `The catalog says that the model does not serve ${route}.`;
    case 'tags_missing':
      return `The provider ${provider} does not have the required tags: ${lacks.join(', ')}.`;
    case 'not_permitted_for_key':
      return 'The allow-list of the key does not contain the model.';
    case 'price_unknown':
      return 'A cost ceiling applies, and the model has no price.';
    case 'context_too_small':
      return 'The prompt is longer than the context window of the model.';
    default:
      return reason;
  }
}
