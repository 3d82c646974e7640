// The inputs and outputs of each route, from which Fastify compiles validators and serializers.
'use strict'

const listed = {
  id: { type: 'integer' },
  name: { type: 'string' },
  description: { type: 'string' },
  category: { type: 'string' },
  price: { type: 'number' },
  currency: { type: 'string' },
  in_stock: { type: 'boolean' },
  stock_quantity: { type: 'integer' },
  status: { type: 'string' },
  created_at: { type: 'string' },
  updated_at: { type: 'string' }
}

const full = {
  ...listed,
  images: {
    type: 'array',
    items: { type: 'object', properties: { url: { type: 'string' }, alt: { type: 'string' } } }
  },
  metadata: { type: 'object', additionalProperties: { type: 'string' } }
}

const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required })
const STATUS = { type: 'string', enum: ['active', 'archived', 'draft'] }

exports.getProduct = {
  params: object({ id: { type: 'string' } }),
  response: { 200: object({ data: object(full) }) }
}

exports.listProducts = {
  querystring: {
    type: 'object',
    additionalProperties: false,
    properties: {
      page: { type: 'integer', minimum: 1, default: 1 },
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 25 },
      status: { ...STATUS, default: 'active' }
    }
  },
  response: {
    200: object({
      data: { type: 'array', items: object(listed) },
      pagination: object({
        page: { type: 'integer' },
        limit: { type: 'integer' },
        total_items: { type: 'integer' },
        total_pages: { type: 'integer' }
      })
    })
  }
}

exports.createProduct = {
  body: {
    type: 'object',
    additionalProperties: false,
    required: ['name', 'category', 'price'],
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 200 },
      category: { type: 'string', minLength: 1, maxLength: 100 },
      description: { type: 'string', maxLength: 10_000, default: '' },
      price: { type: 'number', minimum: 0, exclusiveMaximum: 1e12 },
      currency: { type: 'string', pattern: '^[A-Z]{3}$', default: 'USD' },
      stock_quantity: { type: 'integer', minimum: 0, default: 0 },
      status: { ...STATUS, default: 'draft' }
    }
  },
  response: { 201: object({ data: object(full), message: { type: 'string' } }) }
}
