import x from 'x';
export default class Cart extends Base {
  #items = [];
  constructor(a) { super(); }
  async add(item, n = 1) { return n; }
  static get total() { return 1; }
}
export function pay(cart) { return 1; }
function* ids() { yield 1; }
const sum = (a, b) => a + b;
const handlers = {
  click: function (e) { return e; },
  key: (e) => e,
  run() {},
};
var old = function () {};
