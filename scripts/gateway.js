#!/usr/bin/env node
/** Runs the service's command line, `gateway <command> …`. */
import { runMain } from './launch.js';

await runMain(process.argv.slice(2));
