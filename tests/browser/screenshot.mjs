// Pictures of a report, to look at. Usage: screenshot.mjs BROWSER REPORT.html OUT.png [WIDTH] [light|dark|print] [TOP HEIGHT]
import {writeFileSync} from "node:fs";
import {resolve} from "node:path";
import {pathToFileURL} from "node:url";
import {Browser, until} from "./browser.mjs";

const [executable, report, out, width = "1000", scheme = "light", top = "0", part] = process.argv.slice(2);
const browser = new Browser(executable);
try {
  const page = await browser.open(pathToFileURL(resolve(report)).href,
                                  {width: Number(width), scheme, phone: Number(width) < 600});
  const ready = "((c) => !c || c.split('/')[0] === c.split('/')[1])(document.documentElement.dataset.charts)";
  await until(() => page.evaluate(ready), 20000);
  const height = await page.evaluate("document.documentElement.scrollHeight");
  const shot = await page.send("Page.captureScreenshot", {
    captureBeyondViewport: true,
    clip: {x: 0, y: Number(top), width: Number(width), height: Number(part ?? height), scale: 1},
  });
  writeFileSync(out, Buffer.from(shot.data, "base64"));
} finally {
  await browser.close();
}
