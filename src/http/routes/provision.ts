/**
 * `/provision` manages projects and everything that belongs to them, the catalog, and leases. It requires the admin
 * token, and the command line uses it. We check the token first, so that unauthenticated callers can't find out which
 * projects exist or what a body has to contain.
 */
import type { RequestParamHandler, Router } from 'express';
import express from 'express';
import { isUuid } from '../../core/ids.ts';
import type { Keyring } from '../../keys/keyring.ts';
import type { Batches } from '../../memory/learning/batches.ts';
import type { Audit } from '../../people/audit.ts';
import type { ChangeRecorder } from '../../people/record-change.ts';
import { readJson, rejectNullCharacters, requireToken } from '../admin.ts';
import { PlainTextError } from '../plain-text-error.ts';
import { addAuditRoutes } from './provision/audit-routes.ts';
import { addBatchRoutes } from './provision/batch-routes.ts';
import { addCatalogRoutes, type CatalogRouteDeps } from './provision/catalog-routes.ts';
import { addKeyRoutes } from './provision/key-routes.ts';
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
    ReportRouteDeps,
    RefusedCallRouteDeps,
    PeopleRouteDeps,
    MemoryTransferRouteDeps,
    StatusRouteDeps,
    Omit<QuarantineRouteDeps, 'projects'> {
  readonly keyring: Keyring;
  readonly batches: Batches;
  readonly leases: LeaseRouteDeps;
  readonly catalog: CatalogRouteDeps;
  readonly audit: Audit;
  readonly logger: ChangeRecorder['logger'];
  /** Any of these tokens is valid. We call this for each request, because a reload can replace them. */
  readonly adminTokens: () => readonly string[];
}

const maxSettingsBytes = 1024 * 1024;

/** Checks ids in the path before a change writes its audit row. */
const requireUuid: RequestParamHandler = (_request, _response, next, value, name) => {
  next(isUuid(value) ? undefined : new PlainTextError(400, `${name}: must be a UUID`));
};

export function createProvisionRoutes(deps: ProvisionRouteDeps): Router {
  const router = express.Router();
  const responders = createResponders({ projects: deps.projects, audit: deps.audit, logger: deps.logger });
  router.use(requireToken(deps.adminTokens));
  for (const name of ['id', 'process']) router.param(name, requireUuid);
  router.use(rejectNullCharacters);
  // These routes have larger bodies, so they come before the limit for the other routes.
  addCatalogRoutes(router, responders, deps.catalog);
  addMemoryTransferRoutes(router, responders, deps);
  router.use(readJson(maxSettingsBytes));
  addSettingsRoutes(router, responders, deps);
  addKeyRoutes(router, responders, deps.keyring);
  addBatchRoutes(router, responders, deps.batches);
  addReportRoutes(router, responders, deps);
  addRefusedCallRoutes(router, responders, deps);
  addLeaseRoutes(router, responders, deps.leases);
  addQuarantineRoutes(router, responders, deps);
  addPeopleRoutes(router, responders, deps);
  addAuditRoutes(router, responders, deps);
  addStatusRoutes(router, responders, deps);
  return router;
}
