/**
 * Describes the service at `/`. Clients and load balancers request this without a key to check whether the service is
 * up.
 */
import type { Request, Response } from 'express';
import { sendJson } from '../error-handler.ts';
import { apiVersion } from '../openapi.ts';

export function sendRoot(_request: Request, response: Response): void {
  const links = { models: '/v1/models', description: '/openapi.json', health: '/healthz', console: '/console' };
  sendJson(response, 200, { name: 'model-gateway', version: apiVersion, links });
}
