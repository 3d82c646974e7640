// Writes docs/reference.md from the comments of the library: node reference.js
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const CHAPTERS = {
  "Calling the API": ["client", "resources", "calls", "api_keys", "webhooks", "listing"],
  "Events as they happen": ["events", "streams"],
  "Ways to sign in": ["credentials"],
  "Signing users in by OAuth": ["oauth"],
  "Verifying tokens": ["verifier", "claims"],
  "Verifying deliveries of webhooks": ["verify_webhook"],
  "Options": ["transport", "environment"],
  "Retries": ["retries"],
  "What is sent and answered": ["models"],
  "Errors": ["errors"],
};
const HIDDEN = new Set([
  ...["Calls", "Requests", "Request", "Answer", "Send", "Given", "Addresses", "Particulars"],
  ...["read", "query", "at", "sender", "addresses", "authAddress", "variable"],
]);
const INTRODUCTION = `# Reference

Made by \`reference.js\` from the comments; do not edit it by hand. Everything is imported from \`@portico/client\`.
`;

/** The whole page. */
export function reference() {
  const chapters = Object.entries(CHAPTERS).map(([title, files]) => [`## ${title}\n`, ...files.flatMap(file)]);
  return [INTRODUCTION, ...chapters.flat()].join("\n");
}

function file(name) {
  const text = readFileSync(new URL(`src/${name}.ts`, import.meta.url), "utf8");
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.ES2022, true);
  const whole = /^\/\*\*[^]*?\*\//.exec(text)?.[0] ?? "";
  const shown = source.statements.filter((one) => (isExported(one) || ["Resources", "ByPassword"].includes(one.name?.text)) && !ts.isVariableStatement(one) && !HIDDEN.has(one.name?.text));
  return [...(text.startsWith("/**") && !text.startsWith(`${whole}\nexport`) ? [prose(whole)] : []), ...shown.flatMap(entry)];
}

const isExported = (node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false;

/** What stands at the top of a file, whose indented parts become blocks of code. */
function prose(comment) {
  const lines = words(comment).split("\n");
  const code = lines.findIndex((line) => line.startsWith("    "));
  if (code < 0) return `${lines.join("\n")}\n`;
  const end = lines.findIndex((line, place) => place > code && line === "");
  const drawn = lines.slice(code, end).map((line) => line.slice(4));
  return [...lines.slice(0, code), "```text", ...drawn, "```", ...lines.slice(end), ""].join("\n");
}

const words = (comment) =>
  comment
    .replace(/^\/\*\* ?|\s*\*\/$/g, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, ""))
    .join("\n")
    .trim();

function said(node) {
  const comment = ts.getJSDocCommentsAndTags(node).at(-1);
  return comment ? words(comment.getText()).replace(/^@internal ?/, "") : "";
}

function entry(node) {
  const name = node.name.text;
  if (ts.isFunctionDeclaration(node)) return [`### ${name}\n`, code(signature(node)), `${said(node)}\n`];
  if (ts.isTypeAliasDeclaration(node)) return [`**\`${name}\`**: ${said(node)}\n`];
  const fields = node.members.filter((one) => (ts.isPropertySignature(one) || ts.isPropertyDeclaration(one)) && isShown(one));
  const calls = node.members.filter((one) => (ts.isMethodDeclaration(one) || ts.isConstructorDeclaration(one)) && isShown(one) && said(one));
  const base = node.heritageClauses?.[0]?.types[0]?.expression.getText();
  if (name !== "APIError" && !fields.length && !calls.length) return [`**\`${name}\`**: ${said(node)}\n`];
  return [
    `### ${name}${ts.isClassDeclaration(node) && base && !base.startsWith("Async") ? ` (${base})` : ""}\n`,
    ...(said(node) ? [`${said(node)}\n`] : []),
    ...(fields.length ? [code(fields.map(field).join("\n"))] : []),
    ...calls.flatMap((one) => [code(signature(one, name)), `${said(one)}\n`]),
  ];
}

function isShown(node) {
  const hidden = node.modifiers?.some(({ kind }) =>
    [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword, ts.SyntaxKind.StaticKeyword].includes(kind),
  );
  return !hidden && !ts.isPrivateIdentifier(node.name ?? node) && !ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal");
}

function field(node) {
  const about = said(node);
  return `${about ? `/** ${about.replaceAll("\n", "\n *  ")} */\n` : ""}${node.getText().replace(/;$/, "").replace("readonly ", "")}`;
}

/** A declaration without its body. */
function signature(node, owner = "") {
  const text = node.getText().slice(0, node.body.getStart() - node.getStart()).trim();
  return text.replace(/^export /, "").replace(/^async |(?<= )async /, "").replace("constructor", `new ${owner}`);
}

const code = (text) => `\`\`\`ts\n${text}\n\`\`\`\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  mkdirSync(new URL("docs/", import.meta.url), { recursive: true });
  writeFileSync(new URL("docs/reference.md", import.meta.url), reference());
}
