// What both clients do, and tell.
const [url, key] = process.argv.slice(2);

export async function walk(client, Transport) {
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new Transport(new URL(url), { requestInit: { headers } }));
  const { tools } = await client.listTools();
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    return { isError: result.isError === true, text: result.content[0].text };
  };
  const found = {
    tools: tools.map((tool) => tool.name),
    products: await call("list_records", { kind: "products" }),
    missing: await call("read_record", { kind: "products", id: 999999 }),
  };
  await client.close();
  console.log(JSON.stringify(found));
}
