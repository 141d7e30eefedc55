// A headless Chromium driven over its DevTools pipe, with nothing but Node itself.
import {spawn} from "node:child_process";
import {mkdtempSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";

export class Browser {
  #child;
  #profile;
  #next = 1;
  #waiting = new Map();
  #listeners = new Set();
  #rest = "";
  #gone = null;

  constructor(executable) {
    this.#profile = mkdtempSync(join(tmpdir(), "kvphase-browser-"));
    this.#child = spawn(executable, [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
      "--user-data-dir=" + this.#profile,
    ], {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
    this.#child.on("error", (error) => this.#fail(error));
    this.#child.on("exit", (code) => this.#fail(new Error("the browser ended, code " + code)));
    this.#child.stdio[3].on("error", (error) => this.#fail(error));
    this.#child.stdio[4].on("data", (data) => this.#receive(data));
  }

  #fail(error) {
    this.#gone = error;
    for (const {reject} of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #receive(data) {
    const parts = (this.#rest + data).split("\0");
    this.#rest = parts.pop();
    for (const part of parts) {
      const message = JSON.parse(part);
      if (message.id === undefined) {
        for (const listener of this.#listeners) listener(message);
        continue;
      }
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error) waiting?.reject(new Error(waiting.method + ": " + message.error.message));
      else waiting?.resolve(message.result);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    if (this.#gone) return Promise.reject(this.#gone);
    const id = this.#next++;
    this.#child.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + "\0");
    return new Promise((resolve, reject) => this.#waiting.set(id, {resolve, reject, method}));
  }

  // A fresh tab of that size and colour scheme ("print": on paper, from a dark screen); `events` collects everything it reports.
  async open(url, {width, height = 1000, scheme = "light", phone = false}) {
    const {targetId} = await this.send("Target.createTarget", {url: "about:blank"});
    const {sessionId} = await this.send("Target.attachToTarget", {targetId, flatten: true});
    const events = [];
    const listener = (message) => {
      if (message.sessionId === sessionId) events.push(message);
    };
    this.#listeners.add(listener);
    const send = (method, params) => this.send(method, params, sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(domain + ".enable");
    await send("Emulation.setDeviceMetricsOverride",
               {width, height, deviceScaleFactor: phone ? 2 : 1, mobile: phone});
    await send("Emulation.setEmulatedMedia",
               {media: scheme === "print" ? "print" : "",
                features: [{name: "prefers-color-scheme", value: scheme === "print" ? "dark" : scheme}]});
    await send("Page.navigate", {url});
    const evaluate = async (expression) => {
      const answer = await send("Runtime.evaluate",
                                {expression, returnByValue: true, awaitPromise: true});
      if (answer.exceptionDetails) throw new Error(JSON.stringify(answer.exceptionDetails));
      return answer.result.value;
    };
    const loaded = "location.href === " + JSON.stringify(url) + " && document.readyState === 'complete'";
    if (!await until(() => evaluate(loaded).catch(() => false), 30000)) {
      throw new Error("the page did not load in 30 s: " + url);
    }
    const close = async () => {
      this.#listeners.delete(listener);
      await this.send("Target.closeTarget", {targetId});
    };
    return {send, evaluate, events, close};
  }

  async close() {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    await this.send("Browser.close").catch(() => {});
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 5000))]);
    this.#child.kill("SIGKILL");
    rmSync(this.#profile, {recursive: true, force: true, maxRetries: 5});
  }
}

// Polls until test() is true; false when the time is over.
export async function until(test, milliseconds) {
  for (const end = Date.now() + milliseconds; Date.now() < end;) {
    if (await test()) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}
