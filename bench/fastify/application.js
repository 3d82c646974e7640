// Shared by both hand-written applications: errors, headers, bodies and Fastify hooks.
'use strict'

const crypto = require('node:crypto')
const fs = require('node:fs')
const Fastify = require('fastify')

class ApiError extends Error {
  constructor (statusCode, code, message, details = []) {
    super(message)
    this.statusCode = statusCode
    this.code = code
    this.details = details
  }
}

// --- Callers -----------------------------------------------------------------------------------

const KEY_SECONDS = 1
const KEYS_KEPT = 10_000
const FREE = { per_minute: 30, per_day: 1000 }
const callers = new Map()

// The digest of a sent key, and its caller if that was read within the last second.
function presented (authorization, now) {
  if (authorization === undefined || !authorization.startsWith('Bearer ')) return undefined
  const digest = crypto.hash('sha256', authorization.slice(7), 'base64')
  const known = callers.get(digest)
  return { digest, caller: known !== undefined && known.until > now ? known.caller : undefined }
}

// Caches the row of a key as a caller; undefined if there is none or it is not valid any more.
function remember (digest, row, now) {
  if (row === undefined || (row.expires_at !== null && row.expires_at <= now)) {
    callers.delete(digest)
    return undefined
  }
  row.scopes = new Set(row.scopes.split(' '))
  if (callers.size >= KEYS_KEPT) callers.clear()
  callers.set(digest, { caller: row, until: now + KEY_SECONDS * 1000 })
  return row
}

// Throws if a caller (undefined if not authenticated) may not use a route.
function permit (caller, request, reply) {
  if (caller === undefined) {
    reply.header('WWW-Authenticate', 'Bearer')
    throw new ApiError(401, 'AUTHENTICATION_REQUIRED', 'A valid API key is required.')
  }
  const { scope } = request.routeOptions.config
  if (scope !== undefined && !caller.scopes.has(scope)) {
    throw new ApiError(403, 'PERMISSION_DENIED', `This needs the scope ${scope}.`)
  }
}

// --- Rate limits -------------------------------------------------------------------------------

// Sets the headers of both windows from their usage, and throws if the request is refused.
function tellLimits (reply, plan, now, minuteUsed, dayUsed, refused) {
  const minuteLeft = plan.per_minute - minuteUsed
  const dayLeft = plan.per_day - dayUsed
  const minuteReset = (Math.floor(now / 60_000) + 1) * 60
  const dayReset = (Math.floor(now / 86_400_000) + 1) * 86_400
  const byDay = dayLeft <= minuteLeft
  reply.header('X-RateLimit-Limit', byDay ? plan.per_day : plan.per_minute)
  reply.header('X-RateLimit-Remaining', byDay ? dayLeft : minuteLeft)
  reply.header('X-RateLimit-Reset', byDay ? dayReset : minuteReset)
  if (refused) {
    reply.header('Retry-After', Math.max(1, Math.ceil((dayLeft <= 0 ? dayReset : minuteReset) - now / 1000)))
    throw new ApiError(429, 'RATE_LIMITED', 'Too many requests.')
  }
}

// --- Products ----------------------------------------------------------------------------------

const LIST_COLUMNS = 'id, name, description, category, price, currency, stock_quantity, status, created_at, updated_at'
const ID = /^[1-9][0-9]{0,15}$/

function toBody (row) {
  row.price /= 10_000
  row.in_stock = row.stock_quantity > 0
  row.created_at = new Date(row.created_at).toISOString()
  row.updated_at = new Date(row.updated_at).toISOString()
  return row
}

function toFullBody (row) {
  row.images = row.images === '[]' ? [] : JSON.parse(row.images)
  row.metadata = row.metadata === '{}' ? {} : JSON.parse(row.metadata)
  return toBody(row)
}

function missing (id) {
  return new ApiError(404, 'RESOURCE_NOT_FOUND', `There is no product ${id}.`)
}

function toPage (data, total, { page, limit }) {
  data.forEach(toBody)
  return { data, pagination: { page, limit, total_items: total, total_pages: Math.ceil(total / limit) } }
}

// --- Application -------------------------------------------------------------------------------

function application (certificate, key) {
  const app = Fastify({
    logger: false,
    genReqId: () => crypto.randomUUID(),
    requestIdHeader: false,
    bodyLimit: 1024 * 1024,
    ajv: { customOptions: { removeAdditional: false, allErrors: true } },
    ...(certificate && {
      https: { cert: fs.readFileSync(certificate), key: fs.readFileSync(key), minVersion: 'TLSv1.2', maxVersion: 'TLSv1.3' }
    })
  })

  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.method !== 'GET' || reply.statusCode !== 200) return done(null, payload)
    const etag = `"${crypto.hash('sha1', payload, 'base64url')}"`
    reply.header('ETag', etag)
    if (request.headers['if-none-match'] === etag) {
      reply.code(304)
      return done(null, '')
    }
    done(null, payload)
  })

  app.setErrorHandler((error, request, reply) => {
    const details = error.details ?? (error.validation ?? []).map(({ instancePath, params, message }) => ({
      field: (instancePath.slice(1) || params.missingProperty || params.additionalProperty || '').replaceAll('/', '.'),
      message
    }))
    const status = error.statusCode ?? 500
    const code = error instanceof ApiError ? error.code : status < 500 ? 'VALIDATION_ERROR' : 'INTERNAL_ERROR'
    reply.code(status).send({ error: { code, message: status < 500 ? error.message : 'Internal error.', details } })
  })

  app.setNotFoundHandler(() => {
    throw new ApiError(404, 'RESOURCE_NOT_FOUND', 'There is nothing at this address.')
  })

  return app
}

module.exports = {
  FREE, ID, LIST_COLUMNS, application, missing, permit, presented, remember, tellLimits, toFullBody, toPage
}
