/**
 * `/provision` manages projects and everything in them, the catalog, and leases. It requires the admin token, and the
 * command line uses it. We check the token first, so that unauthenticated callers can't find out which projects exist
 * or what a body has to contain.
 */
import type { RequestParamHandler, Router } from 'express';
import express from 'express';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { Batches } from '../../memory/learning/batches.ts';
import type { Audit } from '../../people/audit.ts';
import type { ChangeRecorder } from '../../people/record-change.ts';
import { readJson, rejectNullCharacters, requireToken } from '../admin.ts';
import { PlainTextError } from '../plain-text-error.ts';
import { addAuditRoutes } from './provision/audit-routes.ts';
import { addBatchRoutes } from './provision/batch-routes.ts';
import { addCatalogRoutes, type CatalogRouteDeps, maxCatalogBytes } from './provision/catalog-routes.ts';
import { addEndUserRoutes, type EndUserRouteDeps } from './provision/end-user-routes.ts';
import { addKeyRoutes, type KeyRouteDeps } from './provision/key-routes.ts';
import { addLeaseRoutes, type LeaseRouteDeps } from './provision/lease-routes.ts';
import { addMemoryTransferRoutes, type MemoryTransferRouteDeps } from './provision/memory-routes.ts';
import { addPeopleRoutes, type PeopleRouteDeps } from './provision/people-routes.ts';
import { addQuarantineRoutes, type QuarantineRouteDeps } from './provision/quarantine-routes.ts';
import { addRefusedCallRoutes, type RefusedCallRouteDeps } from './provision/refused-call-routes.ts';
import { addReportRoutes, type ReportRouteDeps } from './provision/report-routes.ts';
import { createResponders } from './provision/responders.ts';
import { addSettingsRoutes, type SettingsRouteDeps } from './provision/settings-routes.ts';
import { addStatusRoutes, type StatusRouteDeps } from './provision/status-routes.ts';

export interface ProvisionRouteDeps
  extends SettingsRouteDeps,
    KeyRouteDeps,
    ReportRouteDeps,
    RefusedCallRouteDeps,
    EndUserRouteDeps,
    PeopleRouteDeps,
    MemoryTransferRouteDeps,
    StatusRouteDeps,
    Omit<QuarantineRouteDeps, 'projects'> {
  readonly batches: Batches;
  readonly leases: LeaseRouteDeps;
  readonly catalog: CatalogRouteDeps;
  readonly audit: Audit;
  readonly logger: ChangeRecorder['logger'];
  /**
   * Returns all admin tokens that we accept. This is called for each request, because a reload of the configuration can
   * change them.
   */
  readonly adminTokens: () => readonly string[];
}

const maxSettingsBytes = 1024 * 1024;

/** This runs before the route's handler, so an invalid id is rejected before the audit row is written. */
const requireUuid: RequestParamHandler = (_request, _response, next, value, name) => {
  next(isUuid(value) ? undefined : new PlainTextError(400, `${name}: must be a UUID`));
};

/**
 * If a client forgets to encode a `?` in one of these names, the path ends there, and we'd change or show something
 * else. None of their routes has query parameters, so we can reject all of them.
 */
const rejectQuery: RequestParamHandler = ({ originalUrl }, _response, next, _value, name) => {
  const message = `${name}: this URL takes no query parameters; a question mark in the name is %3F`;
  next(originalUrl.includes('?') ? gatewayError('bad_request', { message }) : undefined);
};

export function createProvisionRoutes(deps: ProvisionRouteDeps): Router {
  const router = express.Router({ caseSensitive: true });
  const responders = createResponders(router, { projects: deps.projects, audit: deps.audit, logger: deps.logger });
  router.use(requireToken(deps.adminTokens));
  for (const name of ['id', 'process']) router.param(name, requireUuid);
  for (const name of ['source', 'email', 'subject']) router.param(name, rejectQuery);
  router.use(rejectNullCharacters);
  // The catalog and memory transfer routes accept larger bodies, so they have to come before the general `readJson`.
  router.put('/catalog', readJson(maxCatalogBytes, deps.adminTokens));
  addCatalogRoutes(responders, deps.catalog);
  addMemoryTransferRoutes(responders, deps);
  router.use(readJson(maxSettingsBytes, deps.adminTokens));
  addSettingsRoutes(responders, deps);
  addKeyRoutes(responders, deps);
  addBatchRoutes(responders, deps.batches);
  addReportRoutes(responders, deps);
  addRefusedCallRoutes(responders, deps);
  addEndUserRoutes(responders, deps);
  addLeaseRoutes(responders, deps.leases);
  addQuarantineRoutes(responders, deps);
  addPeopleRoutes(responders, deps);
  addAuditRoutes(responders, deps);
  addStatusRoutes(responders, deps);
  return router;
}
