/** Explains how to make the first call. We show this for projects that don't have any calls yet. */
import { codeBlock, emptyState } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';

export function firstCall(context: ConsoleContext): Html {
  const { url, project } = context;
  const curl = `curl ${url.origin}/v1/chat/completions \\
  -H 'Authorization: Bearer <VIRTUAL_KEY>' \\
  -H 'Content-Type: application/json' \\
  -d '{"model": "auto", "messages": [{"role": "user", "content": "Hello"}]}'`;
  return html`${emptyState(
    `No calls in ${project.name} yet`,
    'Send one with a virtual key of the project, or from the playground. Spend, latency and errors appear here with the first call.',
    html`<div class="actions"><a class="button primary" href="${projectPath(context, '/keys')}">Get a key</a><a class="button" href="${projectPath(context, '/playground')}">Open the playground</a></div>`,
  )}${codeBlock(curl, 'A first call with curl')}`;
}
