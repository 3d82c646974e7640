-- compatible from: 28
-- A category in a price range, or in stock: by the prices alone, each page would look at the products of all
-- categories in that range.
CREATE INDEX products_by_category_and_price ON products (status, category, price, stock_quantity);
