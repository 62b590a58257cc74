/** `GET /openapi.json`: the interface description, for everybody. */
import type { Request, Response } from 'express';
import { sendJson } from '../error-handler.ts';
import { describeApi } from '../openapi.ts';

export function createOpenApiRoute() {
  let document: unknown;
  return function openApiRoute(_request: Request, response: Response): void {
    // Made when it is first asked for: most processes never are.
    document ??= describeApi();
    sendJson(response, 200, document);
  };
}
