# Image of the gateway: sources and production dependencies. Node runs TypeScript directly; the workflow bundle is built, and what Node compiles is kept.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /gateway
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 GATEWAY_DATA_DIR=/data
WORKDIR /gateway
# The journal is in /data: mount a volume there, or calls that are not yet in the database are lost with the container.
RUN install --directory --owner=node --group=node /data
COPY --from=dependencies /gateway/node_modules ./node_modules
COPY package.json LICENSE ./
COPY src ./src
COPY workflows ./workflows
COPY activities ./activities
# Built once here, so that workers start without building it.
RUN node --input-type=module --eval "const { prepareWorkflowBundle } = await import('/gateway/src/jobs/worker/workflow-bundle.ts'); \
      await prepareWorkflowBundle({ dataDir: '/gateway/workflow-bundle', logger: console })" \
    && chmod -R a+rX workflow-bundle
RUN install --directory --owner=node --group=node compiled
USER node
# What Node compiles at a start, half of its time. Node keeps it per user.
ENV NODE_COMPILE_CACHE=/gateway/compiled
RUN node --input-type=module --eval "for (const file of ['service', 'app', 'app/api', 'app/console', 'app/durable-work']) \
      await import('/gateway/src/' + file + '.ts')"
VOLUME /data
EXPOSE 8080
# Without npm, which does not forward all signals to Node. The flag saves 6 % of the CPU time of a call and takes 9 MB of memory.
ENTRYPOINT ["node", "--min-semi-space-size=16", "src/main.ts"]
CMD ["serve"]
