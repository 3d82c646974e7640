/** Writes the modules of `src` to `dist`, and to `dist/commonjs` for what cannot `require` ES modules, such as Jest and Node
 * before 20.19; tsc has checked them and written their types.
 *
 * As CommonJS, tsc itself would also turn `import("jose")` into a `require`, and jose is an ES module. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import ts from "typescript";

const compilerOptions = { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, removeComments: true };

mkdirSync("dist/commonjs", { recursive: true });
writeFileSync("dist/commonjs/package.json", '{"type":"commonjs"}\n');
for (const source of readdirSync("src").filter((name) => name.endsWith(".ts"))) {
  const name = source.slice(0, -".ts".length);
  const text = readFileSync(`src/${source}`, "utf8");
  for (const [place, kind] of [["dist", "mts"], ["dist/commonjs", "cts"]]) {
    const { outputText } = ts.transpileModule(text, { fileName: `${name}.${kind}`, compilerOptions });
    writeFileSync(`${place}/${name}.js`, outputText);
  }
}
