local function add(a, b)
  return a + b
end
function Shop.pay(cart)
end
