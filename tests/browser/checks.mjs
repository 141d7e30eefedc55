// What every check of a page needs: its arguments, a count of checks, and what no page may do.
import {accessSync, constants} from "node:fs";
import {Browser} from "./browser.mjs";

export const [executable, folder] = process.argv.slice(2);
try {
  accessSync(executable, constants.X_OK);
} catch {
  console.error(`expected Chromium, got '${executable}'; run ./setup, which installs it`);
  process.exit(2);
}

let failures = 0;
let checks = 0;
export function check(where, what, actual, expected) {
  ++checks;
  const [a, e] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a === e) return;
  ++failures;
  console.log(`${where}: expected ${what} ${e}, got ${a}`);
}

// A page writes nothing to the console and asks for nothing beside itself.
export function check_quiet(where, page, url) {
  const told = page.events.filter((e) =>
    ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].includes(e.method));
  check(where, "console messages", told.map((e) => e.params), []);
  const asked = page.events.filter((e) => e.method === "Network.requestWillBeSent")
    .map((e) => e.params.request.url).filter((u) => u !== url && !u.startsWith("data:"));
  check(where, "requests", asked, []);
}

// Runs `work` with a browser, then ends this process: 0 when all checks passed, else 1.
export async function run_checks(work) {
  const browser = new Browser(executable);
  try {
    await work(browser);
  } catch (error) {
    ++failures;
    console.log(error.stack);
  } finally {
    await browser.close();
  }
  console.log(`${checks} checks, ${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}
