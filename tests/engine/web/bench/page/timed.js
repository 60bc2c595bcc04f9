// The clock of a page goes in steps of 5 microseconds: short runs are timed several together.
const LEAST_MS = 0.5;

/** Runs for about `ms`, at least once; returns the milliseconds of each run. */
export async function timed(run, ms) {
  const times = [];
  let begin = performance.now();
  const end = begin + ms;
  let together = 1;
  do {
    for (let i = 0; i < together; ++i) await run();
    const now = performance.now();
    if (now - begin < LEAST_MS) together *= 2;
    else times.push((now - begin) / together);
    begin = now;
  } while (begin < end || !times.length);
  return times;
}
