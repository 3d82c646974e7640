// Reads of products, hand-written on Fastify, PostgreSQL and Redis, for comparison by script/bench.
//
// For these two routes it does what Portico does: API key by SHA-256, both rate-limit windows in one
// Redis script and their headers, request id, validation, exact total, ETag. It always takes the
// fastest correct way: verified keys are cached for a second, statements are prepared, a trigger
// keeps the totals, concurrent Redis calls are sent in one exchange, the ETag is a SHA-1 of the body,
// and there is no logging and no metrics.
//
//   DATABASE_URL=… REDIS_URL=… node stores.js PORT
'use strict'

const { Pool, types } = require('pg')
const Redis = require('ioredis')
const {
  FREE, ID, LIST_COLUMNS, application, missing, permit, presented, remember, tellLimits, toFullBody, toPage
} = require('./application')
const schemas = require('./schemas')

const [port] = process.argv.slice(2)
const CONNECTIONS = 10

types.setTypeParser(types.builtins.INT8, Number)
const db = new Pool({ connectionString: process.env.DATABASE_URL, max: CONNECTIONS })
const redis = new Redis(process.env.REDIS_URL, { enableAutoPipelining: true })

const KEY = {
  name: 'key',
  text: 'SELECT account_id, scopes, per_minute, per_day, expires_at FROM api_keys WHERE key_hash = $1'
}
const PRODUCT = {
  name: 'product',
  text: `SELECT ${LIST_COLUMNS}, images, metadata FROM products WHERE id = $1`
}
const LIST = {
  name: 'list',
  text: `SELECT totals.total, page.* FROM totals LEFT JOIN (
    SELECT ${LIST_COLUMNS} FROM products WHERE status = $1 ORDER BY id DESC LIMIT $2 OFFSET $3
  ) AS page ON TRUE WHERE totals.status = $1 ORDER BY page.id DESC`
}

redis.defineCommand('take', {
  numberOfKeys: 2,
  lua: `
local minute, day = tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(redis.call('GET', KEYS[2]) or 0)
if minute >= tonumber(ARGV[1]) or day >= tonumber(ARGV[2]) then return {0, minute, day} end
minute, day = redis.call('INCR', KEYS[1]), redis.call('INCR', KEYS[2])
if minute == 1 then redis.call('EXPIRE', KEYS[1], 120) end
if day == 1 then redis.call('EXPIRE', KEYS[2], 172800) end
return {1, minute, day}`
})

async function findCaller (authorization, now) {
  const sent = presented(authorization, now)
  if (sent === undefined || sent.caller !== undefined) return sent?.caller
  const { rows } = await db.query({ ...KEY, values: [Buffer.from(sent.digest, 'base64')] })
  return remember(sent.digest, rows[0], now)
}

async function takeOne (name, plan, now, reply) {
  const keys = [`${name}:minute:${Math.floor(now / 60_000)}`, `${name}:day:${Math.floor(now / 86_400_000)}`]
  const [admitted, minuteUsed, dayUsed] = await redis.take(...keys, plan.per_minute, plan.per_day)
  tellLimits(reply, plan, now, minuteUsed, dayUsed, !admitted)
}

const app = application()

app.addHook('onRequest', async (request, reply) => {
  const now = Date.now()
  reply.header('X-Request-Id', request.id)
  const caller = await findCaller(request.headers.authorization, now)
  await takeOne(caller?.account_id ?? request.ip, caller ?? FREE, now, reply)
  permit(caller, request, reply)
})

app.get('/v1/products/:id', { schema: schemas.getProduct, config: { scope: 'read:products' } }, async (request) => {
  const { id } = request.params
  const { rows } = ID.test(id) ? await db.query({ ...PRODUCT, values: [id] }) : { rows: [] }
  if (rows.length === 0) throw missing(id)
  return { data: toFullBody(rows[0]) }
})

app.get('/v1/products', { schema: schemas.listProducts, config: { scope: 'read:products' } }, async (request) => {
  const { page, limit, status } = request.query
  const { rows } = await db.query({ ...LIST, values: [status, limit, (page - 1) * limit] })
  return toPage(rows.filter(row => row.id !== null), rows[0].total, request.query)
})

process.on('SIGTERM', async () => {
  await app.close()
  await db.end()
  redis.disconnect()
})

app.listen({ host: '127.0.0.1', port: Number(port) })
