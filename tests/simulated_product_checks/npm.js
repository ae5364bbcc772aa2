// A stranger that locks with the real proper-lockfile: `node npm.js NAME ARGS…`. Imports nothing of ours.
"use strict";
const fs = require("fs");
const lockfile = require("proper-lockfile");

const say = (text) => fs.writeSync(1, `${text}\n`);
const patience = { retries: 100000, factor: 1, minTimeout: 1, maxTimeout: 4, randomize: true };
const options = (stale) => ({
  realpath: false,
  stale: Number(stale),
  update: 1000,
  retries: patience,
  onCompromised: (problem) => say(`compromised ${problem.code}`),
});

// Add 1 to the number in a file, again and again; every hold is logged. TIMES 0: until killed.
async function count(file, log, times, stale) {
  for (let n = 0; times === "0" || n < Number(times); n += 1) {
    const release = await lockfile.lock(file, options(stale));
    const id = `npm${process.pid}-${n}`;
    fs.appendFileSync(log, `enter ${id}\n`);
    const next = Number(fs.readFileSync(file, "utf8")) + 1;
    fs.writeFileSync(`${file}.npm`, String(next));
    fs.renameSync(`${file}.npm`, file);
    fs.appendFileSync(log, `leave ${id}\n`);
    await release().catch((problem) => say(`release ${problem.code}`));
    say(n);
  }
}

// Append numbered entries to an inbox: `truncate` writes in place as older versions do, `rename` as newer ones.
async function append(file, name, times, habit) {
  for (let n = 0; times === "0" || n < Number(times); n += 1) {
    const release = await lockfile.lock(file, options(10000));
    const entries = JSON.parse(fs.readFileSync(file, "utf8"));
    entries.push({ from: name, text: String(n), timestamp: new Date().toISOString(), read: false });
    const content = JSON.stringify(entries, null, 2);
    if (habit === "truncate") fs.writeFileSync(file, content);
    else {
      fs.writeFileSync(`${file}.tmp.0badcafe`, content);
      fs.renameSync(`${file}.tmp.0badcafe`, file);
    }
    await release();
    say(n);
  }
}

// Take the lock, say so, say `fresh` whenever its time was set anew, and obey lines on stdin: `release`, or the end.
async function hold(file, stale) {
  const utimes = (path, one, two, done) =>
    fs.utimes(path, one, two, (problem) => {
      done(problem);
      if (!problem) say("fresh");
    });
  const watched = { ...options(stale), fs: { ...fs, utimes } };
  await (await lockfile.lock(`${file}.warm`, watched))(); // the first lock of a process is given an odd time
  const release = await lockfile.lock(file, watched);
  say("inside");
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    if (line !== "release") break;
    await release().then(() => say("released"), (problem) => say(problem.code));
  }
}

const [name, ...rest] = process.argv.slice(2);
({ count, append, hold })[name](...rest).catch((problem) => {
  say(`failed ${problem.code} ${problem.message}`);
  process.exit(1);
});
