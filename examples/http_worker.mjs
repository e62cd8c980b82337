// A worker in Node 18 or later, without packages:
//
//     GO_SCHEDULER_TOKEN=… node examples/http_worker.mjs http://127.0.0.1:8710 default,mail
//
// At SIGTERM it takes no more, and ends once what runs is reported; a second signal ends
// it at once. What it had then runs again elsewhere, once its lease is over.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const [server = "http://127.0.0.1:8710", queues = "default"] = process.argv.slice(2);
const MOST = 8; // runs at once
const headers = { "Content-Type": "application/json" };
if (process.env.GO_SCHEDULER_TOKEN)
  headers.Authorization = `Bearer ${process.env.GO_SCHEDULER_TOKEN}`;

// Your work. What it returns is the result; what it throws is the error, by which the
// definition's retry decides. `signal` is aborted once the run is cancelled or lost.
async function handle(work, { signal, progress, extend }) {
  const { steps = 1, seconds = 0, extend: more } = work.payload ?? {};
  if (!(steps > 0)) throw new Error(`steps must be above zero: ${steps}`);
  if (more) await extend(more); // before what blocks the event loop, and so heartbeats
  for (let done = 1; done <= steps; done++) {
    await sleep(seconds * 1000, undefined, { signal });
    await progress({ done, of: steps });
  }
  return { type: work.type, steps };
}

let stopping = false;
let polling = null;
for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => {
    stopping = true;
    polling?.abort();
  });

// The answer's status and body. Status 503: the server is away, or cannot be reached.
async function tell(work, what, body = {}) {
  try {
    const url = `${server}/v1/work/${work.instance_id}/${what}`;
    const text = JSON.stringify({ token: work.token, ...body });
    const signal = AbortSignal.timeout(Math.ceil((work.lease * 1000) / 3));
    const answer = await fetch(url, { method: "POST", headers, body: text, signal });
    return { status: answer.status, ...(await answer.json()) };
  } catch (error) {
    return { status: 503, detail: String(error.cause ?? error) };
  }
}

async function haveDone(work) {
  if (stopping) return tell(work, "release");
  const ending = new AbortController();
  let asked = Promise.resolve(); // one request after another, and the report last
  const keep = (what, body) =>
    (asked = asked.then(async () => {
      const { status, answer } = await tell(work, what, body);
      // Other errors, such as 503, are for the next heartbeat.
      if (answer === "stop" || [403, 404, 409].includes(status)) ending.abort();
    }));
  const beats = setInterval(keep, (work.lease * 1000) / 3, "heartbeat");
  const run = {
    signal: ending.signal,
    progress: (value) => keep("heartbeat", { progress: value }),
    extend: (seconds) => keep("extend", { seconds }),
  };
  let report;
  try {
    report = ["complete", { result: (await handle(work, run)) ?? null }];
  } catch (error) {
    report = ["error", { message: String(error?.stack ?? error) }];
  }
  await asked;
  for (let pause = 1; pause < 1000; pause *= 2) {
    const { status, detail } = await tell(work, ...report);
    if (status !== 429 && status < 500) {
      if (status !== 200) console.error(`${work.instance_id} is not recorded: ${detail}`);
      break;
    }
    await sleep(pause * 1000);
  }
  clearInterval(beats);
}

const running = new Set();
while (!stopping) {
  const worker = `${hostname()} ${process.pid}`;
  const query = new URLSearchParams({ queues, worker, wait: 30, max: MOST - running.size });
  try {
    polling = new AbortController();
    const { signal } = polling;
    const answer = await fetch(`${server}/v1/work?${query}`, { headers, signal });
    polling = null; // what has been handed out is not hung up on
    if (answer.status === 401 || answer.status === 403) {
      console.error((await answer.json()).detail);
      process.exitCode = 1;
      break;
    }
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    for (const work of answer.status === 204 ? [] : (await answer.json()).work) {
      const run = haveDone(work).finally(() => running.delete(run));
      running.add(run);
    }
  } catch (error) {
    if (stopping) break;
    console.error(`no work at the moment: ${error.cause ?? error}`);
    await sleep(1000);
  }
  while (running.size >= MOST) await Promise.race(running);
}
await Promise.all(running);
