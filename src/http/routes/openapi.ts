/** `GET /openapi.json`: the API description, without authentication. */
import type { Request, Response } from 'express';
import { sendJson } from '../error-handler.ts';
import { describeApi } from '../openapi.ts';

export function createOpenApiRoute() {
  let document: unknown;
  return function openApiRoute(_request: Request, response: Response): void {
    // Generated on first use: most processes never need it.
    document ??= describeApi();
    sendJson(response, 200, document);
  };
}
