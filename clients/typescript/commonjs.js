/** Writes `dist/commonjs`: the modules of `dist` for what cannot `require` ES modules, such as Jest and Node before 20.19.
 *
 * tsc itself would also turn `import("jose")` into a `require`, and jose is an ES module. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import ts from "typescript";

const compilerOptions = { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022 };

mkdirSync("dist/commonjs", { recursive: true });
writeFileSync("dist/commonjs/package.json", '{"type":"commonjs"}\n');
for (const name of readdirSync("dist").filter((name) => name.endsWith(".js"))) {
  const { outputText } = ts.transpileModule(readFileSync(`dist/${name}`, "utf8"), { fileName: name.replace("js", "cts"), compilerOptions });
  writeFileSync(`dist/commonjs/${name}`, outputText);
}
